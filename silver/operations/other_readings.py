"""Tables whose settings of columns have changed are read as before, until they are decoded again.

`decode`, `encoding` and `unsigned` act while a message is decoded. If they were applied to new messages
alone, one column would have two readings. So a change of them holds for a table once somebody has all its
messages decoded again (`mainstem rebuild TABLE --from bronze`), and until then the runs say so. By which
settings rows were read is noted before anything is read by others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import CHANGES_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import CHANGES, SCHEMAS
from framework.errors import MainstemError, brief
from framework.lakehouse.inventory import Inventory
from silver.batches.landings import upgrade_tables
from silver.batches.run_state import RunState
from silver.changes.readings import (
    Columns,
    OtherReading,
    Readings,
    Table,
    differing,
    noted_readings,
    readings_of,
)
from silver.changes.source_plans import source_plans
from silver.formats import FORMATS
from silver.operations.redecode import RedecodeResult, named_few, redecode_tables
from silver.stream.lost_tables import note_tables, read_noted_tables
from silver.stream.resume import begin_epochs


def read_as_noted(spark: SparkSession, state: RunState) -> tuple[tuple[str, ...], tuple[MainstemError, ...]]:
    """Read tables as their rows were read, and decode those again that a command had begun to decode.

    Returns notes on the tables that the configuration reads otherwise, and why some were not decoded again.
    Whatever the reason, other tables go on. An excluded table has no values: it waits until `exclude` is off.
    The rounds of one command try what has failed after pauses that grow, and tell of it meanwhile.
    """
    note_readings(spark, state)
    begun: dict[str, list[TableName]] = defaultdict(list)
    for other in _begun(state):
        begun[other.table[0]].append(TableName(*other.table[1:]))
    errors = list[MainstemError]()
    if begun:
        begin_epochs(spark, state)
    for source, names in begun.items():
        work, failure = (source, *names), None
        if state.tries.is_due(work):
            try:
                redecode_as_configured(spark, state, {source: names})
            except MainstemError as error:
                failure = error
            except Exception as error:  # memory, disk, whatever it is: the other tables and sources go on
                failure = _not_decoded(source, names, error)
            state.tries.forget(work) if failure is None else state.tries.note(work, failure)
        failure = state.tries.failure(work)
        errors += () if failure is None else (failure,)
    return notes_on(state), tuple(errors)


def _not_decoded(source: str, names: Sequence[TableName], error: Exception) -> MainstemError:
    return MainstemError(
        "UNEXPECTED_ERROR",
        found=f"messages could not be decoded again: {brief(error)}",
        where=f"source {source}, table {named_few(names)}",
        action="give the command more memory or disk space if it lacks them: the next run tries again."
        " Meanwhile new messages of the table are read as before, and everything else goes on",
    )


def note_on_lost(spark: SparkSession, state: RunState, noted: Inventory | None) -> tuple[str, ...]:
    """What a run says that takes rows for read as configured, because nothing tells how they were read."""
    is_lost = noted is None and state.lake.exists(spark, CHANGES_TABLE)
    if not is_lost or not state.readings.are_configured:
        return ()
    return (
        f"{state.lake.checkpoints}/silver.tables was gone, which tells how columns were read:"
        " the run takes it that all rows were read as configured now. If `decode`, `encoding` or `unsigned`"
        " of a table has changed since the last run: mainstem rebuild TABLE --from bronze",
    )


def note_readings(spark: SparkSession, state: RunState) -> None:
    """Note which tables the configuration reads otherwise than their rows were read."""
    if not state.lake.exists(spark, CHANGES_TABLE):
        _note(spark, state, readings_of(state.config.tables))
        return
    _note(spark, state, _readings_now(spark, state))


def read_for_plan(spark: SparkSession, state: RunState) -> None:
    """Read the messages of a plan as a run would, without a note."""
    noted = read_noted_tables(spark, state.lake)
    state.readings = noted_readings(state.config.tables, None if noted is None else noted.facts)
    if state.lake.exists(spark, CHANGES_TABLE):
        state.readings = _readings_now(spark, state)
    _set_plans(state, state.readings.former())


def _readings_now(spark: SparkSession, state: RunState) -> Readings:
    """The noted readings as they are under the present configuration."""
    settled = state.readings.settled(lambda: state.lake.newest_commit(spark, CHANGES_TABLE))
    return settled.under(state.config.tables, lambda: _tables(spark, state))


def redecode_as_configured(
    spark: SparkSession, state: RunState, named: Mapping[str, Sequence[TableName]]
) -> RedecodeResult:
    """Decode all messages of tables, by source, again, as the configuration says now.

    Raises:
        MainstemError: BRONZE_TOO_SHORT, if a message is no longer in bronze; then nothing changes in the
            tables of that source.
    """
    upgrade_tables(spark, state.lake, state.config)
    found = RedecodeResult()
    for source, names in named.items():
        tables: list[Table] = [(source, name.database, name.schema, name.table) for name in names]
        commit = state.lake.newest_commit(spark, CHANGES_TABLE)
        _note(spark, state, state.readings.begun(tables, commit))
        try:
            with _as_configured(state, tables):
                found += redecode_tables(spark, state, source, dict.fromkeys(names, ""), with_unread=True)
        except MainstemError as error:
            if error.condition == "BRONZE_TOO_SHORT":
                _note(spark, state, state.readings.kept(tables))
            raise
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
    """Read the messages of these tables by these settings, and all others as the configuration says."""
    state.plans = source_plans(state.config, FORMATS, former)


def _note(spark: SparkSession, state: RunState, readings: Readings) -> None:
    """Note the readings, if they are other ones, and read new messages by them from now on."""
    if readings.facts() == state.readings.facts():
        return
    state.readings = readings
    _set_plans(state, readings.former())
    note_tables(spark, state, read_noted_tables(spark, state.lake))


def _tables(spark: SparkSession, state: RunState) -> dict[Table, set[str]]:
    """The columns that the rows of each table have or had."""
    changes = state.lake.rows(spark, CHANGES_TABLE, CHANGES).where("table IS NOT NULL AND kind = 'row'")
    schemas = state.lake.rows(spark, SCHEMAS_TABLE, SCHEMAS)
    names = F.explode("columns.name").alias("column")
    found: dict[Table, set[str]] = defaultdict(set)
    table = ("source", "database", "schema", "table")
    columns = changes.select(*table, "schema_id").distinct().join(schemas, "schema_id").select(*table, names)
    for row in columns.distinct().collect():
        found[row[0], row[1], row[2], row[3]].add(row[4])
    return found


def notes_for_plan(state: RunState) -> tuple[str, ...]:
    """What a plan says: the notes of a run, and on the tables that the run would decode again first."""
    begun = [
        f"{TableName(*other.table[1:]).dotted}: a run decodes its messages again first,"
        " because a rebuild from bronze was cut short"
        for other in _begun(state)
    ]
    return (*notes_on(state), *begun)


def _begun(state: RunState) -> list[OtherReading]:
    """The tables that a command had begun to decode again. Excluded ones wait until `exclude` is off."""
    return [other for other in _with_values(state) if not other.is_kept]


def _with_values(state: RunState) -> Iterator[OtherReading]:
    """The tables that are read otherwise, without those of which a run reads no values."""
    for other in state.readings.others:
        if other.table[0] in state.plans and not state.config.settings(*other.table).exclude:
            yield other


def notes_on(state: RunState) -> tuple[str, ...]:
    """What a run says of the tables that are read as before. Those that are excluded have no values.

    What it says of tables that it could not decode again are errors.
    """
    told: dict[str, list[TableName]] = defaultdict(list)
    for other in _with_values(state):
        if other.is_kept:
            configured = state.config.settings(*other.table).columns
            columns = ", ".join(sorted(differing(other.columns, configured)))
            told[columns].append(TableName(*other.table[1:]))
    return tuple(
        f"{named_few(names)}: read as before, although the configuration says something else of {columns}."
        f" To read all rows so: mainstem rebuild {names[0].dotted} --from bronze"
        for columns, names in sorted(told.items())
    )
