"""Small random source databases: what happens in them, in order, and the tables that they end with.

Values are canonical text. Only the seed decides. How each vendor writes the changes is `random_feeds.py`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from tests.end_to_end.random_statements import STATEMENTS, RandomTable, as_it_is, recreated
from tests.framework.demo.story import START, Change, Marker, Row

WORDS = (
    "",
    "x",
    "007",
    "NULL",
    "null",
    "true",
    " spaced ",
    'quo"ted',
    "it's",
    "back\\slash",
    "line\nbreak",
    "tab\t",
    "数量",
    "🦊 fox",
    "é",
    "a\u0301",
)
KEY_WORDS = ("A", "a", "b b", "数", "007", "")
MICROS_OF_A_CENTURY = 3_155_760_000_000_000

A_WHILE = 3_600_000
"""Milliseconds, longer than halves wait: what is later at a lower position belongs to another life."""
_MOST_OF_A_STEP = (9, 6_000)
"""How many events and milliseconds a step takes at most."""

Key = tuple[str | None, ...]


@dataclass
class LoggedEvent:
    """An event. Those of one transaction share it and its time; `is_tied` says that there are several.

    `life` counts how often positions had begun anew before it, `born` is when they last did; `shows` is set
    for the first event of each table after it.
    """

    event: Change | Marker
    transaction: int
    is_tied: bool = False
    life: int = 0
    born: int = START * 1000
    shows: bool = False


@dataclass(frozen=True)
class Snapshot:
    """A table's rows and kinds of columns behind so many events of its source."""

    table: RandomTable
    events: int
    kinds: Mapping[str, str]
    rows: list[Row]


@dataclass(frozen=True)
class Abilities:
    """What a feed can say: kinds of columns, key changes as updates, swaps, truncates.

    `ddl` are the kinds of statements that it sends, `shown` those that it does not send and that only its
    rows show. Where it `keeps_rest`, an update of the key alone has no other column, so that columns that
    the source has dropped keep their values.
    """

    kinds: Sequence[str]
    moves: bool = True
    swaps: bool = True
    ddl: Sequence[str] = ()
    shown: Sequence[str] = ()
    truncates: bool = False
    keeps_rest: bool = False


