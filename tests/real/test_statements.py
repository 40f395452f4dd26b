"""Random statements of a real MariaDB server: what silver reads of each is what the server made of its table.

Names and order of the columns, the key, and what the row that was there holds in a column that was added.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    ChangeType,
    DropColumn,
    RenameColumn,
    SetKeys,
    TableName,
    Unsupported,
)
from silver.ddl.parser import parse_ddl
from tests.real.conftest import SEED
from tests.real.databases import MariaDb

pytestmark = pytest.mark.real

STATEMENTS = 300
NAMES = (
    *[
        "a",
        "b",
        "c",
        "Name",
        "key_",
        "order",
        "from",
        "status",
        "type",
        "comment",
        "data",
        "value",
        "date",
        "time",
        "text",
        "user",
        "level",
        "position",
        "offset",
        "enabled",
        "action",
        "group",
    ],
    *[
        "add",
        "drop",
        "index",
        "primary",
        "check",
        "no",
        "online",
        "history",
        "system",
        "versioning",
        "period",
        "invisible",
        "cache",
        "virtual",
        "checksum",
        "owner",
        "columns",
    ],
    *("`x y`", "`a``b`", "`数量`", "first_"),
)
TYPES = (
    ("int", "7 -1 1.5 '8' 0x1F"),
    ("int(11) unsigned", "0 '42'"),
    ("bigint unsigned", "18446744073709551615 1e2"),
    ("tinyint(1)", "true 0"),
    ("decimal(10,2)", "1.005 '7' -.5"),
    ("double(6,3)", "1.23456"),
    ("double", "1e3 '1.50'"),
    ("varchar(20)", "'it''s' \"dq\" 12 _utf8mb4'é' 0x4142 ''"),
    ("char(5)", "'ab' 'a\u00a0' 7"),
    ("date", "'2020-01-02' '2020/1/2' 200102"),
    ("datetime(2)", "'2020-1-2' 20200102030405 '2020-01-02T03:04:05.5'"),
    ("time", "'8:5' 101112 '-1:2:3'"),
    ("year", "'99' 5 2020 '0'"),
    ("enum('Small','b')", "'small' 'b'"),
    ("set('x','y','z')", "'z,x' ''"),
    ("bit(8)", "b'101' 5"),
    ("binary(3)", "'ab' x'4142'"),
    ("varbinary(9)", "x'C3A9'"),
    ("text", "'t'"),
)
OTHERS = (
    "ENGINE=InnoDB", "COMMENT='add column x int'", "ALGORITHM=COPY", "MAX_ROWS 5",
    "STATS_AUTO_RECALC DEFAULT", "FORCE", "ADD CHECK (1)",
    "CONVERT TO CHARACTER SET utf8mb4", "DROP PRIMARY KEY", "DROP INDEX IF EXISTS nope", "ENABLE KEYS",
    "DEFAULT CHARSET utf8mb4",
)  # fmt: skip


def bare(name: str) -> str:
    return name.strip("`").replace("``", "`")


def quoted(name: str) -> str:
    return "`" + bare(name).replace("`", "``") + "`"


_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = 'w' ORDER BY ordinal_position"
)
_KEY = (
    "SELECT column_name FROM information_schema.statistics WHERE table_schema = 'w' AND index_name = "
    "'PRIMARY' ORDER BY seq_in_index"
)


class Writer:
    """Writes statements, most of which a server takes."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def name(self) -> str:
        return quoted(self.random.choice(NAMES))

    def column(self) -> str:
        kind, defaults = self.random.choice(TYPES)
        words = [self.random.choice(("", "NULL", "NOT NULL"))]
        if self.random.random() < 0.6:
            words.append("DEFAULT " + self.random.choice(defaults.split(" ")))
        words.append(self.random.choice(("", "", "", "COMMENT 'c, d; -- e'", "UNIQUE", "INVISIBLE")))
        self.random.shuffle(words)
        return " ".join((kind, *words))

    def place(self, have: Sequence[str]) -> str:
        return self.random.choice(("", "", "", " FIRST", f" AFTER {self.random.choice(have)}"))

    def clause(self, have: Sequence[str]) -> str:
        pick, other = self.random.choice(have), self.random.choice(have)
        return self.random.choice(
            (
                f"ADD {self.name()} {self.column()}{self.place(have)}",
                f"ADD COLUMN IF NOT EXISTS {self.name()} {self.column()}{self.place(have)}",
                f"ADD ({self.name()} {self.column()}, {self.name()} {self.column()})",
                f"DROP COLUMN {pick}",
                f"MODIFY {pick} {self.column()}{self.place(have)}",
                f"CHANGE COLUMN {pick} {self.name()} {self.column()}{self.place(have)}",
                f"RENAME COLUMN {pick} TO {self.name()}",
                f"ADD PRIMARY KEY ({pick})",
                f"ADD KEY ({pick}, {other})",
                f"ALTER {pick} DROP DEFAULT",
                self.random.choice(OTHERS),
            )
        )

    def statements(self) -> Iterator[tuple[list[str], str]]:
        """The columns of a table, the first of which is its key, and a statement about it."""
        while True:
            have = ["`id`", *map(quoted, self.random.sample(NAMES, 4))]
            clauses = ", ".join(self.clause(have) for _ in range(self.random.choice((1, 1, 2, 3))))
            yield (
                have,
                f"ALTER {self.random.choice(('', 'IGNORE '))}TABLE {self.random.choice(('t', '`w`.`t`'))} "
                f"{clauses}",
            )


