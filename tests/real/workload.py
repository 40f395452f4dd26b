"""A random workload on two databases: tables of all types, key changes, statements that change tables.

Each step is one transaction. What it does is drawn from a seed, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.real.columns import MARIADB, POSTGRES, Column
from tests.real.databases import MariaDb, Postgres
from tests.real.tables import mariadb_cell, postgres_cell

_TEXT = ("'a'", "'b'", "'Grüße'", "''", "NULL")
_SMALL = ("0", "1", "-7", "2147483647", "NULL")


def _text(name: str, quote: str) -> Column:
    return Column(name, "TEXT" if quote == '"' else "VARCHAR(100)", "text", _TEXT)


def _number(name: str) -> Column:
    return Column(name, "INT", "number", _SMALL)


@dataclass
class Table:
    """The present state of a source table, perhaps without `keys`.

    `is_wide` tables may gain and lose columns.
    """

    name: str
    keys: tuple[Column, ...]
    columns: list[Column]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    can_change: bool = False

    @property
    def all_columns(self) -> list[Column]:
        return [*self.keys, *self.columns]


@dataclass
class Workload:
    """A database of tables under a random workload."""

    database: MariaDb | Postgres
    random: Random
    tables: dict[str, Table] = field(default_factory=dict)
    next_id: int = 1
    body_length: int = 6000

    @property
    def quote(self) -> str:
        return "`" if isinstance(self.database, MariaDb) else '"'

    def _name(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def run(self, statements: Sequence[str]) -> None:
        """One transaction in the workload's database."""
        prefix = "USE shop;\n" if self.quote == "`" else "\\c shop\n"
        self.database.run(prefix + "".join(f"{statement};\n" for statement in statements))

    def create(self) -> None:
        """The tables, with some rows that a snapshot will find."""
        is_mariadb = self.quote == "`"
        key = Column("id", "INT", "number", ())
        note = Column("note", "TEXT", "text", ("'n'", "'m'", "NULL"))
        many = Column("body", "LONGTEXT" if is_mariadb else "TEXT", "text", ())
        region = Column("region", "VARCHAR(20)", "text", ())
        q = self.quote
        kinds = MARIADB if is_mariadb else POSTGRES
        weird = [
            _text("select", q),
            _number("a b"),
            _text("ünï", q),
            _text("Upper", q),
            _text("_cdc_sequence", q),
            _number("x.y"),
        ]
        for table in (
            Table("kinds", (key,), list(kinds)),
            Table("orders", (region, key), [_number("amount"), _text("state", q)]),
            Table("Weird Names", (key,), weird),
            Table("growing", (key,), [_text("first", q), _number("second")], can_change=True),
            Table("cleared", (key,), [_text("word", q)]),
            Table("documents", (key,), [note, many]),
            Table("swapped", (key,), [_text("word", q)]),
        ):
            self.tables[table.name] = table
        if is_mariadb:
            self.database.run("CREATE DATABASE shop")
        else:
            self.database.run("CREATE DATABASE shop")
            extensions = ["CREATE EXTENSION citext", "CREATE EXTENSION hstore", "CREATE EXTENSION ltree"]
            self.run(
                [
                    *extensions,
                    "CREATE TYPE mood AS ENUM ('sad','o''k','happy')",
                    "CREATE DOMAIN positive_price AS numeric(8,2)",
                ]
            )
        for table in self.tables.values():
            self.run([self._created(table)])
        for _ in range(2):
            for table in self.tables.values():
                self.insert(table, 4)

    def _created(self, table: Table) -> str:
        columns = ", ".join(f"{self._name(c.name)} {c.declared}" for c in table.all_columns)
        keys = ", ".join(self._name(c.name) for c in table.keys)
        return f"CREATE TABLE {self._name(table.name)} ({columns}, PRIMARY KEY ({keys}))"

    def insert(self, table: Table, count: int) -> None:
        """New rows in one statement."""
        rows = []
        for _ in range(count):
            key = tuple(
                str(self.next_id) if k.name == "id" else self.random.choice(("'north'", "'süd'"))
                for k in table.keys
            )
            self.next_id += 1
            table.rows.append(key)
            rows.append("(" + ", ".join([*key, *(self._value(c) for c in table.columns)]) + ")")
        names = ", ".join(self._name(c.name) for c in table.all_columns)
        self.run([f"INSERT INTO {self._name(table.name)} ({names}) VALUES {', '.join(rows)}"])

    def _value(self, column: Column) -> str:
        if column.name == "body":
            letters = "".join(
                self.random.choices("abcdefghijklmnopqrstuvwxyz", k=self.body_length)
            )  # does not compress: PostgreSQL stores it apart
            return f"'{letters}'"
        return self.random.choice((*column.literals, "NULL"))

    def _where(self, table: Table, key: Sequence[str]) -> str:
        return " AND ".join(f"{self._name(c.name)} = {v}" for c, v in zip(table.keys, key, strict=True))

    def step(self) -> None:
        """One random transaction on one random table."""
        table = self.random.choice([t for t in self.tables.values() if t.rows])
        actions: list[Callable[[Table], list[str]]] = [
            self._update,
            self._update,
            self._delete,
            self._move,
            self._many,
        ]
        self.run(self.random.choice(actions)(table))
        if self.random.random() < 0.5:
            self.insert(self.random.choice(list(self.tables.values())), 2)

    def _update(self, table: Table) -> list[str]:
        key = self.random.choice(table.rows)
        columns = [c for c in table.columns if c.name != "body"]
        chosen = self.random.sample(columns, k=min(len(columns), self.random.randint(1, 3)))
        cells = ", ".join(f"{self._name(c.name)} = {self._value(c)}" for c in chosen)
        return [f"UPDATE {self._name(table.name)} SET {cells} WHERE {self._where(table, key)}"]

    def _delete(self, table: Table) -> list[str]:
        key = table.rows.pop(self.random.randrange(len(table.rows)))
        return [f"DELETE FROM {self._name(table.name)} WHERE {self._where(table, key)}"]

    def _move(self, table: Table) -> list[str]:
        """A changed key; the old one is used again now and then."""
        place = self.random.randrange(len(table.rows))
        old = table.rows[place]
        table.rows[place] = (*old[:-1], str(self.next_id))
        self.next_id += 1
        moved = (
            f"UPDATE {self._name(table.name)} SET {self._name('id')} = {table.rows[place][-1]} WHERE "
            f"{self._where(table, old)}"
        )
        return [moved, *(self._insert_deleted(table, old) if self.random.random() < 0.3 else [])]

    def _insert_deleted(self, table: Table, key: tuple[str, ...]) -> list[str]:
        table.rows.append(key)
        names = ", ".join(self._name(c.name) for c in table.all_columns)
        return [
            f"INSERT INTO {self._name(table.name)} ({names}) VALUES "
            f"({', '.join([*key, *(self._value(c) for c in table.columns)])})"
        ]

    def _many(self, table: Table) -> list[str]:
        """Several changes of one transaction, some of one row."""
        return ["BEGIN", *self._update(table), *self._move(table), *self._update(table), "COMMIT"]

    def swap(self) -> None:
        """Two rows change their keys with each other, by way of a third."""
        table = self.tables["swapped"]
        one, other = table.rows[0][0], table.rows[1][0]
        name, key = self._name(table.name), self._name("id")
        steps = ((one, "-1"), (other, one), ("-1", other))
        self.run(
            [
                "BEGIN",
                *(f"UPDATE {name} SET {key} = {new} WHERE {key} = {old}" for old, new in steps),
                "COMMIT",
            ]
        )

    def clear(self) -> None:
        """TRUNCATE, and rows behind it."""
        table = self.tables["cleared"]
        self.run([f"TRUNCATE TABLE {self._name(table.name)}"])
        table.rows.clear()
        self.insert(table, 3)

    def grow(self) -> None:
        """Columns come, change and go."""
        table, name = self.tables["growing"], self._name("growing")
        declared = (
            "INT DEFAULT 7" if self.quote == "`" else "INT"
        )  # PostgreSQL tells nobody that older rows have a default
        late = Column("late", declared, "number", _SMALL)
        self.run([f"ALTER TABLE {name} ADD COLUMN {self._name('late')} {declared}"])
        table.columns.append(late)
        self.insert(table, 2)
        self.run(self._update(table))
        if self.quote == "`":
            self.run(
                [f"ALTER TABLE {name} MODIFY COLUMN `second` BIGINT, RENAME COLUMN `first` TO `primary`"]
            )
            table.columns[0] = _text("primary", self.quote)
            self.insert(table, 2)
        else:
            self.run([f"ALTER TABLE {name} ALTER COLUMN second TYPE bigint"])
        table.columns[1] = Column("second", "BIGINT", "number", ("9007199254740993", "0", "NULL"))
        self.insert(table, 2)
        self.run(self._update(table))

    def cells(self, table: Table) -> list[list[str]]:
        """A table's rows as texts of hexadecimal digits."""
        cell = mariadb_cell if self.quote == "`" else postgres_cell
        if isinstance(self.database, MariaDb):
            cells = ", ".join(cell(c) for c in table.all_columns)
            return self.database.rows(f"SELECT {cells} FROM shop.{self._name(table.name)}")
        cells = " || '|' || ".join(cell(c) for c in table.all_columns)
        return [
            row[0].split("|")
            for row in self.database.rows_of("shop", f"SELECT {cells} FROM {self._name(table.name)}")
        ]
