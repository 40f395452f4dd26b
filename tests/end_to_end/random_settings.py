"""The present configuration of a random pipeline: its feeds, and what moves have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.end_to_end.random_feeds import Feed, configuration
from tests.end_to_end.random_source import RandomSource
from tests.end_to_end.random_statements import RandomTable


@dataclass
class Settings:
    """The file, and what it is made of.

    `excluded` is a table that is left out, `epochs` those of the sources, `keys` other keys of tables than
    their own, `orders` other orders of sources, and `rule` one of quality that sends changes to quarantine.
    """

    file: Path
    feeds: Mapping[str, tuple[Feed, RandomSource]]
    epochs: dict[str, int] = field(default_factory=dict)
    excluded: str | None = None
    keys: dict[str, list[str]] = field(default_factory=dict)
    orders: dict[str, str] = field(default_factory=dict)
    rule: str | None = None

    def write(self) -> None:
        """Write the file as it is to be from now on."""
        text = configuration(self.feeds, self.epochs, self.keys, self.orders)
        if self.excluded is not None:
            text += f"  - {{match: {self.excluded}, exclude: true}}\n"
        if self.rule is not None:
            text += f"quality:\n  rules:\n    - {self.rule}\n"
        self.file.write_text(text, encoding="utf-8")


def name_of(place: tuple[Feed, RandomSource, RandomTable]) -> str:
    """How commands name a table."""
    feed, source, table = place
    return ".".join(filter(None, (source.database, feed.schema, table.name)))
