"""Tables of sources that the configuration does not name: `forget` cannot search their messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress

from framework.contracts.ddl_actions import TableName
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import BATCHES_TABLE
from framework.errors import ConfigurationError
from framework.lakehouse.table_reader import Query
from framework.naming import present_parts
from framework.pipeline.layer import Run
from framework.pipeline.named_table import is_name_of, parts_of
from gold.planning.discovery import earlier_tables, named_tasks, newest_task, unnamed_tasks
from gold.planning.table_state import table_id
from gold.planning.task import Task

_TABLES = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, sum(`rows`) AS `rows` FROM {rows} "
    "WHERE `table` IS NOT NULL AND `kind` NOT IN ('ddl', 'truncate', 'duplicate') "
    "AND NOT (`reason` IS NOT DISTINCT FROM {forgotten}) "
    "GROUP BY `source`, `database`, `schema`, `table`",
)
"""Also tables of which all rows are excluded or in quarantine: their messages have the rows.

A table of which everything is forgotten has none left; statements and repeated messages hold no row.
"""


def refuse_unnamed(run: Run, text: str, tasks: Sequence[Task]) -> None:
    """Refuse a name that a table of a source which is not configured has, or had.

    Only the settings of a source say how its messages are read.

    Args:
        run: The run.
        text: The name of the table.
        tasks: Every table of the configured sources.

    Raises:
        ConfigurationError: TABLE_OF_UNNAMED_SOURCE.
    """
    unnamed = list(_unnamed_tables(run))
    wanted = set[TableName]()
    with suppress(ConfigurationError):  # whoever looks for the table says what is wrong with its name
        for task in named_tasks(tasks, text, run.config) if unnamed else ():
            newest = newest_task(tasks, task)
            wanted |= _names(newest)
            for earlier in earlier_tables(run, newest):
                wanted |= {segment.table for segment in earlier.segments}
    found = {source for source, names in unnamed if names & wanted or _answers(run, source, names, text)}
    if found:
        raise ConfigurationError(
            "TABLE_OF_UNNAMED_SOURCE",
            found=f"changes of this table from {', '.join(f'source {name}' for name in sorted(found))}, which"
            " the configuration does not name",
            where=f"table {text}",
            action="name it again, with its format, and forget once more: nothing is erased yet. Where its"
            " files are gone, `files` may name an empty folder",
        )


def _unnamed_tables(run: Run) -> Iterator[tuple[str, Set[TableName]]]:
    """The source of each table that has rows, and all names that the table has had."""
    held = {table_id(row) for row in run.tables.rows(_TABLES, forgotten=FORGOTTEN) if row["rows"] > 0}
    unnamed = {(source, name) for source, name in held if source not in run.config.sources}
    for source, name in unnamed:
        yield source, {name}
    for task in unnamed_tasks(run) if unnamed else ():
        if any((task.source, name) in unnamed for name in _names(task)):
            yield task.source, _names(task)


def _names(task: Task) -> Set[TableName]:
    return {task.name, *(segment.table for segment in task.lineage.segments)}


def _answers(run: Run, source: str, names: Set[TableName], text: str) -> bool:
    """Whether a command finds the table by this name: its own, a former one, or that of its replica."""
    settings = (run.config.settings(source, one.database, one.schema, one.table) for one in names)
    replicas = (present_parts(*(one.replica_parts or ())) for one in settings)
    return any(is_name_of(text, parts) for parts in (*map(parts_of, names), *replicas))
