"""The one table that a run was asked for by name: what can be said before anything is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from framework.config.model import Config
from framework.contracts.table_names import BATCHES_TABLE
from framework.errors import ConfigurationError, nearest
from framework.lakehouse.lakehouse import lakehouse_of
from framework.lakehouse.newest_tables import is_read_locally
from framework.lakehouse.table_reader import Query, TableReader
from framework.naming import dotted_name

_KNOWN = Query(
    BATCHES_TABLE,
    "SELECT `database`, `schema`, `table` FROM {rows} WHERE `table` IS NOT NULL "
    "GROUP BY `database`, `schema`, `table`",
)


def notes_on_name(tables: TableReader, config: Config, name: str | None) -> Iterator[str]:
    """A note where no table of this name is known yet; messages that wait may still have it.

    Nothing is said in a lakehouse that knows no table at all: its first run decodes everything anyway.

    Raises:
        ConfigurationError: TABLE_EXCLUDED where the configuration excludes the unknown table.
    """
    if name is None:
        return
    known = {dotted_name(row["database"], row["schema"], row["table"]) for row in tables.rows(_KNOWN)}
    if name in known or name in (rule.replica for rule in config.tables):
        return
    if is_excluded(name, config):
        raise table_excluded(name)
    if known:
        close = nearest(name, known)
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
    parts = name.split(".")
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
