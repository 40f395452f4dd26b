"""Silver's I/O: bronze messages in, one commit of every fate out, batch by batch."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.contracts.reasons import Reason
from framework.contracts.tables import CHANGES, MESSAGES, QUARANTINE, SCHEMAS
from framework.crash import crash_point
from framework.errors import MainstemError
from framework.pace import SMALL_ROWS, set_pace
from framework.tables import Lakehouse, Transaction
from silver import derived, fates
from silver.format import Context, Options
from silver.formats import FORMATS
from silver.normalize import SourcePlan, normalizer
from silver.rows import STAGED_DDL

MESSAGES_TABLE = "bronze/messages"
MAX_MESSAGE_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Summary:
    """What a decoded batch holds of one source."""

    source: str
    messages: int
    halves: int
    updates: int
    refused: int
    min_sequence: str | None
    max_event_time: datetime | None


@dataclass(frozen=True, slots=True)
class SilverResult:
    """What a run of silver did: messages read, and the counts of its batches (rows of `ops/batches`)."""

    messages: int
    counts: Sequence[Row] = ()


def run_silver(spark: SparkSession, lake: Lakehouse, config: Config, run_id: str) -> SilverResult:
    """Normalize all messages that bronze holds and silver has not read yet."""
    if not lake.exists(spark, MESSAGES_TABLE):
        return SilverResult(0)
    lake.create(spark, derived.PENDING_TABLE, CHANGES)
    lake.create(spark, derived.QUARANTINE_TABLE, QUARANTINE)
    desk = _Desk(lake, config, source_plans(config))

    def normalize(messages: DataFrame, stream_batch: int) -> None:
        normalize_batch(messages, stream_batch, desk)

    reader = spark.readStream.format("delta").option("maxBytesPerTrigger", "512m")
    query = (
        reader.load(lake.path(MESSAGES_TABLE))
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", f"{lake.checkpoints}/silver")
        .foreachBatch(normalize)
        .start()
    )
    query.awaitTermination()
    return SilverResult(desk.messages, desk.counts)


def source_plans(config: Config) -> dict[str, SourcePlan]:
    """What the decoding tasks know of each source."""
    plans = {}
    for name, source in config.sources.items():
        context = Context(
            source=name,
            options=cast(Options, source.options),
            timezone=source.timezone,
            keys_of=functools.partial(_keys_of, config),
            codecs_of=functools.partial(_codecs_of, config),
        )
        is_excluded = functools.partial(_is_excluded, config)
        plans[name] = SourcePlan(FORMATS[source.format], context, source.epoch, is_excluded, MAX_MESSAGE_BYTES)
    return plans


def _keys_of(config: Config, database: str | None, schema: str | None, table: str) -> tuple[str, ...] | None:
    return config.settings(database, schema, table).keys


def _codecs_of(config: Config, database: str | None, schema: str | None, table: str) -> dict[str, str]:
    columns = config.settings(database, schema, table).columns
    return {name: column.decode for name, column in columns.items() if column.decode}


def _is_excluded(config: Config, database: str | None, schema: str | None, table: str) -> bool:
    return config.settings(database, schema, table).exclude


@dataclass(frozen=True, slots=True)
class _Shown:
    """The highest sequence and the newest event time of a source, and whether a half of it was refused for want of a partner."""

    sequence: str | None = None
    event_time: datetime | None = None
    has_unpaired: bool = False


_Moment = TypeVar("_Moment", str, datetime)


def _later(one: _Moment | None, other: _Moment | None) -> _Moment | None:
    return max((value for value in (one, other) if value is not None), default=None)


@dataclass(slots=True)
class _Desk:
    """What the batches of one run share, and what they counted.

    `schemas` are the ids that `silver/schemas` holds and `shown` is how far each source has come, null until they were read.
    """

    lake: Lakehouse
    config: Config
    plans: Mapping[str, SourcePlan]
    schemas: set[str] | None = None
    shown: dict[str, _Shown] | None = None
    messages: int = 0
    counts: list[Row] = field(default_factory=list)

    def transaction(self, step: str, batch: int) -> Transaction:
        return Transaction(f"{self.config.pipeline}/silver/{step}", batch)

    def known_schemas(self, spark: SparkSession) -> set[str]:
        if self.schemas is None:
            self.schemas = {row[0] for row in self.lake.rows(spark, derived.SCHEMAS_TABLE, SCHEMAS).select("schema_id").collect()}
        return self.schemas

    def shown_by(self, spark: SparkSession) -> dict[str, _Shown]:
        """How far each source has come in the batches before."""
        if self.shown is None:
            counts = self.lake.rows(spark, derived.COUNTS_TABLE, derived.COUNTS_SCHEMA)
            is_unpaired = F.coalesce(F.col("reason") == str(Reason.UNPAIRED_BEFORE_IMAGE), F.lit(False))
            rows = counts.groupBy("source").agg(F.max("max_sequence"), F.max("max_event_time"), F.max(is_unpaired)).collect()
            self.shown = {row[0]: _Shown(*row[1:]) for row in rows}
        return self.shown

    def note(self, counts: Sequence[Row], messages: int) -> None:
        """Remember what a batch held."""
        self.messages += messages
        self.counts.extend(counts)
        shown = self.shown
        if shown is None:
            return
        for row in counts:
            old = shown.get(row["source"], _Shown())
            shown[row["source"]] = _Shown(
                _later(old.sequence, row["max_sequence"]),
                _later(old.event_time, row["max_event_time"]),
                old.has_unpaired or row["reason"] == Reason.UNPAIRED_BEFORE_IMAGE,
            )


def normalize_batch(messages: DataFrame, batch: int, desk: _Desk) -> None:
    """Commit the fates of one batch of messages, once, and what follows from them."""
    spark, lake = messages.sparkSession, desk.lake
    known = messages.where(F.col("source").isin(*desk.plans)).select(*(F.col(f"`{n}`") for n in MESSAGES.names))
    received, clock = known.agg(F.count("*"), F.max("ingested_at")).first() or (0, None)
    if not received:
        return
    set_pace(spark, received)
    if not lake.exists(spark, derived.CHANGES_TABLE) or lake.read(spark, derived.CHANGES_TABLE).where(F.col("batch") == batch).isEmpty():
        _commit(known, batch, desk, received)
    desk.note(_derive(known, batch, desk, clock), received)


def _commit(messages: DataFrame, batch: int, desk: _Desk, received: int) -> None:
    spark, lake = messages.sparkSession, desk.lake
    crash_point("silver.before_staging")
    staging = f"{lake.checkpoints}/staging/silver"
    messages.mapInArrow(normalizer(desk.plans), STAGED_DDL).write.mode("overwrite").parquet(staging)
    staged = spark.read.schema(STAGED_DDL).parquet(staging)
    rows = _fates(staged, desk, received)
    derived.append_schemas(lake, staged, batch, desk.transaction("schemas", batch), desk.known_schemas(spark))
    crash_point("silver.before_changes")
    changes = rows.withColumn("batch", F.lit(batch).cast("long")).select(*(F.col(f"`{n}`") for n in CHANGES.names))
    if received < SMALL_ROWS:
        changes = changes.coalesce(1)
    lake.append(changes, derived.CHANGES_TABLE, desk.transaction("changes", batch), derived.CHANGES_PROPERTIES)
    crash_point("silver.after_changes")
    if lake.local_root is not None:
        shutil.rmtree(staging, ignore_errors=True)


def _fates(staged: DataFrame, desk: _Desk, received: int) -> DataFrame:
    lake, config = desk.lake, desk.config
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
    history = _history(spark, desk, summaries)
    repeats = fates.repeated_ids(staged.where("half is null"), history)
    whole = staged.where("half is null")
    if not repeats.isEmpty():
        whole = _without_repeats(whole, repeats, history, config)
    if not any(s.halves or s.updates for s in summaries if FORMATS[config.sources[s.source].format].halves):
        return whole
    has_halves = any(s.halves for s in summaries)
    if not has_halves and not derived.has_pending(spark, lake):
        return whole
    pending = lake.rows(spark, derived.PENDING_TABLE, CHANGES)
    deadlines = _deadlines(desk.shown_by(spark), config, summaries)
    return whole.unionByName(fates.paired(staged, pending, history, deadlines))


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
        F.sum((F.col("kind") == "quarantined").cast("long")),
        F.min("sequence"),
        F.max("event_time"),
    )


def _history(spark: SparkSession, desk: _Desk, summaries: list[Summary]) -> DataFrame | None:
    """Earlier changes that this batch could repeat; None where all its positions are beyond what each source has shown."""
    shown = desk.shown_by(spark)
    found = None
    for summary in summaries:
        top = shown[summary.source].sequence if summary.source in shown else None
        if summary.min_sequence is not None and top is not None and summary.min_sequence <= top:
            mine = (F.col("source") == summary.source) & (F.col("sequence") >= summary.min_sequence)
            found = mine if found is None else found | mine
    if found is None:
        return None
    return desk.lake.read(spark, derived.CHANGES_TABLE).where(found & (F.col("kind").isin(*fates.IDENTIFIED) | F.expr(fates.UNPAIRED)))


def _deadlines(shown: Mapping[str, _Shown], config: Config, summaries: list[Summary]) -> dict[str, datetime | None]:
    """Per source the event time before which a waiting half is released: the source's newest less its `pairing_timeout`."""
    newest = {source: extent.event_time for source, extent in shown.items()}
    for summary in summaries:
        newest[summary.source] = _later(newest.get(summary.source), summary.max_event_time)
    deadlines: dict[str, datetime | None] = {}
    for name, source in config.sources.items():
        top = newest.get(name)
        try:
            deadlines[name] = None if top is None else top - source.pairing_timeout
        except OverflowError:
            deadlines[name] = None
    return deadlines


def _derive(messages: DataFrame, batch: int, desk: _Desk, clock: object) -> list[Row]:
    spark, lake = messages.sparkSession, desk.lake
    committed = lake.read(spark, derived.CHANGES_TABLE).where(F.col("batch") == batch)
    counts = derived.count_rows(committed)
    kinds = {row["kind"] for row in counts}
    if "quarantined" in kinds:
        reasons = {row["reason"] for row in counts}
        is_older = reasons & {Reason.UNPAIRED_BEFORE_IMAGE, Reason.AMBIGUOUS_PAIR}
        derived.merge_quarantine(lake, committed, lake.read(spark, MESSAGES_TABLE) if is_older else messages)
    if "row" in kinds and any(extent.has_unpaired for extent in desk.shown_by(spark).values()):
        derived.resolve_unpaired(lake, committed)
    crash_point("silver.after_quarantine")
    if "half" in kinds or derived.has_pending(spark, lake):
        derived.merge_pending(lake, committed)
    crash_point("silver.after_pending")
    if kinds & {"ddl", "truncate"}:
        derived.append_statements(lake, committed, desk.transaction("statements", batch))
    derived.append_counts(lake, spark, counts, clock, desk.transaction("counts", batch))
    crash_point("silver.after_counts")
    return counts
