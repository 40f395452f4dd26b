"""What `forget` takes away: the changes of one row and the messages that told them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FORGOTTEN = "mainstem.forgotten"
"""The header that a message without its bytes has, and the reason that its changes are excluded for."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """The rows of one table that have one of these keys, with all that is kept of them.

    `keys` are texts as silver has them, by column; several where a row's key was changed. `places` are topic, partition
    and offset of the messages, those of halves included.
    """

    source: str
    database: str | None
    schema: str | None
    table: str
    keys: tuple[Mapping[str, str], ...]
    change_ids: tuple[str, ...]
    places: tuple[tuple[str, int, int], ...]
