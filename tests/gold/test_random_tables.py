"""Random tables whose changes come in any batches: kept up to date, they are what a rebuild makes of them.

The seed draws what happens in each table, how it is kept, and in which batch each change comes. Where
statements do not change the columns, and deletes remove rows, the rows are also those of the source.

    MAINSTEM_SEED=7 MAINSTEM_SIZE=large python -m pytest tests/gold/test_random_tables.py -s
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import AddColumn, ChangeType, DropColumn, RenameColumn
from framework.contracts.events import Token
from gold.planning.table_state import State
from tests.amounts import IS_LARGE
from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    ddl,
    delete,
    insert,
    row,
    snapshot,
    truncate,
    update,
)
from tests.rebuilds import changed_by

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
TABLES, STEPS, BATCHES = (20, 30, 4) if IS_LARGE else (8, 16, 3)
KEYS = range(1, 6)
RULES = (
    "",
    "deletes: soft",
    "deletes: ignore",
    "history: true",
    "history: true, deletes: soft",
    "history: {track: [a]}",
    "schema_policy: evolve",
    "schema_policy: ignore",
)

TEXT = ("string",)
WHOLE = (
    ("int",),
    ("smallint", "bigint"),
    ("int", Token.NUMBER),
    (Token.NUMBER,),
)
"""The types that the changes of a column declare: of whole numbers, which all fit."""
OTHERS = (
    ("int", "decimal(12,2)"),
    ("decimal(10,2)", "decimal(12,4)"),
    ("decimal(10,2)", Token.NUMBER),
    ("float", "double"),
    ("int", "string"),
    ("date", "bigint"),
    (Token.NUMBER, "boolean"),
)
"""Types of which some are too narrow for numbers with a fraction, or have nothing in common."""

BITS = {"smallint": 15, "int": 31, "bigint": 63}

Row = dict[str, str | None]


def _fits(text: str | None, type_: str) -> bool:
    """Whether a column of a type holds a whole number that a source wrote."""
    if text is None:
        return True
    if type_ in BITS:
        return -(2 ** BITS[type_]) <= int(text) < 2 ** BITS[type_]
    if decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", type_):
        return len(text.lstrip("-")) <= int(decimal[1]) - int(decimal[2])
    return True


class ShuffledTable:
    """A table of a source: its rows by key, and the changes that made them."""

    def __init__(self, name: str, draw: Random) -> None:
        self.name, self.draw = name, draw
        self.rule = draw.choice(RULES)
        self.has_statements = draw.random() < 0.4
        self.columns = ["a", "b", "c", "d"]
        self.kinds = {"a": TEXT, "b": TEXT, "c": draw.choice(WHOLE), "d": draw.choice((*WHOLE, *OTHERS))}
        self.first_kinds = dict(self.kinds)
        self.began: dict[int, bool] = {}
        self.rows: dict[int, Row] = {}
        self.events: list[ChangeSpec] = []
        self.at, self.moment = 0, 0
        steps: list[Callable[[], None]] = [self._insert] * 4 + [self._update] * 4 + [self._delete] * 2
        steps += [self._move, self._swap, self._pass_through, self._renew]
        steps += [self._truncate] * draw.choice((0, 0, 1))
        steps += [self._empty_beside_a_statement] * (self.has_statements and draw.random() < 0.5)
        steps += [self._show] * draw.choice((0, 1, 3))
        for _ in range(STEPS):
            self.moment = self.at + 1
            draw.choice(steps)()
            if self.has_statements and draw.random() < 0.15:
                self._alter()
        self.moment = self.at + 1
        self._insert()  # so that no table ends without a row

    def batches(self) -> list[list[ChangeSpec]]:
        """The changes by batch: most of them in order."""
        found: list[list[ChangeSpec]] = [[] for _ in range(BATCHES)]
        disorder = self.draw.choice((0.0, 0.2, 0.5))
        for number, event in enumerate(self.events):
            own = number * BATCHES // len(self.events)
            found[self.draw.randrange(BATCHES) if self.draw.random() < disorder else own].append(event)
        return found

    def truth(self, columns: Mapping[str, str]) -> list[dict[str, object]]:
        """The rows of the source: their texts and whole numbers, without nulls.

        The types of the replica's columns are frozen where the policy says so: a number that does not fit is
        a bad value there, and null.
        """
        is_frozen = self.rule == "schema_policy: ignore"
        rows = {
            key: {
                name: text
                for name, text in values.items()
                if not is_frozen or self.kinds[name] not in WHOLE or _fits(text, columns[name])
            }
            for key, values in self.rows.items()
        }
        return [{"id": str(key), **self._certain(rows[key])} for key in sorted(rows)]

    def found(self, rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
        """The same of the rows of the replica."""
        return [{"id": str(row["id"]), **self._certain(row)} for row in rows]

    def _certain(self, values: Mapping[str, object]) -> dict[str, object]:
        names = [name for name, kinds in self.kinds.items() if kinds not in OTHERS]
        return {name: str(value) for name in names if (value := values.get(name)) is not None}

    def _next(self) -> int:
        self.at += 1
        return self.at

    def _values(self) -> Row:
        return {name: self._value(self.kinds[name]) for name in self.columns}

    def _value(self, kinds: Sequence[str]) -> str | None:
        draw = self.draw
        if kinds == TEXT:
            return draw.choice((None, "x", "y", "z", f"u{self.at}"))
        number = draw.choice((1, -1)) * draw.randrange(
            10 ** draw.choice((1, 1, 1, 2, 4, 5, 10, 12, 19, 20, 30))
        )
        is_whole = kinds in WHOLE or draw.random() < 0.6
        text = str(number) if is_whole else f"{number}.{draw.choice(('5', '25', '00', '1234'))}"
        return draw.choice((None, text, text, text))

    def _types(self, known: Mapping[str, Sequence[str]] | None = None) -> dict[str, str]:
        """What a change declares of the columns."""
        return {name: self.draw.choice(kinds) for name, kinds in (known or self.kinds).items()}

    def _free(self) -> list[int]:
        return [key for key in KEYS if key not in self.rows]

    def _insert(self) -> None:
        for key in self.draw.sample(self._free(), min(1, len(self._free()))):
            self.rows[key] = self._values()
            self._tell_insert(key)

    def _tell_insert(self, key: int) -> None:
        self.began.setdefault(key, True)
        image, types = self._image(key), self._types()
        self.events.append(insert(self.name, self._next(), image, types=types, moment=self.moment))

    def _some(self, count: int = 1) -> list[int]:
        return self.draw.sample(sorted(self.rows), count) if len(self.rows) >= count else []

    def _update(self) -> None:
        for key in self._some():
            name = self.draw.choice(self.columns)
            was = self._image(key)
            self.rows[key] = {**self.rows[key], name: self._value(self.kinds[name])}
            self._tell(was, key, {name})

    def _tell(self, was: Row, key: int, changed: set[str]) -> None:
        """An update: a whole image or the changed columns alone, with or without the one before."""
        image = self._image(key)
        is_partial = self.draw.random() < 0.3
        if is_partial:
            image = {name: text for name, text in image.items() if name == "id" or name in changed}
        is_known = not is_partial and self.draw.random() < 0.6
        before = was if is_known else row(was["id"] or "")
        more = {"types": self._types(), "partial": is_partial, "moment": self.moment}
        self.events.append(update(self.name, self._next(), before, image, **more))

    def _delete(self) -> None:
        for key in self._some():
            self._forget(key)

    def _forget(self, key: int) -> None:
        before = self._image(key) if self.draw.random() < 0.6 else row(key)
        del self.rows[key]
        types = self._types()
        self.events.append(delete(self.name, self._next(), before, types=types, moment=self.moment))

    def _renew(self) -> None:
        """A row is deleted, and another one has its key in the same transaction."""
        for key in self._some():
            self._forget(key)
            self.rows[key] = self._values()
            self._tell_insert(key)

    def _move(self) -> None:
        for key, to in zip(self._some(), self._free(), strict=False):
            self._moved({key: to})

    def _swap(self) -> None:
        """Two rows take each other's keys in one transaction."""
        for one, other in [self._some(2)] if len(self.rows) > 1 else []:
            self._moved({one: other, other: one})

    def _pass_through(self) -> None:
        """A row takes a key for a moment, and then another one."""
        free = self._free()
        if len(free) > 1:
            for key in self._some():
                self._moved({key: free[0]})
                self._moved({free[0]: free[1]})

    def _moved(self, moves: Mapping[int, int]) -> None:
        old = {key: (self._image(key), self.rows.pop(key)) for key in moves}
        for key, to in moves.items():
            was, values = old[key]
            name = self.draw.choice(self.columns)
            is_changed = self.draw.random() < 0.4
            self.rows[to] = {**values, name: self._value(self.kinds[name])} if is_changed else values
            self.began.setdefault(to, False)
            self._tell(was, to, {name} if is_changed else set())

    def _truncate(self) -> None:
        self.rows = {}
        self.events.append(truncate(self.name, self._next()))

    def _empty_beside_a_statement(self) -> None:
        """A truncate, and a statement that needs no rebuild, one right behind the other."""
        steps: list[Callable[[], None]] = [self._truncate, partial(self._alter, "add", "type")]
        for step in self.draw.sample(steps, 2):
            step()

    def _show(self) -> None:
        """A snapshot without positions has the row of a key that began with an insert.

        It has been read at any time. The changes of the key count, wherever they are in the stream.
        """
        for key in self.draw.sample(sorted(self.began), min(1, len(self.began))):
            if self.began[key]:
                values = {name: self._value(kinds) for name, kinds in self.first_kinds.items()}
                types, moment = self._types(self.first_kinds), self.draw.randint(0, self.at + 5)
                self.events.append(
                    snapshot(self.name, self._next(), row(key, **values), types=types, moment=moment)
                )

    def _alter(self, *actions: str) -> None:
        number = self.at
        action = self.draw.choice(actions or ("add", "default", "rename", "drop", "type"))
        name = self.draw.choice(self.columns)
        if action in ("add", "default"):
            new = f"n{number}"
            self.kinds[new] = self.draw.choice((TEXT, TEXT, *WHOLE, *OTHERS))
            value = self._value(self.kinds[new]) if action == "default" else None
            kind = self._declared(new)
            self.events.append(ddl(self.name, self._next(), AddColumn(new, kind, kind, default=value)))
            self.columns.append(new)
            self.rows = {key: {**values, new: value} for key, values in self.rows.items()}
        elif action == "rename":
            new = f"{name}_{number}"
            self.events.append(ddl(self.name, self._next(), RenameColumn(name, new)))
            self.columns = [new if column == name else column for column in self.columns]
            self.kinds[new] = self.kinds.pop(name)
            self.rows = {
                key: {new if column == name else column: text for column, text in values.items()}
                for key, values in self.rows.items()
            }
        elif action == "type":
            kind = self._declared(name)
            self.events.append(ddl(self.name, self._next(), ChangeType(name, kind, kind)))
        elif len(self.columns) > 1:
            self.events.append(ddl(self.name, self._next(), DropColumn(name)))
            self.columns.remove(name)
            del self.kinds[name]
            for values in self.rows.values():
                del values[name]

    def _declared(self, name: str) -> str:
        kind = self.draw.choice(self.kinds[name])
        return "bigint" if kind == Token.NUMBER else kind

    def _image(self, key: int) -> Row:
        return row(key, **self.rows[key])


