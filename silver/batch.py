"""One batch of messages: decoded once, every fate in one commit, and what follows from that commit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.contracts.reasons import Reason
from framework.contracts.tables import CHANGES, MESSAGES
from framework.crash import crash_point
from framework.errors import MainstemError
from framework.notes import is_there
from framework.pace import SMALL_ROWS, set_pace
from silver import derived, epochs, fates, resets
from silver.desk import STRIDE, Desk, Shown, later
from silver.formats import FORMATS
from silver.normalize import normalizer
from silver.rows import STAGED_DDL

MESSAGES_TABLE = "bronze/messages"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a decoded batch holds of one source.

    `min_sequence` is without the tie-breakers, in which a redelivery differs: all that could be repeated is not below it.
    """

    source: str
    messages: int
    halves: int
    updates: int
    min_sequence: str | None
    min_event_time: datetime | None
    max_event_time: datetime | None
    servers: int


def normalize_batch(messages: DataFrame, batch: int, desk: Desk, *, is_replay: bool = False) -> int:
    """Commit the fates of these rows of `bronze/messages`, once, and what follows from them. Returns how many there were.

    A replay of quarantined messages commits those that leave quarantine, and notes the new reason of those that stay.
    """
    spark = messages.sparkSession
    known = messages.where(F.col("source").isin(*desk.plans)).select(*(F.col(f"`{n}`") for n in MESSAGES.names))
    received, clock = known.agg(F.count("*"), F.max("ingested_at")).first() or (0, None)
    if not received:  # a stream that has batches has its table
        desk.lake.create(spark, derived.CHANGES_TABLE, CHANGES, derived.CHANGES_PROPERTIES)
        return 0
    set_pace(spark, received)
    if not _is_committed(spark, desk, batch):
        _commit(known, batch, desk, received, is_replay)
    desk.note(derive(known, batch, desk, clock), received)
    return int(received)


def _is_committed(spark: SparkSession, desk: Desk, batch: int) -> bool:
    if not desk.lake.exists(spark, derived.CHANGES_TABLE):
        return False
    return not desk.lake.read(spark, derived.CHANGES_TABLE).where(F.col("batch") == batch).isEmpty()


def _commit(messages: DataFrame, batch: int, desk: Desk, received: int, is_replay: bool) -> None:
    spark, lake = messages.sparkSession, desk.lake
    crash_point("silver.before_staging")
    staging = f"{lake.checkpoints}/staging/silver"
    messages.mapInArrow(normalizer(desk.plans_for(messages)), STAGED_DDL).write.mode("overwrite").parquet(staging)
    staged = spark.read.schema(STAGED_DDL).parquet(staging)
    rows = _fates(staged, desk, batch, received)
    if is_there(spark, f"{lake.checkpoints}/silver.forgotten"):
        rows = fates.without_forgotten(rows, lake.rows(spark, derived.CHANGES_TABLE, CHANGES))
    derived.append_schemas(lake, staged, batch, desk.transaction("schemas", batch), desk.known_schemas(spark))
    crash_point("silver.before_changes")
    if is_replay:
        derived.note_refused_again(lake, rows)
        rows = rows.where("kind <> 'quarantined'")
    changes = rows.withColumn("batch", F.lit(batch).cast("long")).select(*(F.col(f"`{n}`") for n in CHANGES.names))
    if received < SMALL_ROWS:
        changes = changes.coalesce(1)
    lake.append(changes, derived.CHANGES_TABLE, desk.transaction("changes", batch), derived.CHANGES_PROPERTIES)
    crash_point("silver.after_changes")
    if lake.local_root is not None:
        shutil.rmtree(staging, ignore_errors=True)


def _fates(staged: DataFrame, desk: Desk, batch: int, received: int) -> DataFrame:
    summaries = [Summary(*row) for row in _summary(staged).collect()]
    decoded = sum(s.messages for s in summaries)
    if decoded != received:
        raise MainstemError(
            "MESSAGES_UNACCOUNTED",
            found=f"{received} messages in a batch, {decoded} fates",
            where="silver",
            action="report this: nothing was written, bronze keeps every message",
        )
    spark = staged.sparkSession
    shown = desk.shown_sources(spark)
    history = _history(spark, desk, summaries, shown)
    repeats = fates.repeated_ids(staged.where("half is null"), history)
    whole = staged.where("half is null")
    if not repeats.isEmpty():
        whole = _without_repeats(whole, repeats, history, desk.config)
    stops = _stops(whole, desk, summaries, shown)
    if stops:
        rows = [epochs.stopped(stop, desk.config.sources[stop.source].epoch, batch) for stop in stops]
        epochs.append_rows(spark, desk.lake, rows, desk.transaction("epochs", batch))
        whole, staged = resets.without_held(whole, stops), resets.without_held(staged, stops)
    if not any(s.halves or s.updates for s in summaries if FORMATS[desk.config.sources[s.source].format].halves):
        return whole
    if not any(s.halves for s in summaries) and not derived.has_pending(spark, desk.lake):
        return whole
    pending = desk.lake.rows(spark, derived.PENDING_TABLE, CHANGES)
    return whole.unionByName(fates.paired(staged, pending, history, _deadlines(shown, desk.config, summaries)))


