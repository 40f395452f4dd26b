"""The epochs of a source: where each begins in its partitions, and to which one a message belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

BEGUN = "begun"
"""The state of a row of `ops/epochs` that says where an epoch begins."""
Landing = tuple[int, str, int]
"""When a message landed (microseconds), and its file and line; empty and 0 if it did not come from a file."""
Partition = tuple[str, str, int]
"""Source, topic and partition."""


class TopicStart(NamedTuple):
    """How messages of a topic are told from those of the topic of its name before it, by broker times.

    `offset` is the lowest one that had landed of the topic when its epoch began, and `time` the time of the
    first of these messages, in microseconds. A message that is older than that is one of the former topic if
    it is not newer than `earlier`, the newest message of the former topic that had landed; or if its offset
    is not lower than `offset`, and above `reached`, the highest one of the former topic that had landed in
    its partition (null: unknown, as in rows of older releases).
    """

    offset: int
    time: int
    earlier: int | None
    reached: int | None = None


class PartitionStart(NamedTuple):
    """Topic, partition and lowest offset of an epoch; its first landing and times if offsets cannot tell."""

    topic: str
    partition: int
    offset: int
    landing: Landing | None = None
    since: TopicStart | None = None


def first_epoch_of_topic(starts: Mapping[int, PartitionStart], epoch: int) -> int:
    """The first epoch of the topic that a partition has in an epoch; 0 for the first topic of its name.

    `starts` are those of the partition. Epochs of one topic name the landing with which it began.
    """
    landing = next((starts[known].landing for known in sorted(starts, reverse=True) if known <= epoch), None)
    return 0 if landing is None else min(known for known in starts if starts[known].landing == landing)


@dataclass(frozen=True, slots=True)
class EpochRow:
    """A row of `ops/epochs` without its time."""

    source: str
    epoch: int
    state: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    detail: str | None = None
    batch: int = -1
    landed_at: int | None = None
    file: str | None = None
    line: int | None = None
    first_offset: int | None = None
    first_time: int | None = None
    earlier_time: int | None = None
    earlier_offset: int | None = None

    @property
    def landing(self) -> Landing | None:
        """The landing with which the epoch begins, if offsets cannot tell."""
        return None if self.landed_at is None else (self.landed_at, self.file or "", self.line or 0)

    @property
    def start(self) -> PartitionStart:
        """The start that the row records."""
        since = None
        if self.first_time is not None:
            since = TopicStart(
                self.first_offset or 0, self.first_time, self.earlier_time, self.earlier_offset
            )
        return PartitionStart(self.topic or "", self.partition or 0, self.offset or 0, self.landing, since)


class LandedMessage(NamedTuple):
    """A message of bronze: its place, its landing, and when it was sent; times in microseconds."""

    source: str
    topic: str
    partition: int
    offset: int
    landing: Landing = (0, "", 0)
    sent: int | None = None


def epochs_of(rows: Iterable[EpochRow], source: str) -> list[int]:
    """The epochs of a source whose start is recorded, the oldest first."""
    return sorted({row.epoch for row in rows if row.source == source and row.state == BEGUN})


def starts_of(rows: Iterable[EpochRow]) -> dict[Partition, dict[int, PartitionStart]]:
    """Where the epochs of each partition begin; the lowest place of an epoch that is recorded twice."""
    found: dict[Partition, dict[int, PartitionStart]] = {}
    for row in rows:
        if row.state == BEGUN and row.topic:
            mine = found.setdefault((row.source, row.topic, row.partition or 0), {})
            starts = (mine.get(row.epoch, row.start), row.start)
            mine[row.epoch] = min(starts, key=lambda start: (start.landing or (), start.offset))
    return found


def epoch_finder(
    epochs: Mapping[str, Iterable[int]],
    starts: Mapping[Partition, Mapping[int, PartitionStart]],
    configured: Mapping[str, int],
) -> Callable[[LandedMessage], int | None]:
    """Returns a function that finds the epoch of a message.

    Args:
        epochs: The sources with several epochs, which alone depend on the message, and these epochs.
        starts: Where the epochs begin.
        configured: The epoch of each other source; it is 1 where this says nothing.
    """

    def find(message: LandedMessage) -> int | None:
        its = epochs.get(message.source)
        if its is None:
            return configured.get(message.source, 1)
        mine = starts.get((message.source, message.topic, message.partition), {})
        return max((epoch for epoch in its if _has_begun(mine.get(epoch), message)), default=None)

    return find


def _has_begun(start: PartitionStart | None, message: LandedMessage) -> bool:
    if start is None:
        return True
    if message.offset < start.offset:
        return False
    if start.landing is not None and message.landing < start.landing:
        return False
    since, sent = start.since, message.sent
    if since is None or sent is None or sent >= since.time:
        return True
    is_below = message.offset < since.offset or message.offset <= (
        -1 if since.reached is None else since.reached
    )
    return is_below and (since.earlier is None or sent > since.earlier)
