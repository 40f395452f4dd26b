"""One table's messages decoded again from bronze, in place of what silver holds of them.

They pass the same functions as a batch. Each message keeps its batch, so nothing that is numbered by batches
moves, and all its outcomes are replaced in one commit. A message of which `forget` removed a row keeps what
silver has of it: its bytes are gone, or, in a second delivery, would bring the row back under another key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from operator import add

import pyarrow as pa
from pyspark.sql import Column as Condition
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.events import Column
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.seed import Seed
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE, QUARANTINE_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID, QUARANTINE, SCHEMAS
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merge
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.session_size import tune_for_lakehouse
from framework.lakehouse.staging import discard_staging, materialize, staging_folder
from framework.pipeline.fault_injection import crash_point
from framework.spark.local_frame import arrow_frame, local_frame
from framework.text.formatting import quantity
from silver.batches import changes_table, encodings, landings, quarantine
from silver.batches.arrival import BatchExtent
from silver.batches.changes_table import changes_of
from silver.batches.contents import Contents
from silver.batches.decisions import Decided, decide_outcomes
from silver.batches.decoded_again import DecodedAgain
from silver.batches.decoding import decode_batch
from silver.batches.few_landings import IDENTIFIED_MESSAGES
from silver.batches.landings import (
    LANDING_ID,
    before_halves_of,
    identify_all,
    relanding_of_outcome,
    with_landing_id,
)
from silver.batches.partition_progress import order_by_partition
from silver.batches.run_state import RunState
from silver.batches.seed_plans import declared_columns, seeds_among
from silver.changes.staged_rows import OF_FIRST_LANDING, of_first_landing
from silver.operations.few_redecode import FewMessages, read_few
from silver.stream import repair_log
from silver.stream.recovery import finish_repair
from silver.stream.resume import last_batch_id

_NAMED = 3
_STAGING = "again"


@dataclass(frozen=True, slots=True)
class RedecodeResult:
    """How many messages were decoded again, and how many were not because `forget` removed rows of them.

    Of the decoded ones, `refused` have gone to quarantine, and `freed` have come out of it.
    """

    decoded: int = 0
    kept: int = 0
    refused: int = 0
    freed: int = 0

    def __add__(self, other: RedecodeResult) -> RedecodeResult:
        """The sum of both."""
        return RedecodeResult(*map(add, astuple(self), astuple(other)))


def redecode_tables(
    spark: SparkSession,
    state: RunState,
    source: str,
    tables: Mapping[TableName, str],
    *,
    with_unread: bool = False,
) -> RedecodeResult:
    """Replace what silver holds of the messages of these tables, in one commit.

    Args:
        spark: The session.
        state: The state of the run.
        source: The source of the tables.
        tables: The tables, each with the sequence from which on; empty for all rows.
        with_unread: Whether to decode messages of the source too that are in quarantine because they are not
            text in their encoding, and are not dismissed. Their tables are unknown: they may be of these.

    Raises:
        MainstemError: BRONZE_TOO_SHORT, if a message is no longer in bronze; then nothing changes.
    """
    tune_for_lakehouse(spark, state.lake)
    few = read_few(spark, state, source, tables, with_unread)
    if few is None:
        result = _redecode_tables(spark, state, source, tables, with_unread)
    else:
        result = _redecode_few(spark, state, source, few)
    discard_staging(state.lake, _STAGING)
    if result.decoded:
        finish_repair(spark, state, source)
    return result


def _redecode_few(spark: SparkSession, state: RunState, source: str, few: FewMessages) -> RedecodeResult:
    """The same for few messages, in this process as far as possible."""
    if few.arrived.here is not None and few.arrived.messages:
        messages = arrow_frame(spark, pa.Table.from_batches([few.arrived.here]), IDENTIFIED_MESSAGES)
        again = DecodedAgain(messages.select(*MESSAGE_ID).distinct(), few.again)
        decided = _decide(messages, state, few.arrived, again)
        rows = few.outcomes(decided.rows.toArrow() if decided.few is None else decided.few)
        repair_log.begin(spark, state.lake, source, few.tables(rows))
        refused, freed = few.refusals(rows)
        frame = arrow_frame(spark, rows, CHANGES)
        if "quarantined" in rows.column("kind").to_pylist():
            quarantine.update_reasons(state.lake, frame)
        crash_point("silver.before_again")
        if not few.replace(spark, state, rows):
            _replace(state, frame)
        crash_point("silver.after_again")
        return RedecodeResult(few.arrived.messages, few.gone, refused, freed)
    return RedecodeResult(few.arrived.messages, few.gone)


def _redecode_tables(
    spark: SparkSession, state: RunState, source: str, tables: Mapping[TableName, str], with_unread: bool
) -> RedecodeResult:
    """The same for any number of messages, in Spark's tasks."""
    changes = (
        state.lake.read(spark, CHANGES_TABLE)
        .where(F.col("source") == source)
        .withColumn("relanding", relanding_of_outcome())
    )
    bronze = state.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == source)
    mine = rows_of_tables(changes, source, tables)
    wanted = mine.unionByName(_unread(changes, state.lake)) if with_unread else mine
    with materialize(_batches(changes, wanted), state.lake, "again_landings") as batches:
        near = bronze.join(batches.select(*MESSAGE_AT).distinct(), list(MESSAGE_AT), "left_semi")
        known = identify_all(near, state.lake, state.source_epochs(spark)).where("NOT is_reused")
        marked = _with_gone(with_landing_id(known).join(batches, list(LANDING_ID), "left"), changes)
        with materialize(marked, state.lake, "again_messages") as found:
            _check_reach(mine, found, source, list(tables))
            return _redecode(state, source, found, batches, changes)


