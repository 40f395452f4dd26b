"""Taking a row's values out of silver. The fates stay, without images: a redelivery is still known, every message accounted for."""

from __future__ import annotations

import hashlib

from pyspark.sql import functions as F

from framework.contracts.erasure import FORGOTTEN, Erasure
from framework.contracts.tables import QUARANTINE
from framework.layer import Run
from framework.merge import Merge
from framework.names import text_literal
from framework.tables import Transaction
from silver import derived

_PLACES = "topic string, `partition` int, offset bigint"


def erase(run: Run, erasure: Erasure) -> dict[str, int]:
    """Empty the changes, and remove waiting halves and quarantined messages of these places.

    `quarantined_suspects` counts messages that stay in quarantine and hold one of the keys' values somewhere: nobody could
    read whose they are.
    """
    places = run.spark.createDataFrame(list(erasure.places), _PLACES)
    is_there = "t.topic = s.topic AND t.`partition` = s.`partition` AND t.offset = s.offset"
    of_places = f"t.source = {text_literal(erasure.source)} AND {is_there}"
    gone = {"changes": len(erasure.change_ids)}
    for count, name in (("pending", derived.PENDING_TABLE), ("quarantined", derived.QUARANTINE_TABLE)):
        gone[count] = 0
        if run.lake.exists(run.spark, name):
            mine = run.lake.read(run.spark, name).where(F.col("source") == erasure.source)
            gone[count] = mine.join(F.broadcast(places), ["topic", "partition", "offset"], "left_semi").count()
        if gone[count]:
            Merge(run.lake.place(name), places, of_places).delete().execute()
    _move_counts(run, erasure)
    blank = {"before": "null", "after": "null"}
    is_row = f"t.kind = 'row' AND t.change_id IN ({', '.join(map(text_literal, erasure.change_ids)) or 'null'})"
    merge = Merge(run.lake.place(derived.CHANGES_TABLE), F.broadcast(places), of_places)
    merge = merge.update({**blank, "kind": "'excluded'", "reason": f"'{FORGOTTEN}'"}, is_row)
    merge.update(blank, "t.kind = 'half'").execute()
    gone["quarantined_suspects"] = _suspects(run, erasure)
    return gone


def _move_counts(run: Run, erasure: Erasure) -> None:
    """Count what were rows as excluded, once: later rows of `ops/batches` add to the earlier ones of their batch."""
    rows = run.lake.read(run.spark, derived.CHANGES_TABLE).where(
        (F.col("source") == erasure.source) & F.col("change_id").isin(*erasure.change_ids) & (F.col("kind") == "row")
    )
    names = ("batch", "source", "database", "schema", "table")
    found = rows.groupBy(*names).agg(F.count("*"), F.sum(F.col("paired_with").isNotNull().cast("long"))).collect()
    moved = []
    for *place, count, merged in found:
        moved.append((*place, "row", None, -count, -merged, *[None] * 7))
        moved.append((*place, "excluded", FORGOTTEN, count, merged, *[None] * 7))
    if moved:
        frame = run.spark.createDataFrame(moved, derived.COUNTS_SCHEMA).coalesce(1)
        told = hashlib.sha256("\0".join((erasure.source, *erasure.change_ids)).encode()).hexdigest()[:24]
        run.lake.append(frame, derived.COUNTS_TABLE, Transaction(f"{run.config.pipeline}/forget/{told}", 1))


def _suspects(run: Run, erasure: Erasure) -> int:
    texts = {text for key in erasure.keys for text in key.values()}
    waiting = run.lake.rows(run.spark, derived.QUARANTINE_TABLE, QUARANTINE).where(
        (F.col("source") == erasure.source) & ~F.col("is_resolved")
    )
    value = F.coalesce(F.col("value").cast("string"), F.lit(""))
    holds = [value.contains(text) for text in sorted(texts)]
    return waiting.where(F.array_contains(F.array(*holds), True)).count()
