"""Removing a row's values from silver.

Outcomes stay without images, so that a redelivery is still recognized.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import DML, actions_text
from framework.contracts.erasure import FORGOTTEN, Erasure
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGES, QUARANTINE
from framework.lakehouse.deletion_vectors import purge_marked_rows
from framework.lakehouse.merge import Merge
from framework.lakehouse.staging import clear_staging
from framework.naming import text_literal
from framework.pipeline.layer import Run
from framework.spark.columns import with_one_of
from framework.spark.local_frame import local_frame
from silver.batches.landings import upgrade_tables
from silver.changes.staged_rows import OF_FIRST_LANDING
from silver.stream.known_progress import mark_repaired
from silver.stream.opened_state import noted_older_copy, open_repair
from silver.stream.rederivation import rederive
from silver.stream.resume import without_outcome

_WITH_ID = "'row', 'excluded'"
"""The kinds of the changes that an erasure names."""
_PLACES = "topic string, `partition` int, offset bigint, epoch int"


def erase(run: Run, erasure: Erasure) -> dict[str, int] | None:
    """Empty the changes of these messages, and remove their waiting halves and quarantined messages.

    `quarantined_suspects` counts messages that stay in quarantine and contain a value of one of the keys:
    nobody could read which row they belong to. `unread` counts messages in bronze without an outcome, also
    those of sources that the configuration does not name.
    None while the changes are gone or an older copy, or other tables are: their newest state may be put back
    from a backup, with the row. Where an older copy of the changes is to stay, a run completes it first.
    """
    if not run.lake.exists(run.spark, CHANGES_TABLE) or noted_older_copy(run.spark, run.lake) is not None:
        return None
    state, _ = open_repair(run.spark, run.lake, run.config)
    upgrade_tables(run.spark, run.lake, run.config)
    places = F.broadcast(_places(run, erasure))
    is_there = (
        "t.topic = s.topic AND t.`partition` = s.`partition` AND t.offset = s.offset"
        " AND (s.epoch = 0 OR t.epoch = s.epoch)"
    )
    of_places = f"t.source = {text_literal(erasure.source)} AND {is_there}"
    gone = {
        "changes": len(erasure.change_ids),
        "pending": _of_places(run, PENDING_TABLE, erasure, places).count(),
        "quarantined": _of_places(run, QUARANTINE_TABLE, erasure, places).count(),
    }
    _empty(run, erasure, of_places)
    if gone["quarantined"]:
        Merge(run.lake.location(QUARANTINE_TABLE), places, of_places).delete().execute()
    clear_staging(run.spark, run.lake)
    rederive(run.spark, state, erasure.source)
    for name in (CHANGES_TABLE, QUARANTINE_TABLE, PENDING_TABLE):
        if run.lake.exists(run.spark, name):
            purge_marked_rows(run.spark, run.lake.location(name))
    gone["quarantined_suspects"] = _suspects(run, erasure)
    sources = [erasure.source, *state.epoch_history(run.spark).left_out(run.config.sources)]
    messages = run.lake.rows(run.spark, MESSAGES_TABLE, MESSAGES).where(F.col("source").isin(*sources))
    gone["unread"] = without_outcome(messages, state).count()
    mark_repaired(run.spark, run.lake)
    return gone


def _empty(run: Run, erasure: Erasure, of_places: str) -> None:
    """Remove the images from the outcomes.

    Changes, waiting halves and quarantined messages become excluded. A refusal after which the row was
    decoded stays one: the row has its outcome. Statements about rows lose their text.
    """
    waits = (
        _of_places(run, PENDING_TABLE, erasure)
        .select("topic", "partition", "offset")
        .withColumn("waits", F.lit(True))
    )
    at = ["topic", "partition", "offset"]
    places = _places(run, erasure).join(waits.distinct(), at, "left").join(_ids(run, erasure), at, "left")
    places = places.join(_decided(run, erasure), at, "left")
    blank = {"before": "null", "after": "null"}
    excluded = {**blank, "kind": "'excluded'", "reason": f"'{FORGOTTEN}'", "detail": "null"}
    is_row = f"t.kind IN ({_WITH_ID}) AND coalesce(array_contains(s.ids, t.change_id), false)"
    is_open = f"t.kind = 'quarantined' AND NOT coalesce(array_contains(s.decided, {_row('t.')}), false)"
    merge = Merge(run.lake.location(CHANGES_TABLE), F.broadcast(places), of_places)
    merge = merge.update(
        excluded, f"({is_row}) OR ({is_open}) OR (t.kind = 'half' AND coalesce(s.waits, false))"
    )
    merge = merge.update({**blank, "detail": "null"}, "t.kind = 'quarantined'")
    merge = merge.update(blank, "t.kind = 'half'")
    merge.update({"statement": "null"}, f"t.actions = {text_literal(actions_text([DML]))}").execute()


def _row(place: str = "") -> str:
    """A row of a message, within its coordinates."""
    return f"concat_ws('/', {place}epoch, {place}ordinal)"


def _decided(run: Run, erasure: Erasure) -> DataFrame:
    """Those rows of the messages that have an outcome other than a refusal, by coordinates: `decided`."""
    at = ["topic", "partition", "offset"]
    changes = run.lake.read(run.spark, CHANGES_TABLE).where(F.col("source") == erasure.source)
    decided = changes.where("kind NOT IN ('quarantined', 'half')").where(OF_FIRST_LANDING)
    mine = decided.join(F.broadcast(_places(run, erasure).select(*at).distinct()), at, "left_semi")
    return mine.groupBy(*at).agg(F.collect_set(F.expr(_row())).alias("decided"))


def _ids(run: Run, erasure: Erasure) -> DataFrame:
    """The ids of the changes by the coordinates of their message: `ids`, of which there are few."""
    changes = run.lake.read(run.spark, CHANGES_TABLE).where(
        (F.col("source") == erasure.source) & F.expr(f"kind IN ({_WITH_ID})")
    )
    mine = with_one_of(changes, "change_id", erasure.change_ids)
    return mine.groupBy("topic", "partition", "offset").agg(F.collect_set("change_id").alias("ids"))


def _of_places(run: Run, name: str, erasure: Erasure, places: DataFrame | None = None) -> DataFrame:
    """The rows of pending or quarantine that belong to the messages."""
    places = _places(run, erasure) if places is None else places
    rows = run.lake.rows(run.spark, name, CHANGES if name == PENDING_TABLE else QUARANTINE)
    at = ["topic", "partition", "offset"]
    its = F.broadcast(places.select(*at, F.col("epoch").alias("its")))
    is_it = [
        *(rows[name] == its[name] for name in at),
        (its["its"] == 0) | rows["epoch"].eqNullSafe(its["its"]),
    ]
    return rows.where(F.col("source") == erasure.source).join(its, is_it, "left_semi")


def _places(run: Run, erasure: Erasure) -> DataFrame:
    """The coordinates of the messages with their epochs; 0 stands for an epoch that is not recorded."""
    epochs = erasure.epochs or (0,) * len(erasure.places)
    return local_frame(
        run.spark, [(*place, epoch) for place, epoch in zip(erasure.places, epochs, strict=True)], _PLACES
    )


def _suspects(run: Run, erasure: Erasure) -> int:
    texts = {text for key in erasure.keys for text in key.values() if text is not None}
    waiting = run.lake.rows(run.spark, QUARANTINE_TABLE, QUARANTINE).where(
        (F.col("source") == erasure.source) & ~F.col("is_resolved")
    )
    return messages_with(waiting, texts).count()


def messages_with(messages: DataFrame, texts: Iterable[str]) -> DataFrame:
    """The messages whose key or value contains one of the texts: one expression for any number of them."""
    key, value = (F.coalesce(F.col(name).cast("string"), F.lit("")) for name in ("key", "value"))
    wanted = F.from_json(F.lit(json.dumps(sorted(texts))), "array<string>")
    return messages.where(F.exists(wanted, lambda text: F.contains(value, text) | F.contains(key, text)))