def _redecode(
    state: RunState, source: str, found: DataFrame, batches: DataFrame, changes: DataFrame
) -> RedecodeResult:
    """Replace the outcomes of those messages that have a `batch` and are not gone.

    Args:
        state: The state of the run.
        source: The source of the messages.
        found: Messages with LANDING_ID, `batch` and `is_gone`.
        batches: The landings (LANDING_ID) to decode, with `batch`.
        changes: The changes of the source, with `relanding`.
    """
    wanted = found.where("batch IS NOT NULL").drop("batch")
    readable, gone, landed_at = wanted.agg(
        F.count_if(~F.col("is_gone")), F.count_if("is_gone"), F.max("ingested_at")
    ).first() or (0, 0, None)
    if readable:
        messages = (
            wanted.where("NOT is_gone")
            .drop("is_gone")
            .withColumn("relanding", F.expr("nullif(relanding, '')"))
        )
        rows = _write_outcomes(messages, batches, state, BatchExtent(readable, landed_at))
        repair_log.begin(messages.sparkSession, state.lake, source, _tables(changes, rows))
        refused, freed = _refusals(changes, rows)
        quarantine.update_reasons(state.lake, rows)
        crash_point("silver.before_again")
        _replace(state, rows)
        crash_point("silver.after_again")
        return RedecodeResult(readable, gone, refused, freed)
    return RedecodeResult(readable, gone)


def rows_of_tables(changes: DataFrame, source: str, tables: Mapping[TableName, str]) -> DataFrame:
    """The changes of these tables of a source, each from a sequence on (empty: all)."""
    if len(tables) == 1:
        ((name, since),) = tables.items()
        mine = changes.where(changes_table.is_of(source, name))
        return mine.where(F.col("sequence") >= since) if since else mine
    rows = [(name.database, name.schema, name.table, since) for name, since in tables.items()]
    schema = "of_database string, of_schema string, of_table string, since string"
    wanted = F.broadcast(local_frame(changes.sparkSession, rows, schema))
    is_wanted = [
        *(changes[part].eqNullSafe(wanted[f"of_{part}"]) for part in ("database", "schema", "table")),
        (wanted["since"] == "") | (changes["sequence"] >= wanted["since"]),
    ]
    return changes.where(F.col("source") == source).join(wanted, is_wanted, "left_semi")


def _unread(changes: DataFrame, lake: Lakehouse) -> DataFrame:
    """The refusals of messages of unknown tables that are not text, and neither read since nor dismissed."""
    refused = changes.where(_is_quarantined()).where(F.col("reason") == str(Reason.ENCODING))
    read = changes.where(~_is_quarantined()).where(OF_FIRST_LANDING)
    dismissed = lake.rows(changes.sparkSession, QUARANTINE_TABLE, QUARANTINE).where(
        "dismissed_at IS NOT NULL"
    )
    known = read.select(*MESSAGE_ID).unionByName(dismissed.select(*MESSAGE_ID))
    return (
        refused.where("`table` IS NULL").join(known, list(MESSAGE_ID), "left_anti").select(*changes.columns)
    )