@pytest.mark.slow
def test_random_tables_are_what_a_rebuild_makes_of_them(spark: SparkSession, tmp_path: Path) -> None:
    print(f"\nMAINSTEM_SEED={SEED}")
    tables = [ShuffledTable(f"t{number}", Random(f"{SEED} {number}")) for number in range(TABLES)]
    rules = "".join(f"  - {{match: db.{table.name}, {table.rule}}}\n" for table in tables if table.rule)
    gold = GoldPipeline(spark, tmp_path, rules)
    parts = [table.batches() for table in tables]
    for number in range(BATCHES):
        gold.add_batch(*(event for part in parts for event in part[number]))
        gold.apply()

    wrong = []
    for table in tables:
        assert gold.state(table.name).state is State.ACTIVE, gold.state(table.name).reason
        is_exact = not table.has_statements and "deletes" not in table.rule
        types = {column.name: column.type for column in gold.state(table.name).columns}
        if is_exact and (found := table.found(gold.rows(table.name))) != (truth := table.truth(types)):
            wrong.append(f"{table.name}, {table.rule}: {found} instead of {truth}")
        names = [table.name, f"{table.name}__history"] if "history" in table.rule else [table.name]
        places = [f"{gold.lake.root}/gold/db/{name}" for name in names]
        if changed := changed_by(partial(gold.rebuild, table.name), spark, places):
            wrong += [f"{table.name}, {table.rule}, statements: {table.has_statements}", *changed]
    assert not wrong, f"MAINSTEM_SEED={SEED}\n" + "\n".join(wrong)