class Model:
    """A table's columns and key, and what its one row holds in columns that were added."""

    def __init__(self, have: Sequence[str]) -> None:
        self.columns, self.keys, self.added = [bare(name) for name in have], ["id"], dict[str, AddColumn]()

    def place(self, name: str) -> int | None:
        return next((at for at, column in enumerate(self.columns) if column.lower() == name.lower()), None)

    def put(self, name: str, action: AddColumn | ChangeType) -> None:
        behind = None if action.after is None else self.place(action.after)
        self.columns.insert(0 if action.first else len(self.columns) if behind is None else behind + 1, name)

    def apply(self, action: Action) -> None:
        match action:
            case AddColumn(name):
                if self.place(name) is None:
                    self.put(name, action)
                    self.added[name] = action
            case DropColumn(name):
                at = self.place(name)
                if at is not None:
                    self.keys = [key for key in self.keys if key.lower() != self.columns[at].lower()]
                    del self.columns[at]
            case RenameColumn(old, new):
                at = self.place(old)
                assert at is not None
                self.keys = [new if key.lower() == old.lower() else key for key in self.keys]
                self.columns[at] = new
            case ChangeType(name):
                at = self.place(name)
                if at is not None and (action.first or action.after is not None):
                    self.put(self.columns.pop(at), action)
            case SetKeys(keys):
                self.keys = list(keys)
            case _:
                pass


def value_of(mariadb: MariaDb, column: AddColumn) -> str:
    """What the row holds in the column, as canonical text."""
    name = quoted(column.name)
    shown = (
        f"TO_BASE64({name})"
        if column.type == "binary"
        else f"{name}+0"
        if (column.declared or "").startswith("bit")
        else name
    )
    (row,) = mariadb.rows(f"SELECT IF({name} IS NULL, '<null>', {shown}) FROM w.t")
    text = row[0] if row else ""
    return text.replace(" ", "T") if column.type == "timestamp_ntz" else text


def is_same(column: AddColumn, text: str) -> bool:
    expected = "<null>" if column.default is None else column.default
    if expected == text or (column.default is None and text.startswith("0000-00-00")):
        return True
    try:
        return float(expected) == float(text)
    except ValueError:
        return column.type == "timestamp_ntz" and expected.rstrip("0.") == text.rstrip("0.")


def test_statements_are_read_as_the_server_reads_them(mariadb: MariaDb) -> None:
    print(f"\nMAINSTEM_SEED={SEED}")
    done, faults = 0, list[str]()
    for have, statement in Writer(SEED).statements():
        columns = ", ".join(("id int PRIMARY KEY", *(f"{name} int" for name in have[1:])))
        mariadb.run(
            f"DROP DATABASE IF EXISTS w; CREATE DATABASE w; USE w; CREATE TABLE t ({columns}); INSERT INTO "
            f"t (id) VALUES (1);"
        )
        try:
            mariadb.run(f"USE w;\n{statement};\n")
        except AssertionError:
            if last_words := mariadb.revived():
                print(f"the server died, perhaps of: {statement}\n{last_words}")
            continue  # the server refuses it, as it would have refused it at the source
        model = Model(have)
        actions = [
            action
            for one in parse_ddl(statement, dialect="mysql", table=TableName("w", None, "t"))
            for action in one.actions
        ]
        for action in actions:
            model.apply(action)
        reasons = [action.reason for action in actions if isinstance(action, Unsupported)]
        if reasons == ["it alters a column that it adds"]:
            continue  # reported: its default may be another
        faults += [f"{statement}: {reason}" for reason in reasons]
        if [row[0] for row in mariadb.rows(_COLUMNS)] != model.columns:
            faults.append(f"{statement}: {model.columns}")
        if [row[0].lower() for row in mariadb.rows(_KEY)] != [name.lower() for name in model.keys]:
            faults.append(f"{statement}: key {model.keys}")
        for column in (
            c for c in model.added.values() if c.name in model.columns and not c.has_expression_default
        ):
            text = value_of(mariadb, column)
            faults += (
                []
                if is_same(column, text)
                else [f"{statement}: {column.name} holds {text!r}, not {column.default!r}"]
            )
        done += 1
        if done == STATEMENTS:
            break
    assert not faults, "\n".join(faults[:40])
