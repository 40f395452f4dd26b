"""Tables whose settings of columns have changed are decoded again, so that all rows are read by the new ones.

`decode`, `encoding`, `unsigned`, and `type` where messages declare none, act while a message is decoded. So
before messages are read by other settings than before, the rows of the table are decoded again, all in one
commit. Where that is not possible because messages are gone from bronze, new messages are read as before, and
every run says so. That the settings of a table have changed is noted before anything is read by the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.seed import TOPIC
from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.errors import MainstemError
from silver.batches.encodings import RedefinedTable
from silver.batches.landings import upgrade_tables
from silver.batches.run_state import RunState
from silver.changes.readings import Columns, OtherReading, Readings, Table, differing, readings_of
from silver.changes.source_plans import plans_as_before, source_plans
from silver.formats import FORMATS
from silver.operations.late_definitions import redecode_each, tables_that_differ
from silver.operations.redecode import RedecodeResult, named_few, redecode, rows_of_tables
from silver.stream.lost_tables import note_tables, read_noted_tables
from silver.stream.resume import begin_epochs, last_batch_id

_AGAIN = (
    "decoded again, because the configuration says something else of its columns",
    "decoded again, because the configuration says something else of their columns",
)


def read_as_configured(
    spark: SparkSession, state: RunState
) -> tuple[tuple[str, ...], tuple[MainstemError, ...]]:
    """Decode the tables again whose settings of columns have changed, before other messages are read.

    Returns notes on the tables that were decoded again, and an error for each that could not be. Tables that
    are excluded have no values to read: they wait until they are included.
    """
    note_readings(spark, state)
    due: dict[str, dict[TableName, OtherReading]] = {}
    for other in state.readings.others:
        source, database, schema, table = other.table
        if source in state.plans and not state.config.settings(*other.table).exclude:
            due.setdefault(source, {})[TableName(database, schema, table)] = other
    if not due:
        return (), ()
    tried = [other.table for tables in due.values() for other in tables.values()]
    _note(spark, state, state.readings.with_kept(tried, is_kept=False))
    begin_epochs(spark, state)
    upgrade_tables(spark, state.lake, state.config)
    notes, errors = list[str](), list[MainstemError]()
    for source, tables in due.items():
        refused = set[TableName]()
        with _as_configured(state, (other.table for other in tables.values())):
            affected = _affected(spark, state, source, tables)
            for names, result in redecode_each(spark, state, source, affected):
                if isinstance(result, MainstemError):
                    errors.append(_not_read(result))
                    refused.update(names)
                else:
                    notes.append(f"{named_few(names)}: {_AGAIN[len(names) > 1]}")
        done = [other.table for name, other in tables.items() if name not in refused]
        kept = [tables[name].table for name in refused]
        _note(spark, state, state.readings.without(done).with_kept(kept, is_kept=True))
    return tuple(notes), tuple(errors)


def note_readings(spark: SparkSession, state: RunState) -> None:
    """Note which tables the configuration reads otherwise than their rows were read."""
    if not state.lake.exists(spark, CHANGES_TABLE):
        _note(spark, state, readings_of(state.config.tables))
        return
    _note(spark, state, state.readings.under(state.config.tables, lambda: _tables(spark, state)))


def redecode_as_configured(
    spark: SparkSession, state: RunState, named: Mapping[str, Sequence[TableName]]
) -> RedecodeResult:
    """Decode all messages of tables, by source, again, as the configuration says now.

    Raises:
        MainstemError: BRONZE_TOO_SHORT, if a message is no longer in bronze; then nothing changes.
    """
    tables = [(source, *_key(name)) for source, names in named.items() for name in names]
    _note(spark, state, state.readings.with_kept(tables, is_kept=False))
    with _as_configured(state, tables):
        found = redecode(spark, state, named)
    _note(spark, state, state.readings.without(tables))
    return found


@contextmanager
def _as_configured(state: RunState, tables: Iterable[Table]) -> Iterator[None]:
    """Meanwhile, read the messages of these tables as the configuration says, also before that is noted."""
    _set_plans(state, state.readings.former(tables))
    try:
        yield
    finally:
        _set_plans(state, state.readings.former())


def _set_plans(state: RunState, former: Mapping[Table, Columns]) -> None:
    state.plans = plans_as_before(source_plans(state.config, FORMATS), former)


def _note(spark: SparkSession, state: RunState, readings: Readings) -> None:
    """Note the readings, if they are other ones, and read new messages by them from now on."""
    if readings == state.readings:
        return
    state.readings = readings
    _set_plans(state, readings.former())
    note_tables(spark, state, read_noted_tables(spark, state.lake))


def _tables(spark: SparkSession, state: RunState) -> list[Table]:
    changes = state.lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("table").isNotNull())
    rows = changes.select("source", "database", "schema", "table").distinct().collect()
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def _affected(
    spark: SparkSession, state: RunState, source: str, tables: Mapping[TableName, OtherReading]
) -> dict[TableName, str]:
    """The tables that must be decoded again, all from their first row on.

    Types do not matter where messages declare them: one row of each schema shows whether they do. The rows of
    dumps take the types of the configuration in any case.
    """
    typed = []
    for name, other in tables.items():
        columns = differing(other.columns, state.config.settings(*other.table).columns)
        if columns and all(columns.values()):
            typed.append(name)
    if not typed:
        return dict.fromkeys(tables, "")
    after_all = last_batch_id(spark, state) + 1
    asked = {name: RedefinedTable(source, _key(name), "", after_all) for name in typed}
    found = set(tables_that_differ(spark, state, source, asked)) | _seeded(spark, state, source, typed)
    return {name: "" for name in tables if name not in asked or name in found}


def _key(name: TableName) -> tuple[str | None, str | None, str]:
    return name.database, name.schema, name.table


def _seeded(spark: SparkSession, state: RunState, source: str, tables: Sequence[TableName]) -> set[TableName]:
    rows = rows_of_tables(
        state.lake.rows(spark, CHANGES_TABLE, CHANGES), source, dict.fromkeys(tables, "")
    ).where(F.col("topic").startswith(TOPIC))
    return {TableName(*row) for row in rows.select("database", "schema", "table").distinct().collect()}


def _not_read(error: MainstemError) -> MainstemError:
    if error.condition != "BRONZE_TOO_SHORT":
        return error
    return MainstemError(
        error.condition,
        found=f"the configuration says something else of the columns than when the rows were read, and "
        f"{error.found}",
        where=error.where,
        action="bring them back into bronze/messages, or take the settings of its columns back: until then"
        " all messages of the table are read as before",
    )
