"""The table that a command was asked for by name: which one it is, and what is known before it is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from framework.config.model import Config
from framework.config.tables import TableSettings
from framework.config.value_types import split_name
from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import BATCHES_TABLE
from framework.errors import ConfigurationError, nearest
from framework.lakehouse.lakehouse import lakehouse_of
from framework.lakehouse.newest_tables import is_read_locally
from framework.lakehouse.table_reader import Query, TableReader
from framework.naming import present_parts, quoted

_KNOWN = Query(
    BATCHES_TABLE,
    "SELECT `database`, `schema`, `table` FROM {rows} WHERE `table` IS NOT NULL "
    "GROUP BY `database`, `schema`, `table`",
)


class Named(Protocol):
    """A table with its settings, as it is looked for by name."""

    @property
    def name(self) -> TableName:
        """Its name in the source."""

    @property
    def settings(self) -> TableSettings:
        """Its settings in the configuration."""


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table of a source, and its settings."""

    source: str
    name: TableName
    settings: TableSettings


_T = TypeVar("_T")
_Named = TypeVar("_Named", bound=Named)


def tables_called(
    text: str, tables: Iterable[_Named], is_former: Callable[[_Named], bool] = lambda _: False
) -> list[_Named]:
    """The tables of this name, one of each source that has it; none where nobody knows it.

    A table of another name in gold answers to that one, too, where no table of a source has it: of several
    that do, not those whose name was another one before (`is_former`).

    Raises:
        ConfigurationError: TABLE_AMBIGUOUS where different tables have the name.
    """
    known = list(tables)
    found = with_name(text, known, lambda table: parts_of(table.name))
    if not found:
        found = with_name(text, known, lambda table: present_parts(*(table.settings.replica_parts or ())))
        found = [table for table in found if not is_former(table)] or found
    refuse_several(text, (table.name for table in found))
    return found


def with_name(text: str, things: Iterable[_T], parts: Callable[[_T], tuple[str, ...]]) -> list[_T]:
    """The things of this dotted name.

    A text without backticks is the name of all whose parts, with dots between them, are this text. One with
    backticks says where a part ends: `` a.`b.c` `` is not `` `a.b`.c ``.
    """
    named = [(parts(thing), thing) for thing in things]
    read = read_name(text) if "`" in text else None
    exact = [thing for own, thing in named if own == read]
    return exact or [thing for own, thing in named if own and ".".join(own) == text]


def is_name_of(text: str, parts: Iterable[str | None]) -> bool:
    """Whether a text is the name of these parts; None is no part."""
    return bool(with_name(text, [present_parts(*parts)], tuple))


def refuse_several(text: str, names: Iterable[TableName]) -> None:
    """Refuse a text that is the name of different tables, with TABLE_AMBIGUOUS."""
    different = sorted({".".join(map(quoted, parts_of(name))) for name in names})
    if len(different) > 1:
        raise ConfigurationError(
            "TABLE_AMBIGUOUS",
            found=f"{text!r}, which is the name of {len(different)} tables",
            where=f"tables {', '.join(different)}",
            action="write the name with backticks, in single quotes: "
            + " or ".join(f"'{name}'" for name in different),
        )


def parts_of(name: TableName) -> tuple[str, ...]:
    """The parts that a table's name has."""
    return present_parts(name.database, name.schema, name.table)


def read_name(text: str) -> tuple[str, ...] | None:
    """The parts of a name; None where it is not written as one."""
    try:
        return split_name(text)
    except ValueError:
        return None


def notes_on_name(tables: TableReader, config: Config, name: str | None) -> Iterator[str]:
    """A note where no table of this name is known yet; messages that wait may still have it.

    Nothing is said in a lakehouse that knows no table at all: its first run decodes everything anyway.

    Raises:
        ConfigurationError: TABLE_EXCLUDED where the configuration excludes the unknown table, TABLE_AMBIGUOUS
            where different tables have the name.
    """
    if name is None:
        return
    names = [TableName(row["database"], row["schema"], row["table"]) for row in tables.rows(_KNOWN)]
    found = with_name(name, names, parts_of)
    refuse_several(name, found)
    if found or any(is_name_of(name, split_name(rule.replica)) for rule in config.tables if rule.replica):
        return
    if is_excluded(name, config):
        raise table_excluded(name)
    if names:
        close = nearest(name, sorted({each.dotted for each in names}))
        yield (
            f"no table {name!r} is known yet{f' (did you mean {close}?)' if close else ''}: all that waits is"
            " decoded first, since it may bring this table; Ctrl-C ends this, and nothing is lost"
        )


def notes_without_session(config: Config, name: str | None) -> Iterator[str]:
    """The same, where this process reads the tables; nothing elsewhere."""
    lake = lakehouse_of(config)
    if name is not None and is_read_locally(lake):
        from framework.lakehouse.local_reader import LocalReader, Unreadable

        with suppress(Unreadable):
            yield from notes_on_name(LocalReader(lake), config, name)


def is_excluded(name: str, config: Config) -> bool:
    """Whether every source excludes the table `database.table` or `database.schema.table`."""
    parts = read_name(name) or ()
    if len(parts) not in (2, 3):
        return False
    table = (parts[0], parts[1] if len(parts) == 3 else None, parts[-1])
    return all(config.settings(source, *table).exclude for source in config.sources)


def table_excluded(name: str) -> ConfigurationError:
    """The error for a table that is asked for by name and excluded."""
    return ConfigurationError(
        "TABLE_EXCLUDED",
        found="the configuration excludes the table",
        where=f"table {name}",
        action="take `exclude` off, or leave the table out",
    )