def value(kind: str, draw: Random) -> str:
    """A value of a kind as canonical text."""
    if kind == "boolean":
        return draw.choice(("true", "false"))
    if kind in ("int", "bigint", "unsigned"):
        low, high = {
            "int": (-(2**31), 2**31 - 1),
            "bigint": (-(2**63), 2**63 - 1),
            "unsigned": (0, 2**64 - 1),
        }[kind]
        return str(
            draw.choice((0, 1, 7, low, high, 2**53 + 1 if kind != "int" else 11, draw.randint(low, high)))
        )
    if kind == "double":
        return repr(draw.choice((0.1, -2.5, 1e300, 5e-324, 123456789.125, draw.uniform(-1e6, 1e6))))
    if kind.startswith("decimal"):
        cents = draw.choice((1, -1, 10**12 - 1, draw.randint(-(10**10), 10**10)))
        return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"
    if kind == "date":
        return (
            (
                datetime(1970, 1, 1)
                + timedelta(days=draw.choice((0, -141_427, 2_932_896, draw.randint(-20_000, 40_000))))
            )
            .date()
            .isoformat()
        )
    if kind == "binary":
        return base64.b64encode(draw.choice((b"", b"\x00\xff", draw.randbytes(9)))).decode()
    if kind in ("milliseconds", "timestamp", "timestamp_ntz"):
        micros = draw.choice(
            (0, 1_709_210_096_123_456, draw.randint(-MICROS_OF_A_CENTURY // 3, MICROS_OF_A_CENTURY))
        )
        moment = datetime(1970, 1, 1) + timedelta(
            microseconds=micros // 1000 * 1000 if kind == "milliseconds" else micros
        )
        return moment.isoformat(timespec="milliseconds" if kind == "milliseconds" else "microseconds") + (
            "" if kind == "timestamp_ntz" else "Z"
        )
    return draw.choice(WORDS)


class RandomSource:
    """One source database with a few tables, played from a seed."""

    def __init__(self, feed: str, database: str, abilities: Abilities, seed: str) -> None:
        self.feed, self.database, self.abilities = feed, database, abilities
        self.draw = Random(f"{seed} {feed}")
        self.logged: list[LoggedEvent] = []
        self.tables: list[RandomTable] = []
        self.snapshots: list[Snapshot] = []
        self.number, self.now, self.transaction = 0, START * 1000, 0
        self.life, self.born = 0, self.now
        self.ceiling: tuple[int, int] | None = None

    def play(self, tables: int, steps: int, lives: int = 1) -> RandomSource:
        """The events of these tables.

        In each later life positions start again, below those of the life before.
        """
        for number in range(tables):
            self._create(number)
        shares = range(lives + 1, 1, -1)
        for life, share in enumerate(shares):
            if life:
                self._begin_anew()
            self._live(steps * share // sum(shares) if lives > 1 else steps)
        return self

    def _begin_anew(self) -> None:
        """Another server, or a topic created again: tables continue, positions and offsets start again."""
        for table in self.tables:
            self._show(table)
        last = {
            logged.event.table.name: logged
            for logged in self.logged
            if isinstance(logged.event, Change) and logged.life == self.life
        }
        tops = [last[table.name].event for table in self.tables]
        self.ceiling = (min(top.number for top in tops), min(top.at for top in tops) - self.born)
        self.number, self.transaction, self.now, self.life = 0, 0, self.now + A_WHILE, self.life + 1
        self.born = self.now
        for table in self.tables:
            self.now += 5
            self._show(table)
            self.logged[-1].shows = True

    def _has_room(self) -> bool:
        """Whether all that a step may tell stays below the last positions of each table in the
        life before.
        """
        if self.ceiling is None:
            return True
        ends = (self.number + _MOST_OF_A_STEP[0], self.now - self.born + _MOST_OF_A_STEP[1])
        return ends[0] < self.ceiling[0] and ends[1] < self.ceiling[1]

    def _live(self, steps: int) -> None:
        can: list[Callable[[RandomTable], None]] = (
            [self._insert] * 4 + [self._update] * 6 + [self._delete] * 2 + [self._insert_deleted]
        )
        can += [self._move] * 2 + [self._swap] * (2 if self.abilities.swaps else 0)
        for _ in range(steps):
            if not self._has_room():
                return
            self.transaction += 1
            self.now += self.draw.choice((1, 40, 1_000, 2_000))
            self.draw.choice(can)(self.draw.choice(self.tables))
            if (self.abilities.ddl or self.abilities.shown) and self.draw.random() < 0.05:
                self._alter(self.draw.choice(self.tables))
            if self.abilities.truncates and self.draw.random() < 0.02:
                self._truncate(self.draw.choice(self.tables))
            if self.transaction % 8 == 0:
                self.snapshots += [
                    Snapshot(table, len(self.logged), dict(table.kinds), [*table.rows.values()])
                    for table in self.tables
                ]

    def changes(self) -> Iterator[Change]:
        return (logged.event for logged in self.logged if isinstance(logged.event, Change))

    def _create(self, number: int) -> None:
        keys = {"id": "bigint"} if number % 2 == 0 else {"code": "string", "no": "bigint"}
        kinds = {
            **keys,
            **{f"c{i}_{kind.partition('(')[0]}": kind for i, kind in enumerate(self.abilities.kinds)},
        }
        if number:
            some = {
                name: kind
                for name, kind in kinds.items()
                if name not in keys and (kind == "string" or self.draw.random() < 0.5)
            }
            kinds = {**keys, **some}
        name = f"{self.feed}_{number}"
        table = RandomTable(self.feed, self.database, name, tuple(keys), {}, kinds=kinds)
        self.tables.append(table)
        self.now += 5
        self._show(table)

    def _row(self, table: RandomTable, key: Key) -> Row:
        cells = {
            name: None if self.draw.random() < 0.2 else value(kind, self.draw)
            for name, kind in table.kinds.items()
        }
        return {**cells, **dict(zip(table.keys, key, strict=True))}

    def _free_key(self, table: RandomTable) -> Key | None:
        for _ in range(8):
            key = tuple(self._key_value(table.kinds[name]) for name in table.keys)
            if key not in table.rows:
                return key
        return None

    def _key_value(self, kind: str) -> str:
        if kind == "string":
            return self.draw.choice(KEY_WORDS)
        return self.draw.choice((str(self.draw.randint(1, 12)), value("bigint", self.draw)))

    def _some(self, table: RandomTable, count: int = 1) -> list[Key]:
        return self.draw.sample(sorted(table.rows, key=repr), count) if len(table.rows) >= count else []

    def _insert(self, table: RandomTable) -> None:
        key = self._free_key(table)
        if key is not None:
            self._write(table, "insert", None, self._row(table, key))

    def _update(self, table: RandomTable) -> None:
        for key in self._some(table):
            self._write(table, "update", table.rows[key], self._changed(table, table.rows[key]))

    def _delete(self, table: RandomTable) -> None:
        for key in self._some(table):
            self._write(table, "delete", table.rows[key], None)

    def _insert_deleted(self, table: RandomTable) -> None:
        """A row is deleted and inserted anew in one transaction."""
        for key in self._some(table):
            self._write(table, "delete", table.rows[key], None)
            self._write(table, "insert", None, self._row(table, key))

    def _move(self, table: RandomTable) -> None:
        """A row takes another key."""
        to = self._free_key(table)
        for key in self._some(table) if to else []:
            self._moved(table, [(key, to)])

    def _swap(self, table: RandomTable) -> None:
        """Two or three rows take each other's keys in one transaction."""
        keys = self._some(table, self.draw.choice((2, 3)))
        self._moved(table, list(zip(keys, keys[1:] + keys[:1], strict=True)))

    def _moved(self, table: RandomTable, pairs: Sequence[tuple[Key, Key | None]]) -> None:
        old = {key: table.rows.pop(key) for key, _ in pairs}
        for key, to in pairs:
            after = {**old[key], **dict(zip(table.keys, to or key, strict=True))}
            is_changed = self.draw.random() < 0.5
            if is_changed:
                after = self._changed(table, after)
            if self.abilities.moves:
                self._tell(table, "update", old[key], after)
            else:
                self._tell(table, "delete", old[key], None)
                self._tell(table, "insert", None, after)
            stands = self._as_it_stands(table, after)
            if self.abilities.keeps_rest and not is_changed:
                stands |= {name: old[key][name] for name in table.dropped}
            table.rows[table.key_of(after)] = stands

    def _changed(self, table: RandomTable, row: Row) -> Row:
        """The row with another value in a column: an update without a change would look like a duplicate."""
        name = self.draw.choice([name for name in table.kinds if name not in table.keys])
        choices = [None, *(value(table.kinds[name], self.draw) for _ in range(4))]
        return {**row, name: self.draw.choice([text for text in choices if text != row[name]])}

    def _alter(self, table: RandomTable) -> None:
        has_ddl = bool(self.abilities.ddl)
        action = self.draw.choice(self.abilities.ddl or self.abilities.shown)
        if action == "recreate":
            was = self._as_logged(table)
            for text in recreated(table):
                self._mark("ddl", was, text, table)
        else:
            was = self._as_logged(table)
            text = STATEMENTS[action](table, self.draw, len(self.logged))
            if text is not None and has_ddl:
                self._mark("ddl", was, text, table)
        self._show(table)

    def _as_logged(self, table: RandomTable) -> RandomTable:
        return as_it_is(table, {name: wire_type(kind) for name, kind in table.kinds.items()})

    def _show(self, table: RandomTable) -> None:
        """A row without nulls: it shows the type of each column."""
        key = self._free_key(table)
        while key is None or key in table.rows:
            key = tuple(value(table.kinds[name], self.draw) for name in table.keys)
        row = {name: value(kind, self.draw) for name, kind in table.kinds.items()}
        row.update(
            {name: str(2**64 - 1) for name, kind in table.kinds.items() if kind == "unsigned"}
        )  # shows how wide it is
        row.update({name: "text" for name, kind in table.kinds.items() if kind == "string"})
        self._write(table, "insert", None, {**row, **dict(zip(table.keys, key, strict=True))})

    def _truncate(self, table: RandomTable) -> None:
        self._mark("truncate", self._as_logged(table), f"TRUNCATE TABLE `{table.name}`", table)
        table.rows.clear()

    def _mark(self, kind: str, was: RandomTable, text: str, table: RandomTable) -> None:
        self.number += 1
        self.now += 3
        logged = replace(was, becomes=self._as_logged(table))
        self.logged.append(
            LoggedEvent(
                Marker(kind, self.feed, logged, text, self.number, self.now, 1),
                self.transaction,
                life=self.life,
                born=self.born,
            )
        )
        self.now += 3

    def _write(self, table: RandomTable, op: str, before: Row | None, after: Row | None) -> None:
        self._tell(table, op, before, after)
        if before is not None:
            del table.rows[table.key_of(before)]
        if after is not None:
            table.rows[table.key_of(after)] = self._as_it_stands(table, after)

    def _as_it_stands(self, table: RandomTable, after: Row) -> Row:
        """The row in a replica that keeps dropped columns: they are null in rows written since."""
        return {**dict.fromkeys(table.dropped), **{name: after[name] for name in table.kinds}}

    def _tell(self, table: RandomTable, op: str, before: Row | None, after: Row | None) -> None:
        self.number += 1
        logged = self._as_logged(table)
        was, now = (
            None if row is None else {name: row[name] for name in table.kinds} for row in (before, after)
        )
        change = Change(logged, op, was, now, logged.types, self.number, self.now, 1)
        previous = self.logged[-1] if self.logged else None
        is_tied = previous is not None and previous.event.at == self.now
        if is_tied and previous is not None:
            previous.is_tied = True
        self.logged.append(LoggedEvent(change, self.transaction, is_tied, self.life, self.born))


def wire_type(kind: str) -> str:
    """The type by which the wires know a kind."""
    return {"unsigned": "bigint", "milliseconds": "timestamp"}.get(kind, kind)
