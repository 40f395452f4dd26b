"""One table's messages decoded again out of bronze, in place of what silver holds of it: the first half of a rebuild from bronze.

Each message keeps the batch in which it had its fate, so that nothing that is numbered by batches moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.contracts.actions import TableName
from framework.contracts.tables import CHANGES, MESSAGE_AT
from framework.crash import crash_point
from framework.errors import ConfigurationError, MainstemError, nearest
from framework.names import dotted_name, text_literal
from framework.tables import Lakehouse, save, sql_name
from silver import derived, fates
from silver.batch import MESSAGES_TABLE, deadlines, decoded, without_repeats
from silver.desk import Desk
from silver.formats import FORMATS
from silver.rows import STAGED_DDL
from silver.summary import Contents, contents_of

_MERGED = ("rows", "merged", "snapshots")


def decode_again(spark: SparkSession, desk: Desk, table: str) -> int:
    """Replace what silver holds of a table by what its messages say now. Returns how many messages that were.

    Raises MainstemError BRONZE_TOO_SHORT where bronze has lost one of them; then nothing is changed.
    """
    return sum(_decode_again(spark, desk, source, name) for source, name in _named(spark, desk, table))


def _decode_again(spark: SparkSession, desk: Desk, source: str, name: TableName) -> int:
    lake = desk.lake
    mine = lake.read(spark, derived.CHANGES_TABLE).where(derived.is_of(source, name))
    met = mine.where("paired_with IS NOT NULL").select("source", "paired_with.*", "batch")
    batches = mine.select(*MESSAGE_AT, "batch").unionByName(met).groupBy(*MESSAGE_AT).agg(F.max("batch").alias("batch"))
    bronze = lake.read(spark, MESSAGES_TABLE)
    _check_reach(mine, bronze, source, name)
    messages = bronze.join(batches, list(MESSAGE_AT), "left_semi").select(*bronze.columns)
    staging = f"{lake.checkpoints}/staging/again"
    decoded(messages, desk).where(derived.is_of(source, name) | (F.col("kind") == "quarantined")).write.mode("overwrite").parquet(staging)
    staged = spark.read.schema(STAGED_DDL).parquet(staging)
    contents = contents_of(staged, None)
    derived.append_schemas(spark, lake, contents.schemas, 0, desk.known_schemas(spark))
    rows = _fates(staged, desk, source, contents).join(batches, list(MESSAGE_AT)).select(*(F.col(f"`{n}`") for n in CHANGES.names))
    crash_point("silver.before_again")
    _replace(spark, lake, rows, derived.CHANGES_TABLE, (source, name))
    crash_point("silver.after_again")
    _derive(spark, desk, messages, source, name)
    return messages.count()


def _fates(staged: DataFrame, desk: Desk, source: str, contents: Contents) -> DataFrame:
    """The fates of all messages of a table, as of one batch."""
    whole = staged.where("half is null")
    repeats = fates.repeated_ids(whole, None)
    whole = without_repeats(whole, repeats, None, contents.open_to_repeats)
    if not FORMATS[desk.config.sources[source].format].halves:
        return whole
    nobody = staged.sparkSession.createDataFrame([], CHANGES)
    overdue = deadlines(desk.shown_sources(staged.sparkSession), desk.config, ())
    return whole.unionByName(fates.paired(staged, nobody, None, overdue, contents.halves))


def _derive(spark: SparkSession, desk: Desk, messages: DataFrame, source: str, name: TableName) -> None:
    """What follows from a table's new fates: its statements, waiting halves, refused messages, and counts."""
    lake = desk.lake
    is_mine = derived.is_of(source, name)
    now = lake.read(spark, derived.CHANGES_TABLE).where(is_mine)
    if lake.exists(spark, derived.STATEMENTS_TABLE):
        _replace(spark, lake, derived.statements_of(now), derived.STATEMENTS_TABLE, (source, name))
    elif not now.where("kind in ('ddl', 'truncate')").isEmpty():
        derived.append_statements(lake, now, None)
    spark.sql(f"DELETE FROM {sql_name(lake.place(derived.PENDING_TABLE))} WHERE {_predicate(source, name)}")  # noqa: S608 - quoted
    times = {place: extent.event_time for place, extent in desk.shown_sources(spark).items()}
    derived.merge_pending(lake, now, None, times)
    at = list(MESSAGE_AT)
    refused = lake.read(spark, derived.CHANGES_TABLE).where("kind = 'quarantined'").join(messages.select(*at), at, "left_semi")
    derived.merge_quarantine(lake, refused.select(*(F.col(f"`{n}`") for n in CHANGES.names)), messages)
    _correct_counts(spark, lake, now, is_mine)


