"""The invariants of gold: replicas and histories contain exactly what the changes of their tables lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.table_names import BAD_VALUES_TABLE, BATCHES_TABLE, CHANGES_TABLE, TABLES_TABLE
from framework.lakehouse.lakehouse import is_table, read_table
from framework.naming import quoted
from framework.pipeline.checks import Check
from framework.pipeline.layer import Run
from framework.quality.row_checks import key_text
from framework.spark.comparison import compare
from gold.changes.few_changes import TableChanges
from gold.changes.profile import SchemaColumn
from gold.planning.discovery import all_tasks
from gold.planning.plan import Plan, plan_to_read
from gold.planning.rebuild import settings_mismatch
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.table_state import State
from gold.planning.task import Task, folder_of
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.writing import append, history, replica, table_changes

_EXAMPLES = 3
"""The keys of wrong rows that a check names."""


def verify(run: Run) -> Sequence[Check]:
    """The checks of each table that is up to date; others have no rows to compare."""
    try:
        known = all_tasks(run)
        tasks = [task for task in known if _is_up_to_date(task)]
        schemas = StoredSchemas(run.spark, run.lake) if tasks else {}
        changes = run.lake.read(run.spark, CHANGES_TABLE) if tasks else None
    except Exception as error:  # a missing table of silver or ops is a result as well
        found = (
            f"cannot be checked against silver ({type(error).__name__}): "
            "run, which derives what is gone or says what to do"
        )
        return (Check("tables", "the tables of the source are known", 1, BATCHES_TABLE, found),)
    checks = (
        [check for task in tasks for check in _table_checks(run, changes, task, schemas)]
        if changes is not None
        else []
    )
    return [_states(run, known), _bad_values(run, known), *checks] if known else checks


def _states(run: Run, tasks: Sequence[Task]) -> Check:
    """Whether the progress of the tables is known: without it, all of them seem to be new."""
    is_lost = not run.lake.exists(run.spark, TABLES_TABLE)
    wrong = sum(task.has_place for task in tasks) if is_lost else 0
    return Check(
        "states",
        "the progress of the tables is known",
        wrong,
        TABLES_TABLE,
        "run: it rebuilds these tables from all their changes",
    )


def _bad_values(run: Run, tasks: Sequence[Task]) -> Check:
    """Whether the cells that do not fit their columns are listed, except those of excluded tables."""
    is_lost = not run.lake.exists(run.spark, BAD_VALUES_TABLE)
    mine = [task.state for task in tasks if task.has_place]
    wrong = sum((is_lost and state.bad_values > 0) or state.is_unlisted for state in mine)
    return Check(
        "bad_values",
        "the cells that fit no type are listed",
        wrong,
        BAD_VALUES_TABLE,
        "run: it lists them again",
    )


def _table_checks(
    run: Run, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> Sequence[Check]:
    try:
        return _checks(run, changes, task, schemas)
    except Exception as error:  # an error of damaged tables is a result as well
        damaged = _damaged(run, task)
        if damaged is not None:
            return (damaged,)
        found = f"cannot be checked against silver ({type(error).__name__}): repair silver first"
        return (
            Check(
                f"rows {task.name.dotted}",
                "the rows are the newest that changes lead to",
                1,
                str(task.state.replica),
                found,
            ),
        )


def _damaged(run: Run, task: Task) -> Check | None:
    """The check of a replica or a history of which some cells cannot be read; None where all can be.

    Its columns are read whole, as a comparison reads them: a lost file and a lost column show themselves.
    """
    state, name = task.state, task.name.dotted
    names = Layout(state.columns, state.keys, SYSTEM_COLUMNS).gold_names
    columns = [quoted(names[column.name]) for column in state.columns] + [*SYSTEM_COLUMNS]
    for place in _places(run, task):
        try:
            read_table(run.spark, place).agg(F.max(F.xxhash64(*columns))).collect()
        except Exception as error:  # that it cannot be read is the result
            action = f"cannot be read ({type(error).__name__}): mainstem rebuild {name}"
            return Check(f"replica {name}", "the replica and its history can be read", 1, place, action)
    return None


def _places(run: Run, task: Task) -> list[str]:
    """Where the replica is, and the history where the table has one."""
    has_history = bool(task.settings.history and task.state.keys)
    return [
        run.lake.location(f"gold/{folder_of(task, is_history=is_history)}")
        for is_history in (False, True)[: 1 + has_history]
    ]


def _is_up_to_date(task: Task) -> bool:
    """Whether the stored table should be what all changes lead to under its settings of today."""
    state = task.state
    is_there = state.state in (State.ACTIVE, State.APPEND_ONLY) and state.replica is not None
    is_current = task.newest <= state.batch and not task.is_repaired and not task.settings.exclude
    return is_there and is_current and settings_mismatch(task) is None


def _checks(
    run: Run, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> Sequence[Check]:
    name, action = task.name.dotted, f"mainstem rebuild {task.name.dotted}"
    places = _places(run, task)
    gone = [place for place in places if not is_table(run.spark, place)]
    if gone:
        found = Check(
            f"replica {name}",
            "the replica and its history are there",
            len(gone),
            gone[0],
            "run: it rebuilds what is gone",
        )
        return (found,)
    plan = _plan_of_all_changes(run, changes, task, schemas)
    if plan is None:
        return ()
    at, layout = places[0], plan.layout
    rows = table_changes.current_changes(changes, plan)
    stored = _cells(read_table(run.spark, at), layout)
    if not layout.keys:
        truncates = table_changes.truncates(run.spark, task, after=-1)
        implied = append.change_rows(rows, truncates, layout)
        by_change = {"_cdc_change_id": "_cdc_change_id"}
        appended = _Rows(f"rows {name}", "each change is a row, once", layout, by_change)
        return (appended.check(implied, stored, at, action),)
    rows = table_changes.complete_changes(rows, plan)
    keys = {f"c{layout.columns.index(c)}": layout.gold_names[c.name] for c in layout.key_columns}
    twice = replica.live_rows(stored).groupBy(*keys).count().where("count > 1").count()
    replicas = _Rows(f"rows {name}", "the rows are the newest that changes lead to", layout, keys)
    checks = [
        Check(f"keys {name}", "each key is there once", twice, at, action),
        replicas.check(replica.rows_of_changes(rows, plan), stored, at, action),
    ]
    for place in places[1:]:
        versions = _cells(read_table(run.spark, place), plan.history_layout)
        promise = "the versions are those that changes lead to"
        kept = _Rows(f"history {name}", promise, plan.history_layout, keys)
        checks.append(kept.check(history.versions_of(rows, plan), versions, place, action))
    return checks


def _plan_of_all_changes(
    run: Run, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> Plan | None:
    """The plan of a rebuild into the columns that the stored table has.

    A rebuild may give a column a narrower type, or leave it out: where the value that made it wide, or the
    only rows with it, have been forgotten.
    """
    asked, state = replace(task, is_rebuild=True), task.state
    plan = plan_to_read(run.spark, run.lake, TableChanges(lambda: changes), asked, schemas)
    if plan is None:
        return None
    return replace(
        plan,
        layout=replace(plan.layout, columns=state.columns, keys=state.keys),
        history_layout=replace(plan.history_layout, columns=state.columns, keys=state.keys),
    )


def _cells(stored: DataFrame, layout: Layout) -> DataFrame:
    """A stored table as rows to write are: c0… and the system columns."""
    names = layout.gold_names
    cells = [F.col(quoted(names[c.name])).alias(f"c{i}") for i, c in enumerate(layout.columns)]
    return stored.select(*cells, *layout.system)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A check of all rows of a table, cell by cell.

    Attributes:
        name: The name of the check.
        promise: What must hold.
        layout: The columns of the table.
        keys: The columns by which a row is named, each with its name in gold.
    """

    name: str
    promise: str
    layout: Layout
    keys: Mapping[str, str]

    def check(self, implied: DataFrame, stored: DataFrame, where: str, action: str) -> Check:
        """Compares the rows that changes lead to with the stored ones (c0… and the system columns)."""
        columns = (*self.layout.cells, *self.layout.system)
        rows = compare(implied.select(*columns), stored.select(*columns)).where("expected <> found")
        keys = rows.select(*(F.col(column).alias(name) for column, name in self.keys.items())).distinct()
        wrong = keys.count()
        key = key_text(self.keys.values()).alias("key")
        found = keys.select(key).orderBy("key").limit(_EXAMPLES).collect() if wrong else ()
        return Check(self.name, self.promise, wrong, where, action, tuple(row[0] for row in found))
