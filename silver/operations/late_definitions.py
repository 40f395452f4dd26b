"""Rows that were decoded before the definition of their table came are decoded again.

A topic of schema changes may land after the rows that need it. Without their types, rows keep numbers without
a sign, days and base64 as they are; after a statement that came late, they have the types before it. When the
definition has come, one row of each schema is compared with what its message says now. If one differs, the
messages of the table from the definition's position on are decoded again, and gold rebuilds the table. Rows
that declare their types themselves do not depend on definitions, and nothing more is read of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.events import RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.seed import TOPIC
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID, SCHEMAS
from framework.errors import MainstemError
from silver.batches.encodings import RedefinedTable, append_rows, read_again_row, read_encodings
from silver.batches.landings import HOLDS_COORDINATES, identify_all, upgrade_tables
from silver.batches.run_state import RunState
from silver.changes.decode import SourcePlan, read_events
from silver.operations.redecode import RedecodeResult, named_few, redecode_tables, rows_of_tables
from silver.stream.resume import last_batch_id


def decode_redefined(
    spark: SparkSession, state: RunState
) -> tuple[tuple[str, ...], tuple[MainstemError, ...]]:
    """Decode the rows again that differ from what their definitions make of them.

    Returns notes on the tables that were decoded again, and an error for each that could not be.
    """
    if not any(plan.format.has_table_definitions for plan in state.plans.values()):
        return (), ()
    due: dict[str, dict[TableName, RedefinedTable]] = {}
    known = read_encodings(spark, state.lake)
    for redefined in known.redefined(last_batch_id(spark, state)) if known.redefined() else ():
        name = TableName(redefined.table[0], redefined.table[1], str(redefined.table[2]))
        settings = state.config.settings(redefined.source, name.database, name.schema, name.table)
        if redefined.source in state.plans and not settings.exclude:
            due.setdefault(redefined.source, {})[name] = redefined
    if due:
        upgrade_tables(spark, state.lake, state.config)
    notes, errors = list[str](), list[MainstemError]()
    for source, tables in due.items():
        state.forget_shown()  # the batches may have run in another process
        others, refused = _tables_that_differ(spark, state, source, tables), set[TableName]()
        for names, result in _redecoded(spark, state, source, others):
            if isinstance(result, MainstemError):
                errors.append(result)
                refused.update(names)
                continue
            its = "its definition" if len(names) == 1 else "their definitions"
            notes.append(f"{named_few(names)}: decoded again, because {its} came after rows")
        done = [read_again_row(redefined) for name, redefined in tables.items() if name not in refused]
        if done:
            append_rows(spark, state.lake, done)
        state.encodings = None
    return tuple(notes), tuple(errors)


def _redecoded(
    spark: SparkSession, state: RunState, source: str, tables: Mapping[TableName, str]
) -> Iterator[tuple[Sequence[TableName], RedecodeResult | MainstemError]]:
    """Decode tables again, all at once; one by one where that is refused, so that one stops no other."""
    if not tables:
        return
    result: RedecodeResult | MainstemError
    try:
        result = redecode_tables(spark, state, source, tables)
    except MainstemError as error:
        result = error
    if isinstance(result, MainstemError) and len(tables) > 1:
        for name, since in tables.items():
            yield from _redecoded(spark, state, source, {name: since})
    else:
        yield list(tables), result


def _tables_that_differ(
    spark: SparkSession, state: RunState, source: str, tables: Mapping[TableName, RedefinedTable]
) -> dict[TableName, str]:
    """The tables with a row that is not what its message says now, and from which sequence on."""
    lake = state.lake
    since = {name: redefined.since for name, redefined in tables.items()}
    rows = rows_of_tables(lake.rows(spark, CHANGES_TABLE, CHANGES), source, since)
    is_earlier = F.col("batch") < max(redefined.batch for redefined in tables.values())
    samples = _samples(rows.where((F.col("kind") == "row") & is_earlier & ~F.col("topic").startswith(TOPIC)))
    near = lake.read(spark, MESSAGES_TABLE).join(
        samples.select(*MESSAGE_AT).distinct(), list(MESSAGE_AT), "left_semi"
    )
    schemas = lake.rows(spark, SCHEMAS_TABLE, SCHEMAS).select("schema_id", F.col("columns").alias("declared"))
    identified = identify_all(near, lake, state.source_epochs(spark)).where(HOLDS_COORDINATES)
    stamp = F.unix_micros("timestamp").alias("stamp")
    messages = identified.select(*MESSAGE_ID, "key", "value", "headers", stamp)
    found = samples.join(schemas, "schema_id", "left").join(messages, list(MESSAGE_ID), "left")
    plan, others = state.plans_for(identified)[source], set[TableName]()
    for row in found.toLocalIterator():
        name = TableName(row["database"], row["schema"], row["table"])
        if name not in others and differs(row, plan):
            others.add(name)
    return {name: since[name] for name in sorted(others, key=lambda name: name.dotted)}


def _samples(rows: DataFrame) -> DataFrame:
    """One row of each schema of a table, with as many values as any."""
    width = _values_in("before") + _values_in("after")
    fields = F.struct(*MESSAGE_ID, "ordinal", "before", "after")
    by = ("database", "schema", "table", "schema_id")
    return rows.groupBy(*by).agg(F.max_by(fields, width).alias("row")).select(*by, "row.*")


def _values_in(image: str) -> Column:
    return F.coalesce(F.size(F.map_filter(image, lambda _, value: value.isNotNull())), F.lit(0))


def differs(row: Row, plan: SourcePlan) -> bool:
    """Whether a change is not what its message says now, or its message is gone.

    Args:
        row: Coordinates, `epoch`, `ordinal`, `before`, `after`, `declared` (the columns of its schema), and
            of the message `key`, `value`, `headers` and `stamp`.
        plan: The plan of its source.
    """
    headers = tuple((h["key"] or "", h["value"]) for h in row["headers"] or ())
    key, value = (None if cell is None else bytes(cell) for cell in (row["key"], row["value"]))
    message = RawMessage(
        row["source"], row["topic"], row["partition"], row["offset"], row["stamp"], key, value, headers
    )
    events = read_events(message, plan.in_epoch(row["epoch"]))
    event = events[row["ordinal"]] if row["ordinal"] < len(events) else None
    if not isinstance(event, RowChange):
        return True
    types = {name: (column.type, column.declared) for name, column in event.columns.items()}
    images = (_image(event.before), _image(event.after))
    return images != (row["before"], row["after"]) or types != _types(row["declared"])


def _image(image: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    return None if image is None else dict(image)


def _types(declared: Sequence[Row] | None) -> dict[str, tuple[str | None, str | None]]:
    return {column["name"]: (column["type"], column["declared"]) for column in declared or ()}
