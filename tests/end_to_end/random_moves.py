"""Moves that leave the tables of a random pipeline as they were.

Positions that begin anew, parts of the lakehouse that are lost or older copies, settings that are set
otherwise for a while.
A seed draws them; each lies between two runs, or is what a run says.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType

from framework.errors import MainstemError
from silver.formats import FORMATS
from tests.end_to_end.lost_parts import parts_of, put_back, run_on, take_away
from tests.end_to_end.random_feeds import Feed, parts_of_life
from tests.end_to_end.random_repairs import RandomRepairs
from tests.end_to_end.random_settings import WAYS, Settings, name_of
from tests.end_to_end.random_source import RandomSource
from tests.end_to_end.random_statements import RandomTable

RESTART, LOSS, OLDER, SETTING, DUMP, ORDER = "restart", "loss", "older", "setting", "seed", "order"
MOVES = (RESTART, LOSS, OLDER, SETTING, DUMP, ORDER)
_NOTED = ("counts", "pending", "quarantine", "statements")
"""What follows from the changes, and whose newest commits the note of a run has."""


Place = tuple[Feed, RandomSource, RandomTable]


class Restarts:
    """In which parts the positions of which sources begin anew; of some the configuration says so before."""

    def __init__(self, feeds: Mapping[str, tuple[Feed, RandomSource]], parts: int, seed: str) -> None:
        self.draw = Random(f"{seed} restarts")
        self.parts: list[dict[str, int]] = [{} for _ in range(parts)]
        for name, (_, source) in feeds.items():
            for life in range(1, source.life + 1):
                self.parts[parts_of_life(life, source.life + 1, parts)[0]][name] = life + 1
        self.foretold = {
            name for name, (_, source) in feeds.items() if source.life and self.draw.random() < 0.25
        }

    def foretell(self, part: int, settings: Settings) -> None:
        """Set the epochs that begin with a part, of sources whose owner knows of it."""
        settings.epochs |= {name: epoch for name, epoch in self.parts[part].items() if name in self.foretold}
        settings.write()

    def follow(
        self, part: int, stops: Sequence[MainstemError], settings: Settings, repairs: RandomRepairs
    ) -> None:
        """Follows the advice of stopped sources, perhaps after repairs; only sources of the part may stop."""
        begun = {name: epoch for name, epoch in self.parts[part].items() if name not in self.foretold}
        epochs = {
            _said(r"source (\w+)", stop.where): int(_said(r"`epoch: (\d+)`", stop.action)) for stop in stops
        }
        print("stopped:", *(f"{stop.where}: {stop.found}" for stop in stops), sep="\n  ")
        assert epochs.items() <= begun.items(), (epochs, begun)
        if self.draw.random() < 0.3:
            repairs.repair(1, codes=(0, 1))
        settings.epochs |= epochs
        settings.write()


def _said(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


class Losses:
    """Parts of the state that are taken away or put back from an older copy; the runs behind do what each
    error says.
    """

    def __init__(self, folder: Path, settings: Settings, repairs: RandomRepairs, seed: str) -> None:
        self.settings, self.repairs, self.draw = settings, repairs, Random(f"{seed} losses")
        self.lakehouse, self.backup, self.older = (
            folder / name for name in ("lakehouse", "backup", "older-copy")
        )

    def lose(self) -> None:
        """Take some parts away and run until all is well."""
        names, patterns = self._drawn(self.lakehouse)
        _copy(self.lakehouse, self.backup)
        take_away(self.lakehouse, patterns)
        print("lost:", *names)
        self._run_on()

    def keep(self) -> None:
        """Keep a copy, from which `put_back` takes older parts."""
        _copy(self.lakehouse, self.older)

    def put_back(self) -> None:
        """Put some parts back from the older copy and run until all is well.

        What follows from the changes stays where the note goes that tells of it: an older copy of both is
        not noticed.
        """
        names, patterns = self._drawn(self.older, apart={"silver_checkpoint": _NOTED})
        _copy(self.lakehouse, self.backup)
        put_back(self.lakehouse, self.older, patterns)
        print("older:", *names)
        self._run_on()

    def _drawn(
        self, lakehouse: Path, apart: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Names of some parts that a lakehouse has, the table and source of one among them; and patterns.

        `apart` are parts that are not drawn together with another one.
        """
        place = self.draw.choice(self.repairs.present)
        feed = place[0]
        known = {
            name: patterns
            for name, patterns in parts_of(feed.format, name_of(place).replace(".", "/")).items()
            if all(list(at.glob(pattern)) for pattern in patterns for at in {lakehouse, self.lakehouse})
        }
        names = self.draw.sample(sorted(known), self.draw.choice((1, 1, 2, 3, len(known) // 2)))
        others = {other for name in names for other in apart.get(name, ())}
        names = [name for name in names if name not in others]
        return (*names, "of", feed.format), [pattern for name in names for pattern in known[name]]

    def _run_on(self) -> None:
        command = ["run", "--through", "gold", "-c", str(self.settings.file)]
        conditions, _ = run_on(self.lakehouse, self.backup, command)
        print("followed:", *conditions)


def _copy(lakehouse: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(lakehouse, place)


_TYPES = ("string", "int", "decimal(5,1)", "date")
_READINGS: Sequence[Mapping[str, object]] = (
    {"unsigned": True},
    {"type": "decimal(20,0)", "unsigned": True},
    {"type": "timestamp_ntz", "encoding": "milliseconds"},
)


class Detours:
    """Settings that are others for a while: keys of a table, how and where it is kept, the type of a column
    or how it is read, a rule that quarantines some changes, or the sources that are named.
    """

    def __init__(self, settings: Settings, repairs: RandomRepairs, seed: str) -> None:
        self.settings, self.repairs, self.draw = settings, repairs, Random(f"{seed} detours")
        self.way_back: list[Sequence[str]] = []

    def leave(self) -> None:
        """Set some things otherwise from now on."""
        unkeyed = [place for place in self.repairs.tables if not place[0].names_keys]
        tables = self.repairs.tables
        unbroken = [place for place in tables if place[1].life == 0]
        if len({place[0].format for place in tables}) == 1:  # no table would be left for repairs
            unbroken = []
        moves = [(move, tables) for move in (self._rule, self._way, self._place, self._type, self._reading)]
        moves += [(self._keys, unkeyed), (self._absence, unbroken)]
        possible = [(move, tables) for move, tables in moves if tables]
        for move, tables in self.draw.choices(possible, k=self.draw.choice((1, 3, 6))):
            _, source, table = place = self.draw.choice(tables)
            kinds = enumerate(source.abilities.kinds)
            first = [f"c{number}_{kind.partition('(')[0]}" for number, kind in kinds]
            column = self.draw.choice([name for name in first if name in table.kinds] or [table.keys[0]])
            self.way_back += move(place, column)
        self.settings.write()
        settings = self.settings
        print("set:", settings.keys, settings.rule, settings.other_ways, "absent:", settings.absent)

    def _rule(self, place: Place, column: str) -> Sequence[Sequence[str]]:
        name = name_of(place)
        kinds = [f"not_null: {column}", f"accepted: {{column: {column}, values: [x, '1', '7', 'true']}}"]
        self.settings.rule = f"{{match: {name}, {self.draw.choice(kinds)}, on_change: quarantine}}"
        return [["replay"]]

    def _way(self, place: Place, column: str) -> Sequence[Sequence[str]]:
        """Gold makes the table anew by itself."""
        ways = [*WAYS, {"schema_policy": "ignore"}, {"history": {"track": [column]}}]
        self.settings.other_ways[place[2].name] = self.draw.choice(ways)
        return []

    def _place(self, place: Place, column: str) -> Sequence[Sequence[str]]:
        name = place[2].name
        self.settings.other_ways[name] = {**self.settings.ways[name], "replica": f"elsewhere.{name}"}
        return []

    def _type(self, place: Place, column: str) -> Sequence[Sequence[str]]:
        """A type that most of the values do not have: their cells are null for a while."""
        name, rule = place[2].name, {"type": self.draw.choice(_TYPES)}
        self.settings.other_ways[name] = {**self.settings.ways[name], "columns": {column: rule}}
        return []

    def _reading(self, place: Place, column: str) -> Sequence[Sequence[str]]:
        """Values would be read otherwise: only a table that is decoded again meanwhile has such values."""
        name, rule = place[2].name, self.draw.choice(_READINGS)
        self.settings.other_ways[name] = {**self.settings.ways[name], "columns": {column: rule}}
        return [["rebuild", name_of(place), "--from", "bronze"]]

    def _absence(self, place: Place, column: str) -> Sequence[Sequence[str]]:
        self.settings.absent = place[0].format
        return []

    def _keys(self, place: Place, column: str) -> Sequence[Sequence[str]]:
        feed, _, table = place
        others = [[column], [*table.keys, column], [column, *table.keys]]
        self.settings.keys[table.name] = self.draw.choice(others)
        from_bronze = ["--from", "bronze"] if feed.has_halves or self.draw.random() < 0.5 else []
        return [["rebuild", name_of(place), *from_bronze]]

    def come_back(self) -> None:
        """Corrects the setting, and returns the commands that repair what it has affected."""
        self.settings.keys, self.settings.rule, self.settings.other_ways = {}, None, {}
        self.settings.absent = None
        self.settings.write()
        for command in self.way_back:
            self.repairs.twice(*command)
        self.way_back = []


class OtherOrders:
    """A source whose messages are ordered by their time for a while instead of by their partition, or by
    their partition instead of by their time.
    """

    def __init__(self, settings: Settings, repairs: RandomRepairs, seed: str) -> None:
        self.settings, self.repairs, self.draw = settings, repairs, Random(f"{seed} orders")
        self.tables: list[Place] = []

    def leave(self) -> None:
        """Set another order from now on, of a source whose tables keep their names."""
        feeds = [
            name
            for name, (_, source) in self.settings.feeds.items()
            if not any(table.former for table in source.tables)
        ]
        if not feeds:
            return
        name = self.draw.choice(feeds)
        feed, _ = self.settings.feeds[name]
        self.settings.orders = {name: "time" if "layout: kcat" in feed.config else "partition"}
        self.settings.write()
        self.tables = [place for place in self.repairs.tables if place[0].format == name]
        print("order:", self.settings.orders)

    def come_back(self) -> None:
        """Set the order as it was, and order anew what was read meanwhile.

        Nothing was ordered otherwise where positions are no times, but for SharePlex: there the partition
        orders all rows, those with scn too.
        """
        self.settings.orders = {}
        self.settings.write()
        for place in self.tables:
            fmt = FORMATS[place[0].format]
            if not fmt.positions_are_unique or fmt.name == "oms_shareplex":
                self.repairs.twice("rebuild", name_of(place), "--from", "bronze")
        self.tables = []
