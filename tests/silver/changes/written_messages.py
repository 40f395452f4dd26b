"""What a writer gives to the broker, and what it can tell of a small database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.silver.changes.small_source import ALL, KEYED, Change, Image, Limits

NOON = 1_709_200_800


@dataclass(frozen=True)
class Sent:
    """A message as it is given to the broker; `route` says which messages keep their order."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    route: str = ""


Write = Callable[[Change, int], list[Sent]]


@dataclass(frozen=True)
class Writer:
    """A way of writing a format.

    Attributes:
        format: The format's name.
        write: The messages of a transaction, for (changes, receipt).
        limits: What cannot be told.
        in_partition: Only the partition orders the changes of a moment: a table has one partition, and
            nothing is repeated but what a writer that begins again repeats.
        pause: What is between a message and its repeat, where equal rows that follow each other are as many.
            Such a writer begins again with a whole transaction, and sends it without a break.
        options: The format's settings.
        needs_no_position: The source has `order: partition`.
    """

    format: str
    write: Callable[[Sequence[Change], int], list[Sent]]
    limits: Limits = ALL
    in_partition: bool = False
    pause: Sent | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    needs_no_position: bool = False


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def native(image: Image | None) -> dict[str, Any] | None:
    if image is None:
        return None
    return {name: int(value or 0) if name == "id" else value for name, value in image.items()}


def keys_of(change: Change) -> list[str]:
    return ["id"] if change.table == KEYED else []


def route_of(change: Change, image: Image) -> str:
    return f"{change.table} {image.get('id')}"


def each(write: Write) -> Callable[[Sequence[Change], int], list[Sent]]:
    """The messages of a transaction, of which each change has its own."""
    return lambda changes, receipt: [sent for change in changes for sent in write(change, receipt)]
