"""Rows of a dump on their way through the layers: each is a message of bronze whose header says of which table and position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

SEED = "mainstem.seed"
"""The header of a message that is a row of a dump."""
SEEDED = "seeded"
"""What `reason` holds in the changes that rows of dumps are."""
TOPIC = "mainstem.seed:"
"""How the topics of such messages begin; no broker's topic has a colon."""
NOTE = "silver.seeded"
"""The file beside the checkpoints that says that this pipeline was ever seeded."""
BEHIND = "~"
"""Ends the sequence of a seed: behind the position and all that continues it, before the next one."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A table as it stood at a position. `sequence` is the one of all its rows, `key` the columns that tell them apart.

    `columns` are the dump's own canonical types, None where it has none (CSV).
    """

    source: str
    database: str | None
    schema: str | None
    table: str
    sequence: str
    key: tuple[str, ...]
    columns: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str | None, str | None, str, str]:
        """What tells one seed from another: the table and the position."""
        return self.source, self.database, self.schema, self.table, self.sequence


def header_text(seed: Seed) -> bytes:
    """The value of the header SEED."""
    return json.dumps(asdict(seed), ensure_ascii=False, sort_keys=True).encode()


def seed_of_header(text: bytes) -> Seed:
    """The seed that a header's value tells. Raises ValueError where it tells none."""
    try:
        told = json.loads(text)
        return Seed(**{**told, "key": tuple(told["key"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError("the header tells no seed") from error


def seed_in(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """The value of the header SEED, None where a message is no row of a dump."""
    return next((value or b"" for name, value in headers if name == SEED), None)
