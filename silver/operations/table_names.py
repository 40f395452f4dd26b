"""The names that a table has and had, by the statements that renamed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import RenameTable, TableName, actions_of
from framework.contracts.table_names import CHANGES_TABLE, STATEMENTS_TABLE
from framework.errors import ConfigurationError, nearest
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.table_reader import Query
from framework.pipeline.named_table import KnownTable, tables_called
from silver.batches.run_state import RunState

_RENAMES = Query(
    STATEMENTS_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `sequence`, `actions`, `topic`, `partition`, `offset`,"
    " `ordinal` FROM {rows} "
    "WHERE `actions` LIKE '%RenameTable%'",
)


class Rename(NamedTuple):
    """A table got another name, at this sequence.

    The renames of one statement may share it: the place of the message and the ordinal in it order them.
    """

    sequence: str
    old: TableName
    new: TableName
    place: tuple[str, int, int, int] = ("", 0, 0, 0)

    @property
    def at(self) -> tuple[str, tuple[str, int, int, int]]:
        """Where the rename is among all renames of its source."""
        return self.sequence, self.place


def tables_named(spark: SparkSession, state: RunState, table: str) -> dict[str, list[TableName]]:
    """By source, the names of the table with this dotted name, or this name in gold; the newest first.

    Raises:
        ConfigurationError: TABLE_EXCLUDED where each source that has the table excludes it, under this name
            or a former one; TABLE_AMBIGUOUS where different tables have the name; TABLE_UNKNOWN.
    """
    reached: dict[str, dict[TableName, str]] = {source: {} for source in state.config.sources}
    for (source, database, schema, name), shown in state.table_progress(spark).items():
        if name is not None and source in reached:
            reached[source][TableName(database, schema, name)] = shown.sequence or ""
    renames = _renames(spark, state)
    known = [
        KnownTable(source, name, state.config.settings(source, name.database, name.schema, name.table))
        for source, tables in reached.items()
        for name in dict.fromkeys((*tables, *(each.new for each in renames.get(source, ()))))
    ]

    def names(one: KnownTable) -> list[TableName]:
        return names_of(one.name, renames.get(one.source, ()), reached[one.source])

    called = tables_called(table, known, lambda one: names(one)[0] != one.name)
    found = {one.source: names(one) for one in called}
    named = {source: names for source, names in found.items() if not _is_excluded(state, source, names)}
    if found and not named:
        raise _excluded(*next(iter(found.items())))
    if not found:
        dotted = sorted({one.name.dotted for one in known})
        close = nearest(table, dotted)
        raise ConfigurationError(
            "TABLE_UNKNOWN",
            found=f"no table {table!r}",
            where=CHANGES_TABLE,
            action=f"use one of: {', '.join(dotted[:20])}" + (f" (did you mean {close}?)" if close else ""),
        )
    return named


def names_of(
    table: TableName, renames: Iterable[Rename], reached: Mapping[TableName, str]
) -> list[TableName]:
    """The newest name of a table and the names that it had before.

    Args:
        table: One of its names.
        renames: All renames of the source.
        reached: The highest sequence under each name: a name that has a higher one than the statement that
            renamed its table is that of another table.
    """
    renames = sorted(renames, key=lambda rename: rename.at)
    by_new: dict[TableName, list[Rename]] = {}
    for rename in renames:
        by_new.setdefault(rename.new, []).append(rename)
    newest = table
    for rename in renames:
        if rename.old == newest and reached.get(newest, "") <= rename.sequence:
            came_back = newest in by_new and by_new[newest][-1].at > rename.at
            newest = newest if came_back else rename.new
    found, before = [newest], dict[TableName, Rename | None]({newest: None})
    for name in found:
        until = before[name]
        for rename in by_new.get(name, ()):
            if (until is None or rename.at < until.at) and rename.old not in before:
                before[rename.old] = rename
                found.append(rename.old)
    return found


def _renames(spark: SparkSession, state: RunState) -> dict[str, list[Rename]]:
    found: dict[str, list[Rename]] = {}
    for row in newest_tables(spark, state.lake).rows(_RENAMES):
        old = TableName(row["database"], row["schema"], row["table"])
        for action in actions_of(row["actions"]):
            if isinstance(action, RenameTable) and action.to != old:
                place = (row["topic"] or "", row["partition"] or 0, row["offset"] or 0, row["ordinal"] or 0)
                rename = Rename(row["sequence"] or "", old, action.to, place)
                found.setdefault(row["source"], []).append(rename)
    return found


def _is_excluded(state: RunState, source: str, names: Iterable[TableName]) -> bool:
    """Whether the configuration excludes the table of a source under one of its names."""
    settings = (state.config.settings(source, name.database, name.schema, name.table) for name in names)
    return any(found.exclude for found in settings)


def _excluded(source: str, names: Sequence[TableName]) -> ConfigurationError:
    return ConfigurationError(
        "TABLE_EXCLUDED",
        found="the configuration excludes the table: decoding its messages again would empty"
        " what silver has of them",
        where=f"source {source}, table {names[0].dotted}",
        action="take `exclude` off, and run first",
    )
