"""Dumps that are loaded in the middle of a random feed: a table as it was behind some event of its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.end_to_end.random_feeds import Feed, lines_of
from tests.end_to_end.random_repairs import RandomRepairs
from tests.end_to_end.random_settings import name_of
from tests.end_to_end.random_source import RandomSource, Snapshot
from tests.end_to_end.random_statements import RandomTable
from tests.framework.demo.story import Marker, Row

POSITIONS = {"datahub_blob": "sequenceId"}
"""The member of a message that is its position, of feeds that declare the types of their columns."""
_OF_ANOTHER_KEY = ("DROP TABLE", "RENAME", "PRIMARY KEY")
"""Statements after which the dump has another name, or another key, than the table."""


class Seeds:
    """The dumps that a seed draws; none changes what the tables end with."""

    def __init__(self, folder: Path, repairs: RandomRepairs, seed: str) -> None:
        self.folder, self.repairs, self.draw = folder, repairs, Random(f"{seed} seeds")
        self.is_loaded = False

    def seed(self) -> None:
        """Load a dump of a table that has landed, perhaps at the second attempt."""
        found = [
            (place, snapshot)
            for place in self.repairs.tables
            if place[0].format in POSITIONS and place[1].life == 0 and self._has_landed(*place)
            for snapshot in place[1].snapshots
            if snapshot.table is place[2] and snapshot.rows and _keeps_its_key(*place[1:])
        ]
        if not found:
            print("no table to seed")
            return
        (feed, source, table), snapshot = self.draw.choice(found)
        dump = self.folder / f"dump-{self.draw.randrange(10**6)}.csv"
        dump.write_text(csv_of(snapshot.kinds, snapshot.rows), encoding="utf-8")
        position = position_of(feed, source, snapshot)
        name = name_of((feed, source, table))
        self.repairs.twice("seed", name, "--from", str(dump), "--position", position, "--source", feed.format)
        self.is_loaded = True

    def _has_landed(self, feed: Feed, source: RandomSource, table: RandomTable) -> bool:
        return (self.folder / "lakehouse/gold" / source.database / table.name).is_dir()


def _keeps_its_key(source: RandomSource, table: RandomTable) -> bool:
    texts = [
        logged.event.text or ""
        for logged in source.logged
        if isinstance(logged.event, Marker)
        and logged.event.table is not None
        and logged.event.table.name == table.name
    ]
    return not any(word in text for text in texts for word in _OF_ANOTHER_KEY)


def position_of(feed: Feed, source: RandomSource, snapshot: Snapshot) -> str:
    """The position of the last event that the snapshot has, as its message says it."""
    (line, *_) = lines_of(feed, source.logged[snapshot.events - 1])
    return str(json.loads(line)["payload"][POSITIONS[feed.format]])


def csv_of(kinds: Mapping[str, str], rows: list[Row]) -> str:
    """The rows as CSV: a null is an empty cell, and every text is in quotes."""
    lines = [",".join(_cell(name) for name in kinds)]
    lines += [",".join(_cell(row[name]) for name in kinds) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _cell(text: str | None) -> str:
    return "" if text is None else '"' + text.replace('"', '""') + '"'
