"""The present configuration of a random pipeline: its feeds, and what moves have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.end_to_end.random_feeds import Feed, configuration
from tests.end_to_end.random_source import RandomSource
from tests.end_to_end.random_statements import RandomTable

WAYS: Sequence[Mapping[str, object]] = (
    {},
    {"history": True},
    {"deletes": "soft"},
    {"schema_policy": "evolve"},
    {"history": True, "deletes": "soft"},
    {"deletes": "ignore"},
)
"""How a table may be kept: settings with which it has the rows of the source, some with deleted ones."""


@dataclass
class Settings:
    """The file, and what it is made of.

    `excluded` is a table that is left out, and `absent` a source that is not named. `epochs` are those of the
    sources, `keys` other keys of tables than their own, `orders` other orders of sources, and `rule` one of
    quality that sends changes to quarantine. `ways` are how tables are kept, `other_ways` those of tables
    that are kept otherwise for a while.
    """

    file: Path
    feeds: Mapping[str, tuple[Feed, RandomSource]]
    epochs: dict[str, int] = field(default_factory=dict)
    excluded: str | None = None
    absent: str | None = None
    keys: dict[str, list[str]] = field(default_factory=dict)
    orders: dict[str, str] = field(default_factory=dict)
    rule: str | None = None
    ways: dict[str, Mapping[str, object]] = field(default_factory=dict)
    other_ways: dict[str, Mapping[str, object]] = field(default_factory=dict)

    def draw_ways(self, draw: Random) -> None:
        """Keep each table in a way that the seed draws."""
        for _, source in self.feeds.values():
            self.ways |= {table.name: draw.choice(WAYS) for table in source.tables}

    def drops_columns(self, feed: Feed, table: RandomTable) -> bool:
        """Whether a column that the source dropped is no column of the replica."""
        return bool(feed.abilities.ddl) and "schema_policy" in self.ways.get(table.name, {})

    def write(self) -> None:
        """Write the file as it is to be from now on."""
        named = {name: feed for name, feed in self.feeds.items() if name != self.absent}
        text = configuration(named, self.epochs, self.keys, self.orders, self.ways | self.other_ways)
        if self.excluded is not None:
            text += f"  - {{match: {self.excluded}, exclude: true}}\n"
        if self.rule is not None:
            text += f"quality:\n  rules:\n    - {self.rule}\n"
        self.file.write_text(text, encoding="utf-8")


def name_of(place: tuple[Feed, RandomSource, RandomTable]) -> str:
    """How commands name a table."""
    feed, source, table = place
    return ".".join(filter(None, (source.database, feed.schema, table.name)))
