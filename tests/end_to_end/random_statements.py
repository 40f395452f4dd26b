"""Statements on the tables of a random source: their text, and their effect on existing rows.

A statement is a marker whose table is the one before it; `becomes` is the table after it. Feeds without
statements show what became of a table by its rows alone: there a column that was added is null in the rows
that were there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.framework.demo.story import Table

ADDED = {"string": "varchar(40)", "bigint": "bigint"}
"""Kinds of columns that statements add, and how the source declares them."""

_DEFAULTS = {
    "string": ("kept 数", "", "it's", 'say "x"', "back\\slash", "a; b -- c", "NULL", "7"),
    "bigint": ("42", "0", "-9223372036854775808", "9223372036854775807"),
}

WITH_STATEMENTS = ("add", "default", "rename", "drop", "again", "retype", "rekey", "table", "recreate")
SHOWN = ("add", "drop", "retype")
"""What rows alone can show."""


@dataclass
class RandomTable(Table):
    """A table whose columns may change: the kinds of its present and dropped columns, by their names in gold.

    `former` are the names that it had, `becomes` the table after a statement where this one is as it was
    before it.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    drops: int = 0
    former: list[str] = field(default_factory=list)
    becomes: Table | None = None

    @property
    def plain(self) -> list[str]:
        """The columns that are not the key's."""
        return [name for name in self.kinds if name not in self.keys]


def as_it_is(table: RandomTable, types: Mapping[str, str]) -> RandomTable:
    """The table as a message shows it now: what happens later does not change it."""
    return RandomTable(table.feed, table.database, table.name, table.keys, dict(types))


def add(table: RandomTable, draw: Random, number: int) -> str:
    """A column that is null in the rows that are there."""
    kind = draw.choice(list(ADDED))
    return _added(table, f"n{number}_{kind}", kind, None)


def default(table: RandomTable, draw: Random, number: int) -> str:
    """A column with a constant default, which the rows that are there take."""
    kind = draw.choice(list(ADDED))
    return _added(table, f"n{number}_{kind}", kind, draw.choice(_DEFAULTS[kind]))


def _added(table: RandomTable, name: str, kind: str, value: str | None) -> str:
    table.kinds[name] = kind
    for row in table.rows.values():
        row[name] = value
    literal = "" if value is None else f" NOT NULL DEFAULT {_literal(kind, value)}"
    return f"ALTER TABLE `{table.name}` ADD COLUMN `{name}` {ADDED[kind]}{literal}"


def _literal(kind: str, value: str) -> str:
    if kind != "string":
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def rename(table: RandomTable, draw: Random, number: int) -> str:
    """A column, perhaps of the key, with another name."""
    name = draw.choice(list(table.kinds))
    new = f"r{number}_{name}"
    table.kinds = {new if old == name else old: kind for old, kind in table.kinds.items()}
    table.keys = tuple(new if old == name else old for old in table.keys)
    _call_anew(table, name, new)
    return f"ALTER TABLE `{table.name}` RENAME COLUMN `{name}` TO `{new}`"


def _call_anew(table: RandomTable, old: str, new: str) -> None:
    table.rows = {
        key: {new if name == old else name: text for name, text in row.items()}
        for key, row in table.rows.items()
    }


def drop(table: RandomTable, draw: Random, number: int) -> str | None:
    """A column that is gone: the replica keeps it."""
    if len(table.plain) < 3:
        return None
    name = draw.choice(table.plain)
    table.drops += 1
    table.dropped[name] = table.kinds.pop(name)
    return f"ALTER TABLE `{table.name}` DROP COLUMN `{name}`"


def drop_and_add(table: RandomTable, draw: Random, number: int) -> str | None:
    """A column that is gone, and another one of its name and of another type in the same statement."""
    text = drop(table, draw, number)
    if text is None:
        return None
    name, was = table.dropped.popitem()
    aside = f"_cdc_dropped_{table.drops}_{name}"
    table.dropped[aside] = was
    _call_anew(table, name, aside)
    kind = "bigint" if was == "string" else "string"
    added = _added(table, name, kind, None)
    return f"{text}, {added.partition('` ')[2]}"


def retype(table: RandomTable, draw: Random, number: int) -> str | None:
    """Numbers become texts: the column's type in gold holds both."""
    numbers = [name for name in table.plain if table.kinds[name] == "bigint"]
    if not numbers:
        return None
    name = draw.choice(numbers)
    table.kinds[name] = "string"
    return f"ALTER TABLE `{table.name}` MODIFY COLUMN `{name}` varchar(200)"


def rekey(table: RandomTable, draw: Random, number: int) -> str:
    """Another key: the old key's columns in another order, or with one more that a statement has added."""
    if len(table.keys) > 1 and draw.random() < 0.3:
        table.keys, text = table.keys[::-1], f"ALTER TABLE `{table.name}` "
    else:
        name = f"k{number}_bigint"
        text = _added(table, name, "bigint", "42") + ", "
        table.keys = (*table.keys, name)
    table.rows = {table.key_of(row): row for row in table.rows.values()}
    return f"{text}DROP PRIMARY KEY, ADD PRIMARY KEY ({', '.join(f'`{key}`' for key in table.keys)})"


def table(table: RandomTable, draw: Random, number: int) -> str:
    """The table with another name."""
    old, table.name = table.name, f"{table.name.partition('_as_')[0]}_as_{number}"
    table.former.append(old)
    return f"RENAME TABLE `{old}` TO `{table.name}`"


def recreated(table: RandomTable) -> tuple[str, str]:
    """The table is dropped and created again: it begins empty, with the columns that it has."""
    table.rows, table.dropped, table.drops = {}, {}, 0
    columns = ", ".join(f"`{name}` {_DECLARED.get(kind, kind)}" for name, kind in table.kinds.items())
    keys = ", ".join(f"`{key}`" for key in table.keys)
    return f"DROP TABLE `{table.name}`", f"CREATE TABLE `{table.name}` ({columns}, PRIMARY KEY ({keys}))"


_DECLARED = {
    "string": "varchar(200)", "unsigned": "bigint unsigned", "boolean": "tinyint(1)", "binary": "blob",
    "timestamp": "timestamp(6)",
    "timestamp_ntz": "datetime(6)", "milliseconds": "timestamp(3)",
}  # fmt: skip

STATEMENTS: Mapping[str, Callable[[RandomTable, Random, int], str | None]] = {
    "add": add, "default": default, "rename": rename, "drop": drop, "again": drop_and_add, "retype": retype,
    "rekey": rekey, "table": table,
}  # fmt: skip
