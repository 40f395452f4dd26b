"""The outcomes of few changes in this process: of which message each is, and what it says of its half."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from framework.contracts.table_schemas import MESSAGE_AT, MESSAGE_ID
from silver.changes.staged_rows import column_values, is_of_first_landing, is_settled_half

Message = tuple[Any, ...]
"""The values of MESSAGE_ID."""
_NAMES = (*MESSAGE_ID, "paired_with", "batch", "ordinal", "kind", "reason", "detail", "half")


class Outcome(NamedTuple):
    """What the tables that follow from `silver/changes` depend on; `partner` is a paired BEFORE half."""

    message: Message
    partner: Message | None
    batch: int | None
    ordinal: int | None
    kind: str
    reason: str | None
    detail: str | None
    half: str | None

    @property
    def is_of_first_landing(self) -> bool:
        """OF_FIRST_LANDING in this process."""
        return is_of_first_landing(self.kind, self.reason, self.detail)

    @property
    def settles_half(self) -> bool:
        """SETTLED_HALF in this process."""
        return is_settled_half(self.kind, self.reason, self.detail)


def outcomes_in(changes: pa.Table) -> list[Outcome]:
    """The outcomes of changes (CHANGES), in their order."""
    return list(_outcomes(changes))


def _outcomes(changes: pa.Table) -> Iterator[Outcome]:
    width = len(MESSAGE_ID)
    for values in column_values(changes, *_NAMES):
        message, paired, rest = values[:width], values[width], values[width + 1 :]
        partner = None
        if paired is not None:
            partner = (message[0], *(paired[name] for name in MESSAGE_AT[1:]), message[-1])
        yield Outcome(message, partner, *rest)


def messages_in(outcomes: Iterable[Outcome]) -> set[Message]:
    """The messages that the outcomes are made of: their own, and paired BEFORE halves."""
    return {
        message
        for outcome in outcomes
        for message in (outcome.message, outcome.partner)
        if message is not None
    }


def is_complete(message: Message) -> bool:
    """Whether a message has all coordinates; earlier releases have taken messages from tables without."""
    return None not in message
