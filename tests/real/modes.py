"""One small table for each mode in which a connector writes decimals, bytes, times, intervals or numbers.

A set of modes is recorded in the four styles of `connectors.STYLES`. `python -m tests.real.record modes`
records them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.real.columns import Column
from tests.real.databases import MariaDb, Postgres
from tests.real.tables import mariadb_cell, postgres_cell

FOLDER = Path(__file__).parents[1] / "fixtures" / "recordings" / "modes"
LAST = 99
"""The key of the last row of a workload."""


@dataclass(frozen=True)
class Modes:
    """The settings of a connector; None leaves the default."""

    decimals: str | None = None
    binary: str | None = None
    times: str | None = None
    unsigned: str | None = None
    intervals: str | None = None

    def config(self, letter: str) -> dict[str, str]:
        """The connector's own names for it; MariaDB has no intervals, PostgreSQL no unsigned numbers."""
        given = {
            "decimal.handling.mode": self.decimals,
            "binary.handling.mode": self.binary,
            "time.precision.mode": self.times,
            **(
                {"bigint.unsigned.handling.mode": self.unsigned}
                if letter == "m"
                else {"interval.handling.mode": self.intervals}
            ),
        }
        return {name: mode for name, mode in given.items() if mode is not None}


SETS: Mapping[str, Modes] = {
    "0": Modes(),
    "1": Modes("string", "hex", "connect", "precise", "string"),
    "2": Modes("double", "base64", "isostring", "long", "numeric"),
    "3": Modes("precise", "base64-url-safe", "microseconds", "precise", "string"),
    "4": Modes("string", "bytes", "nanoseconds", "long", "numeric"),
    "5": Modes("precise", "hex", "adaptive_time_microseconds", "precise", "string"),
}
"""Every mode of every setting, in few connectors; `adaptive` is PostgreSQL's default."""

KEYS = (Column("code", "DECIMAL(20,0)", "number", ()), Column("id", "BIGINT", "number", ()))
MARIADB = (
    Column("price", "DECIMAL(12,2)", "number", ("1234", "-9.90", "0.05")),
    Column("whole", "DECIMAL(30,0)", "number", ("1234", "18446744073709551616", "-1234")),
    Column("fixed", "BINARY(4)", "bytes", ("x'00ff1234'", "x'61626364'", "x'ffffffff'")),
    Column("raw", "VARBINARY(20)", "bytes", ("x''", "x'fbefbe'", "x'69b71d79f8'")),
    Column("seen", "BIGINT UNSIGNED", "number", ("1234", "9223372036854775808", "18446744073709551615")),
    Column("born", "DATE", "date", ("'2024-02-29'", "'1969-12-31'", "'1000-01-01'")),
    Column("at_0", "TIME", "time", ("'10:00:00'", "'00:00:01'", "'23:59:59'")),
    Column("at_6", "TIME(6)", "time", ("'10:00:00.000000'", "'00:00:00.500000'", "'23:59:59.000000'")),
    Column(
        "wall_0",
        "DATETIME",
        "wall",
        ("'2024-02-29 10:00:00'", "'1970-01-12 13:46:40'", "'1969-12-31 23:59:59'"),
    ),
    Column(
        "wall_3",
        "DATETIME(3)",
        "wall",
        ("'2024-02-29 10:00:00.123'", "'1970-01-12 13:46:40'", "'2262-01-01 00:00:00'"),
    ),
    Column(
        "wall_6",
        "DATETIME(6)",
        "wall",
        ("'2024-02-29 10:00:00.123000'", "'1970-01-12 13:46:40'", "'1900-01-01 00:00:00'"),
    ),
    Column(
        "moment",
        "TIMESTAMP(6) NULL",
        "instant",
        ("'2024-02-29 10:00:00.5'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"),
    ),
)
POSTGRES = (
    Column("price", "numeric(12,2)", "number", ("1234", "-9.90", "0.05")),
    Column("whole", "numeric(30,0)", "number", ("1234", "18446744073709551616", "-1234")),
    Column("open_number", "numeric", "number", ("1234", "1.10", "-18446744073709551616")),
    Column("raw", "bytea", "bytes", ("'\\x00ff1234'", "'\\xfbefbe'", "'\\x69b71d79f8'")),
    Column("born", "date", "date", ("'2024-02-29'", "'1969-12-31'", "'1000-01-01'")),
    Column("at_3", "time(3)", "time", ("'10:00:00'", "'00:00:00.5'", "'23:59:59'")),
    Column("at_6", "time", "time", ("'10:00:00'", "'00:00:00.5'", "'23:59:59.999'")),
    Column(
        "wall_3",
        "timestamp(3)",
        "wall",
        ("'2024-02-29 10:00:00.123'", "'1970-01-12 13:46:40'", "'2262-01-01 00:00:00'"),
    ),
    Column(
        "wall_6",
        "timestamp",
        "wall",
        ("'2024-02-29 10:00:00.123'", "'1970-01-12 13:46:40'", "'1900-01-01 00:00:00'"),
    ),
    Column(
        "moment",
        "timestamptz",
        "instant",
        ("'2024-02-29 10:00:00.5+02'", "'1970-01-01 00:00:01+00'", "'2038-01-19 03:14:07+00'"),
    ),
    Column("span", "interval", "interval", ("'1 day 02:03:04.5'", "'-3 hours'", "'1 year 2 mons'")),
)


@dataclass(frozen=True)
class Modal:
    """The database of one letter with its table `modes`, whose rows change in every way."""

    letter: str
    database: MariaDb | Postgres

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*KEYS, *(MARIADB if self.letter == "m" else POSTGRES))

    def run(self, *statements: str) -> None:
        prefix = "USE shop;\n" if self.letter == "m" else "\\c shop\n"
        self.database.run(prefix + "".join(f"{statement};\n" for statement in statements))

    def create(self) -> None:
        """The table, and two rows for the snapshot."""
        self.database.run("CREATE DATABASE shop")
        columns = ", ".join(f"{c.name} {c.declared}" for c in self.columns)
        self.run(f"CREATE TABLE modes ({columns}, PRIMARY KEY (code, id))")
        self.run(self._insert("1234", 1, 0), self._insert("18446744073709551616", 2, 1))

    def work(self) -> None:
        """Rows that come, change, change their keys and go."""
        self.run(
            self._insert("5", 3, 2),
            self._insert("6", 4, None),
            self._insert("12345678", 5, 0),
            self._insert("-1234", 6, 1),
        )
        self.run("UPDATE modes SET price = 12345678.5 WHERE id = 1")
        self.run("UPDATE modes SET code = 1235 WHERE id = 1", "DELETE FROM modes WHERE id = 5")
        self.run(self._insert("0", LAST, 2))

    def _insert(self, code: str, key: int, choice: int | None) -> str:
        cells = ", ".join("NULL" if choice is None else c.literals[choice] for c in self.columns[len(KEYS) :])
        return f"INSERT INTO modes VALUES ({code}, {key}, {cells})"

    def cells(self) -> list[list[str]]:
        """The table's rows as texts of hexadecimal digits."""
        if isinstance(self.database, MariaDb):
            return self.database.rows(
                f"SELECT {', '.join(mariadb_cell(c) for c in self.columns)} FROM shop.modes"
            )
        cells = " || '|' || ".join(f"({postgres_cell(c)})" for c in self.columns)
        found = self.database.rows_of("shop", f"SELECT {cells} FROM modes")
        return [row[0].split("|") for row in found]
