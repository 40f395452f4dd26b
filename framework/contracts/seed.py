"""Rows of a dump on their way through the layers: messages of bronze whose header has table and position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated

import msgspec

from framework.contracts.canonical_types import is_canonical

SEED = "mainstem.seed"
"""The header of a message that is a row of a dump."""
SEEDED = "seeded"
"""The `reason` of changes that are rows of dumps."""
TOPIC = "mainstem.seed:"
"""The start of the topics of such messages; no broker's topic has a colon."""
NOTE = "silver.seeded"
"""The file beside the checkpoints that records that this pipeline was seeded."""
BEHIND = "~"
"""The end of a seed's sequence: it sorts after its position and all that extends it, before the next one."""
FROM_A_DUMP = f"file IS NOT NULL AND line IS NULL AND startswith(topic, '{TOPIC}')"
"""The rows of `bronze/messages` that the command `seed` landed: no other message has a file and no line."""

SEQUENCE = r"[0-9]{3,}\.01[01](\..+)?"
"""The pattern of a sequence: epoch, snapshot mark, and what follows them (`silver/values/sequence.py`)."""

_Sequence = Annotated[str, msgspec.Meta(pattern=rf"(?s)\A{SEQUENCE}{BEHIND}\Z")]


@dataclass(frozen=True, slots=True)
class Seed:
    """The rows of a table at a position.

    Attributes:
        source: The configured source.
        database: The table as the source names it, with `schema` and `table`.
        schema: None where the source has two levels.
        table: The table.
        sequence: The sequence of all the rows.
        key: The columns that identify a row.
        columns: The dump's own canonical types, None where it has none (CSV).
    """

    source: str
    database: str | None
    schema: str | None
    table: str
    sequence: _Sequence
    key: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    columns: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[str, str | None, str | None, str, str]:
        """The table and the position, which identify a seed."""
        return self.source, self.database, self.schema, self.table, self.sequence


_SEED = msgspec.json.Decoder(Seed)


def header_text(seed: Seed) -> bytes:
    """The value of the header SEED."""
    return json.dumps(asdict(seed), ensure_ascii=False, sort_keys=True).encode()


def seed_of_header(text: bytes) -> Seed:
    """The seed in the value of a header. Raises ValueError if there is none."""
    try:
        seed = _SEED.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("the header tells no seed") from error
    if not all(kind is None or is_canonical(kind) for kind in seed.columns.values()):
        raise ValueError("the header tells no seed: a column has no canonical type")
    return seed


def seed_in(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """The value of the header SEED, None where a message is no row of a dump."""
    return next((value or b"" for name, value in headers if name == SEED), None)