def _refusals(changes: DataFrame, rows: DataFrame) -> tuple[int, int]:
    """How many rows of messages go to quarantine by their new outcomes, and how many come out of it."""
    before = changes.join(_places(rows), list(LANDING_ID), "left_semi")
    both = [
        frame.where(OF_FIRST_LANDING).select(
            *MESSAGE_ID, "ordinal", _is_quarantined().alias("is_refused"), F.lit(is_new).alias("is_new")
        )
        for frame, is_new in ((before, False), (rows, True))
    ]
    was, now = (
        F.coalesce(F.bool_and(F.when(F.col("is_new") == is_new, F.col("is_refused"))), F.lit(False))
        for is_new in (False, True)
    )
    found = (
        both[0].unionByName(both[1]).groupBy(*MESSAGE_ID, "ordinal").agg(was.alias("was"), now.alias("now"))
    )
    counts = found.agg(F.expr("count_if(now AND NOT was)"), F.expr("count_if(was AND NOT now)")).first()
    return (0, 0) if counts is None else (counts[0], counts[1])


def _is_quarantined() -> Condition:
    """Whether an outcome is that its message was refused."""
    return F.col("kind") == "quarantined"


def _with_gone(messages: DataFrame, changes: DataFrame) -> DataFrame:
    """Add `is_gone`: whether `forget` removed the bytes of a message, or a row of it."""
    forgotten = (
        changes.where(F.col("reason") == FORGOTTEN)
        .select(*MESSAGE_ID)
        .distinct()
        .withColumn("has_forgotten", F.lit(True))
    )
    is_empty = (
        F.col("key").isNull()
        & F.col("value").isNull()
        & F.exists("headers", lambda header: header["key"] == FORGOTTEN)
    )
    is_gone = F.coalesce(is_empty, F.lit(False)) | F.coalesce("has_forgotten", F.lit(False))
    return (
        messages.join(forgotten, list(MESSAGE_ID), "left")
        .withColumn("is_gone", is_gone)
        .drop("has_forgotten")
    )


def _batches(changes: DataFrame, mine: DataFrame) -> DataFrame:
    """The landings of these rows and of their other halves, with the last batch of each."""
    partners = before_halves_of(mine).withColumn("relanding", F.lit(""))
    places = mine.select(*LANDING_ID).unionByName(partners.select(*LANDING_ID)).distinct()
    halves = changes.where("paired_with IS NOT NULL").select(
        "source", "paired_with.*", "epoch", "batch", F.lit("").alias("relanding")
    )
    landings_with_batch = (
        changes.select(*LANDING_ID, "batch")
        .unionByName(halves.select(*LANDING_ID, "batch"))
        .join(places, list(LANDING_ID), "left_semi")
    )
    return landings_with_batch.groupBy(*LANDING_ID).agg(F.max("batch").alias("batch"))


def _write_outcomes(
    messages: DataFrame, batches: DataFrame, state: RunState, arrived: BatchExtent
) -> DataFrame:
    """The new outcomes of the messages, in files: the rows that they are computed from will be replaced."""
    place = f"{staging_folder(state.lake, _STAGING)}/outcomes"
    rows = _decide(messages, state, arrived, DecodedAgain(messages.select(*MESSAGE_ID).distinct())).rows
    changes_of(
        rows.withColumn("relanding", relanding_of_outcome()).join(batches, list(LANDING_ID))
    ).write.mode("overwrite").parquet(place)
    return read_parquet(messages.sparkSession, CHANGES, place)


def _decide(messages: DataFrame, state: RunState, arrived: BatchExtent, again: DecodedAgain) -> Decided:
    """Decode the messages, and decide the outcomes.

    The rows of a dump have the types of the feed, and those in silver may be about to change: they are read
    once more by the types that were decoded.
    """
    seeds = seeds_among(messages, state.lake)
    state.seed_types = {}  # known after the first pass, which is the only one without a dump
    try:
        staged, contents, decided = _decoded(messages, state, arrived, again)
        if seeds:
            state.seed_types = _seed_types((staged, contents, decided), state, again, seeds)
            staged, contents, decided = _decoded(messages, state, arrived, again)
    finally:
        state.seed_types = None
    state.append_schemas(staged, contents.schemas, 0)
    return decided


def _decoded(
    messages: DataFrame, state: RunState, arrived: BatchExtent, again: DecodedAgain
) -> tuple[DataFrame, Contents, Decided]:
    """The decoded rows, what they hold, and their outcomes."""
    spark, place = messages.sparkSession, f"{staging_folder(state.lake, _STAGING)}/decoded"
    staged, contents, shown = decode_batch(place, messages, state, arrived, last_batch_id(spark, state))
    if shown:
        encodings.append_rows(spark, state.lake, shown)
    ordered = order_by_partition(staged, state, contents)
    return staged, contents, decide_outcomes(ordered, state, arrived, contents, again)