def _without_repeats(whole: DataFrame, repeats: DataFrame, history: DataFrame | None, config: Config) -> DataFrame:
    by_time = [name for name, source in config.sources.items() if not FORMATS[source.format].positions_are_unique]
    if not by_time:
        return fates.without_repeats(whole, repeats)
    is_time = F.col("source").isin(*by_time) & (F.col("kind") == "row")
    rest, settled = fates.settled_repeats(whole.where(is_time), repeats, history)
    return fates.without_repeats(whole.where(~is_time), repeats).unionByName(rest).unionByName(settled)


def _summary(staged: DataFrame) -> DataFrame:
    counted = (F.col("ordinal") == 0).cast("long") + F.col("paired_with").isNotNull().cast("long")
    return staged.groupBy("source").agg(
        F.sum(counted),
        F.sum(F.col("half").isNotNull().cast("long")),
        F.sum((F.col("op") == "update").cast("long")),
        F.min(F.coalesce("position", F.regexp_extract("sequence", r"^\d+\.", 0))),
        F.min("event_time"),
        F.max("event_time"),
        F.count("server"),
    )


def _stops(whole: DataFrame, desk: Desk, summaries: Sequence[Summary], shown: Mapping[str, Shown]) -> list[resets.Stop]:
    waits = {}
    for summary in summaries:
        source = desk.config.sources[summary.source]
        span = (summary.min_event_time, summary.max_event_time)
        is_behind = _is_behind(summary, shown)
        if resets.concerns(FORMATS[source.format], span, source.pairing_timeout, is_behind, summary.servers):
            waits[summary.source] = source.pairing_timeout
    if not waits:
        return []
    return resets.found(whole, desk.extents(whole.sparkSession, list(waits), resets.EXTENTS), waits)


def _is_behind(summary: Summary, shown: Mapping[str, Shown]) -> bool:
    top = shown[summary.source].sequence if summary.source in shown else None
    return summary.min_sequence is not None and top is not None and summary.min_sequence <= top


def _history(spark: SparkSession, desk: Desk, summaries: Sequence[Summary], shown: Mapping[str, Shown]) -> DataFrame | None:
    """Earlier changes that this batch could repeat; None where all its positions are beyond what each source has shown."""
    found = None
    for summary in summaries:
        if _is_behind(summary, shown):
            mine = (F.col("source") == summary.source) & (F.col("sequence") >= F.lit(summary.min_sequence))
            found = mine if found is None else found | mine
    if found is None:
        return None
    return desk.lake.read(spark, derived.CHANGES_TABLE).where(found & (F.col("kind").isin(*fates.IDENTIFIED) | F.expr(fates.UNPAIRED)))


def _deadlines(shown: Mapping[str, Shown], config: Config, summaries: Sequence[Summary]) -> dict[str, datetime | None]:
    """Per source the event time before which a waiting half is released: the source's newest less its `pairing_timeout`."""
    newest = {source: extent.event_time for source, extent in shown.items()}
    for summary in summaries:
        newest[summary.source] = later(newest.get(summary.source), summary.max_event_time)
    deadlines: dict[str, datetime | None] = {}
    for name, source in config.sources.items():
        top = newest.get(name)
        try:
            deadlines[name] = None if top is None else top - source.pairing_timeout
        except OverflowError:
            deadlines[name] = None
    return deadlines


def derive(messages: DataFrame, batch: int, desk: Desk, clock: object) -> list[Row]:
    """What follows from a committed batch; a repeat changes nothing. Returns its counts."""
    spark, lake = messages.sparkSession, desk.lake
    committed = lake.read(spark, derived.CHANGES_TABLE).where(F.col("batch") == batch)
    counts = derived.count_rows(committed)
    kinds = {row["kind"] for row in counts}
    if "quarantined" in kinds:
        reasons = {row["reason"] for row in counts}
        is_older = reasons & {Reason.UNPAIRED_BEFORE_IMAGE, Reason.AMBIGUOUS_PAIR}
        derived.merge_quarantine(lake, committed, lake.read(spark, MESSAGES_TABLE) if is_older else messages)
    if "row" in kinds and any(extent.has_unpaired for extent in desk.shown_tables(spark).values()):
        derived.resolve_unpaired(lake, committed)
    crash_point("silver.after_quarantine")
    if _has_waiting(counts, desk.config) or derived.has_pending(spark, lake):
        derived.merge_pending(lake, committed)
    crash_point("silver.after_pending")
    if kinds & {"ddl", "truncate"}:
        derived.append_statements(lake, committed, desk.transaction("statements", batch))
    if batch % STRIDE:
        derived.resolve_replayed(lake, committed)
    derived.append_counts(lake, spark, counts, clock, desk.transaction("counts", batch))
    crash_point("silver.after_counts")
    return counts


def _has_waiting(counts: Sequence[Row], config: Config) -> bool:
    """Whether halves of the batch may wait; those of formats without halves wait for nothing."""
    pairing = {name for name, source in config.sources.items() if FORMATS[source.format].halves}
    return any(row["kind"] == "half" and row["source"] in pairing for row in counts)
