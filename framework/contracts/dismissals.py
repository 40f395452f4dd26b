"""Dismissals: quarantined messages that somebody has looked at and that nobody can or will decode.

A dismissed message keeps its outcome, its bytes and its row in `silver/quarantine`, where three columns say
when, by whom and why it was dismissed. It is not open any more.
"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = {"dismissed_at": "timestamp", "dismissed_by": "string", "dismissed_because": "string"}
"""The columns of a dismissal in `silver/quarantine`; tables of earlier releases lack them."""
IS_OPEN = "NOT `is_resolved` AND `dismissed_at` IS NULL"
IS_DISMISSED = "NOT `is_resolved` AND `dismissed_at` IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Selection:
    """Messages in quarantine: those for which all that is given is true. `offsets` are the first and last."""

    source: str | None = None
    reason: str | None = None
    topic: str | None = None
    partition: int | None = None
    offsets: tuple[int, int] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is given."""
        return self == Selection()


@dataclass(frozen=True, slots=True)
class DismissalRequest:
    """The arguments of `dismiss`.

    Attributes:
        selection: The messages.
        because: Why they are dismissed; None where they are opened again, or only listed.
        is_undone: Opens dismissed messages again.
        is_written: False only lists the messages.
    """

    selection: Selection
    because: str | None = None
    is_undone: bool = False
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class DismissedGroup:
    """The messages of one topic with the same reason."""

    source: str
    topic: str | None
    partition: int | None
    reason: str
    messages: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class Dismissal:
    """The selected messages; `of` counts all that could have been selected."""

    groups: tuple[DismissedGroup, ...] = ()
    of: int = 0

    @property
    def messages(self) -> int:
        """The number of the selected messages."""
        return sum(group.messages for group in self.groups)