def _seed_types(
    decoded: tuple[DataFrame, Contents, Decided], state: RunState, again: DecodedAgain, seeds: Sequence[Seed]
) -> dict[tuple[object, ...], Mapping[str, Column]]:
    """The columns of the feed as these outcomes declare them, and the changes that they do not replace."""
    staged, contents, decided = decoded
    spark, lake = staged.sparkSession, state.lake
    names = ("source", "database", "schema", "table", "kind", "reason", "schema_id", "sequence")
    others = again.others(lake.rows(spark, CHANGES_TABLE, CHANGES), state)
    changes = others.select(*names).unionByName(decided.rows.select(*names))
    known = lake.rows(spark, SCHEMAS_TABLE, SCHEMAS).select("schema_id", "columns")
    new = changes_table.schemas_of(staged, contents.schemas, 0).select("schema_id", "columns")
    schemas = known.unionByName(new)
    return {seed.identity: declared_columns(changes, schemas, seed) for seed in seeds}


def _tables(changes: DataFrame, rows: DataFrame) -> list[TableName]:
    """All tables that the messages had rows of before, or have now."""
    names = ("database", "schema", "table")
    before = changes.join(_places(rows), list(LANDING_ID), "left_semi").select(*names)
    found = before.unionByName(rows.select(*names)).where("`table` IS NOT NULL").distinct().collect()
    return [TableName(*row) for row in found]


def _places(rows: DataFrame) -> DataFrame:
    """The landings (LANDING_ID) of these outcomes."""
    partners = before_halves_of(rows).withColumn("relanding", F.lit(""))
    return (
        rows.select(*MESSAGE_ID, relanding_of_outcome()).unionByName(partners.select(*LANDING_ID)).distinct()
    )


def _replace(state: RunState, rows: DataFrame) -> None:
    """Replace all outcomes of their landings by these rows, in one commit."""
    blank = [F.lit(None).cast(f.dataType).alias(f.name) for f in CHANGES.fields if f.name not in MESSAGE_ID]
    columns = [F.col(f"`{n}`") for n in CHANGES.names]
    gone = _places(rows).select("*", *blank).select(*columns, "relanding", F.lit(True).alias("is_gone"))
    both = gone.unionByName(rows.select(*columns, relanding_of_outcome(), F.lit(False).alias("is_gone")))
    relanding = f"CASE WHEN {of_first_landing('t')} THEN '' ELSE t.detail END"
    is_of = f"s.is_gone AND {landings.SAME_MESSAGE} AND s.relanding = ({relanding})"
    merge = Merge(state.lake.location(CHANGES_TABLE), both, is_of)
    merge.delete().insert({f"`{n}`": f"s.`{n}`" for n in CHANGES.names}, "NOT s.is_gone").execute()


def _check_reach(mine: DataFrame, bronze: DataFrame, source: str, tables: Sequence[TableName]) -> None:
    """Raise if a message of the tables is no longer in bronze."""
    own = mine.select(*MESSAGE_ID, "sequence", "event_time")
    partners = mine.where("paired_with IS NOT NULL").select(
        "source", "paired_with.*", "epoch", "sequence", "event_time"
    )
    lost = own.unionByName(partners).join(bronze, list(MESSAGE_ID), "left_anti")
    first = F.min_by(F.struct("topic", "partition", "offset", "event_time"), "sequence")
    last = F.max_by(F.struct("topic", "partition", "offset", "event_time"), "sequence")
    found = lost.agg(F.count_distinct("topic", "partition", "offset"), first, last).first()
    if found is None or not found[0]:
        return
    raise MainstemError(
        "BRONZE_TOO_SHORT",
        found=f"{quantity(found[0], 'message of the table is', 'messages of the table are')}"
        f" gone from bronze, from {_describe(found[1])} to {_describe(found[2])}",
        where=f"source {source}, table {named_few(tables)}",
        action="bring them back into bronze/messages; or rebuild from silver, which has them:"
        " leave out `--from bronze`",
    )


def named_few(tables: Sequence[TableName]) -> str:
    """The names of the first tables, and how many there are besides."""
    names = ", ".join(name.dotted for name in tables[:_NAMED])
    more = len(tables) - _NAMED
    return f"{names} and {quantity(more, 'more table')}" if more > 0 else names


def _describe(place: Row | None) -> str:
    if place is None:
        return "an unknown place"
    moment: datetime | None = place["event_time"]
    return f"{place['topic']}:{place['partition']}:{place['offset']}" + (
        f" ({moment.isoformat()}Z)" if moment else ""
    )
