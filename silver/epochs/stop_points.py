"""Where a source stops: at the first message of a partition that belongs to another epoch."""

from __future__ import annotations

from dataclasses import dataclass

from framework.contracts.epochs import Landing

SERVER_CHANGED = "server_changed"
"""The reason of a stop at the first message of another server."""
POSITION_RESTARTED = "position_restarted"
"""The reason of a stop at a change that is below an earlier one, although it happened later."""
OFFSETS_RESTARTED = "offsets_restarted"
"""The reason of a stop at the first message of a topic that was created again."""
FOLLOWS = "follows"
"""The reason of a stop in a partition without its own sign: its messages are later than a sign elsewhere."""
UNDECIDED = "position_below"
"""The reason of a stop at a transaction that no other one follows: it may be a long one."""
OLDER_TOPIC = "older_topic"
"""The reason of a stop at messages that are older than those of the same offsets that landed before."""
UNKNOWN_TOPIC = "unknown_topic"
"""The reason of a stop at messages that may be of a topic or of the one of its name before it."""


@dataclass(frozen=True, slots=True)
class StopPoint:
    """The first message of a partition that belongs to another epoch than the messages before it.

    `restart` counts how often the partition's offsets had started again in the batch before it. `landed` is
    the landing of the message, where offsets may have started again.
    """

    source: str
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    restart: int = 0
    landed: Landing | None = None

    @property
    def at(self) -> tuple[int, int]:
        """Where the stop is among the messages of its partition."""
        return self.restart, self.offset