def _correct_counts(spark: SparkSession, lake: Lakehouse, now: DataFrame, is_mine: Column) -> None:
    """Add to the counts what they lack or have too much of, so that their sums are those of the rows."""
    counted = lake.read(spark, derived.COUNTS_TABLE).where(is_mine)
    there: dict[tuple[Any, ...], list[int]] = {}
    for row in counted.collect():
        sums = there.setdefault(_group(row), [0] * len(_MERGED))
        for place, column in enumerate(_MERGED):
            sums[place] += row[column] or 0
    corrections, blank = [], {row["batch"]: row["max_ingested_at"] for row in counted.collect()}
    for row in derived.count_rows(now, None):
        sums = there.pop(_group(row), [0] * len(_MERGED))
        differences = {column: (row[column] or 0) - sums[place] for place, column in enumerate(_MERGED)}
        if any(differences.values()):
            corrections.append((_with(row, differences), blank.get(row["batch"])))
    corrections += [(_gone(group, sums), blank.get(group[0])) for group, sums in there.items() if any(sums)]
    for row, landed_at in corrections:
        derived.append_counts(lake, spark, [row], landed_at, None)


def _group(row: Row) -> tuple[Any, ...]:
    return tuple(row[column] for column in derived.COUNTED_BY)


def _with(row: Row, values: dict[str, int]) -> Row:
    return Row(**{**row.asDict(), **values})


def _gone(group: Sequence[Any], sums: Sequence[int]) -> Row:
    values: dict[str, Any] = dict.fromkeys(derived.COUNTED, None)
    values.update(zip(derived.COUNTED_BY, group, strict=True))
    values.update({column: -n for column, n in zip(_MERGED, sums, strict=True)})
    return Row(**values)


def _replace(spark: SparkSession, lake: Lakehouse, rows: DataFrame, name: str, table: tuple[str, TableName]) -> None:
    """Put rows in the place of all that a table of silver holds of one source table, in one commit."""
    spark.conf.set(_UNCHECKED, "false")  # a message that is refused now belongs to no table any more
    try:
        save(rows.write.format("delta").mode("overwrite").option("replaceWhere", _predicate(*table)), lake.place(name))
    finally:
        spark.conf.unset(_UNCHECKED)


_UNCHECKED = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


def _predicate(source: str, name: TableName) -> str:
    """Which rows are the table's, as SQL; names are written as bytes, so that none of their characters means anything."""
    parts = {"source": source, "database": name.database, "schema": name.schema, "table": name.table}
    tests = [f"`{column}` IS NULL" if text is None else f"`{column}` = {text_literal(text)}" for column, text in parts.items()]
    return " AND ".join(tests)


def _check_reach(mine: DataFrame, bronze: DataFrame, source: str, name: TableName) -> None:
    """Refuse to go on where a message of the table is no longer in bronze."""
    own = mine.select(*MESSAGE_AT, "sequence", "event_time")
    partners = mine.where("paired_with IS NOT NULL").select("source", "paired_with.*", "sequence", "event_time")
    lost = own.unionByName(partners).join(bronze, list(MESSAGE_AT), "left_anti")
    first = F.min_by(F.struct("topic", "partition", "offset", "event_time"), "sequence")
    last = F.max_by(F.struct("topic", "partition", "offset", "event_time"), "sequence")
    found = lost.agg(F.count_distinct("topic", "partition", "offset"), first, last).first()
    if found is None or not found[0]:
        return
    raise MainstemError(
        "BRONZE_TOO_SHORT",
        found=f"{found[0]:,} messages of the table are gone from bronze, from {_told(found[1])} to {_told(found[2])}",
        where=f"source {source}, table {name.dotted}",
        action="bring them back into bronze/messages; or rebuild from silver, which has them: leave out `--from bronze`",
    )


def _told(place: Row | None) -> str:
    if place is None:
        return "an unknown place"
    moment: datetime | None = place["event_time"]
    return f"{place['topic']}:{place['partition']}:{place['offset']}" + (f" ({moment.isoformat()}Z)" if moment else "")


def _named(spark: SparkSession, desk: Desk, table: str) -> list[tuple[str, TableName]]:
    """The tables of this dotted name, one a source."""
    places = [place for place in desk.shown_tables(spark) if place[3] is not None and place[0] in desk.config.sources]
    dotted = {place: dotted_name(*place[1:]) for place in places}
    found = [(place[0], TableName(place[1], place[2], str(place[3]))) for place in places if dotted[place] == table]
    if not found:
        close = nearest(table, dotted.values())
        raise ConfigurationError(
            "TABLE_UNKNOWN",
            found=f"no table {table!r}",
            where=derived.CHANGES_TABLE,
            action=f"use one of: {', '.join(sorted(dotted.values())[:20])}" + (f" (did you mean {close}?)" if close else ""),
        )
    return found
