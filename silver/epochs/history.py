"""The epochs of the sources, in `ops/epochs`: where each epoch begins, and where a source stopped before it.

The partition and offset of a message give its epoch, whenever and however often the message is decoded. The
start of an epoch names, for every partition that bronze had then, the first message that belongs to it; a
partition that came later belongs to it as a whole. A start without a topic holds everywhere. If a topic was
created again its offsets start at 0, so they cannot tell: then the start names the landing with which the
messages of the new topic begin. A dump of the former topic may land behind it; its messages are told by the
broker's times (`TopicStart`) and belong to the epoch before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING

from framework.contracts.epochs import (
    BEGUN,
    EpochRow,
    Partition,
    PartitionStart,
    epochs_of,
    starts_of,
)
from framework.contracts.table_names import EPOCHS_TABLE
from framework.errors import ConfigurationError, MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.recorded_epochs import read_epochs
from framework.lakehouse.table_reader import TableReader
from framework.spark.local_frame import local_frame
from silver.epochs.stop_points import FOLLOWS, OLDER_TOPIC, UNDECIDED, UNKNOWN_TOPIC, StopPoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW = (
    "source string, epoch int, state string, topic string, `partition` int, offset bigint, "
    "reason string, detail string, batch bigint, landed_at bigint, file string, line bigint, "
    "first_offset bigint, first_time bigint, earlier_time bigint, earlier_offset bigint"
)
_TIMES = ("landed_at", "first_time", "earlier_time")
_STOPPED, _RESUMED, _LEFT_OUT = "stopped", "resumed", "left_out"
_WITHDRAWN = "withdrawn"
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StoppedSource:
    """A source that is stopped: its stop points, and the epoch and batch in which it stopped."""

    source: str
    epoch: int
    batch: int
    stops: tuple[StopPoint, ...]

    @property
    def is_undecided(self) -> bool:
        """Whether a long transaction may explain all stops."""
        reasons = {stop.reason for stop in self.stops}
        return UNDECIDED in reasons and reasons <= {UNDECIDED, FOLLOWS}

    @property
    def is_of_older_topic(self) -> bool:
        """Whether the messages are older than those before them, so that a later epoch would be wrong."""
        return any(stop.reason == OLDER_TOPIC for stop in self.stops)

    @property
    def is_of_unknown_topic(self) -> bool:
        """Whether nothing tells if messages are of the topic or of the one before it."""
        return any(stop.reason == UNKNOWN_TOPIC for stop in self.stops)

    @property
    def first(self) -> StopPoint:
        """The stop that tells why: the first one with a sign of its own, if there is any."""
        return min(self.stops, key=lambda stop: stop.reason in (UNDECIDED, FOLLOWS))

    def error(self) -> MainstemError:
        """The error for the report of the run: why the source stopped and what to do."""
        first = self.first
        return MainstemError(
            "SOURCE_RESET",
            found=f"{first.reason}: {first.detail}",
            where=f"source {self.source}, topic {first.topic}, partition {first.partition},"
            f" offset {first.offset}",
            action=self._action(),
        )

    def _action(self) -> str:
        if self.is_of_older_topic:
            return self._built_again(
                "the messages are of a topic that was deleted before the one that landed first",
                "move the files of the later topic out of the landing folder, run, move them back, and run"
                " again",
            )
        if self.is_of_unknown_topic:
            return self._built_again(
                "neither offset nor time tells which topic the messages are of",
                "set `epoch: 1` for the source, and move its files out of the landing folder. Move those of"
                " the oldest topic back and run, then those of the next one",
            )
        action = (
            f"if its positions start again there, set `epoch: {self.epoch + 1}` for the source"
            " and run again; nothing is lost"
        )
        if not self.is_undecided:
            return action
        return (
            "if a transaction was open for long, do nothing: a run continues by itself when the next"
            f" transaction has landed, and messages with `source.sequence` do not stop a source; {action}"
        )

    def _built_again(self, why: str, order: str) -> str:
        """The advice where only tables that are built again, in the order of the topics, are right.

        Args:
            why: What is wrong with the messages.
            order: How files land in the order of the topics.
        """
        landed = self.first.landed
        is_of_files = landed is None or bool(landed[1])
        again = order if is_of_files else _NEW_SNAPSHOT
        return f"leave `epoch: {self.epoch}`: {why}. {_ASIDE}, {again}. {_NOT_IN_SOURCES}"


_ASIDE = (
    "The tables have to be built again in the order of the topics: move the lakehouse and its checkpoints"
    " aside (do not delete them)"
)
_NEW_SNAPSHOT = (
    "let the source send a new snapshot to a topic or table of another name, name that one in the"
    " configuration, and run"
)
_NOT_IN_SOURCES = (
    "Before that, check that all sources of the pipeline still have all their messages; `seed`, `forget` and"
    " `dismiss` have to be repeated"
)


@dataclass(frozen=True, slots=True)
class History:
    """The rows of `ops/epochs`, the oldest first.

    `recorded_at` is the time of the newest one, in microseconds, None if unknown.
    """

    rows: tuple[EpochRow, ...] = ()
    recorded_at: int | None = field(default=None, compare=False)
    _by_source: dict[str, list[EpochRow]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Group the rows: each source is asked for its own."""
        for row in self.rows:
            self._by_source.setdefault(row.source, []).append(row)

    @property
    def has_gaps(self) -> bool:
        """Whether messages were ever passed over, so that they are decoded later than those behind them."""
        return any(row.state in (_STOPPED, _LEFT_OUT) for row in self.rows)

    def sources(self) -> list[str]:
        """The sources with rows."""
        return sorted(self._by_source)

    def epochs(self, source: str) -> list[int]:
        """The epochs of a source whose start is recorded, the oldest first."""
        return epochs_of(self._by_source.get(source, ()), source)

    def newest_epochs(self) -> dict[str, int]:
        """The newest epoch of each source whose start is recorded."""
        found: dict[str, int] = {}
        for row in self.rows:
            if row.state == BEGUN:
                found[row.source] = max(row.epoch, found.get(row.source, row.epoch))
        return found

    def starts(self) -> dict[Partition, dict[int, PartitionStart]]:
        """Where the epochs of each partition begin; the lowest place of an epoch that is recorded twice."""
        return starts_of(self.rows)

    def sources_by_landing(self) -> list[str]:
        """The sources whose offsets have started again: only when a message landed tells its epoch."""
        return sorted({row.source for row in self.rows if row.state == BEGUN and row.landing is not None})

    def stopped_sources(self) -> dict[str, StoppedSource]:
        """The sources that are stopped and have not been resumed."""
        found = {}
        for source in self._by_source:
            newest = max(self.epochs(source), default=0)
            withdrawn = {row.batch for row in self._of(source, _WITHDRAWN)}
            rows = [
                row
                for row in self._of(source, _STOPPED)
                if row.epoch >= newest and row.batch not in withdrawn
            ]
            last = max((row.epoch for row in rows), default=newest)
            rows = [row for row in rows if row.epoch == last]
            if rows:
                rows.sort(key=lambda r: (r.batch, r.reason == FOLLOWS, r.topic or "", r.partition or 0))
                found[source] = StoppedSource(
                    source, rows[0].epoch, rows[0].batch, tuple(map(_stop_point, rows))
                )
        return found

    def passed_over(self, sources: Iterable[str]) -> list[str]:
        """Those of the sources that may go on and have messages that were passed over."""
        already_stopped = self.stopped_sources()
        found = []
        for source in sources:
            resumed = max((row.batch for row in self._of(source, _RESUMED)), default=-1)
            if source not in already_stopped and self.last_batch(source) > resumed:
                found.append(source)
        return found

    def last_batch(self, source: str) -> int:
        """The last batch in which messages of the source were passed over, -1 if there is none."""
        return max(
            (row.batch for row in (*self._of(source, _STOPPED), *self._of(source, _LEFT_OUT))), default=-1
        )

    def failure(self, source: str) -> str | None:
        """The last error for which messages of a source were passed over; None if there was none."""
        failed = [row for row in self._of(source, _LEFT_OUT) if row.reason == _FAILED]
        return max(reversed(failed), key=lambda row: row.batch).detail if failed else None

    def left_out(self, sources: Iterable[str]) -> list[str]:
        """Sources in bronze that are not among these."""
        return sorted({row.source for row in self.rows if row.state == _LEFT_OUT} - set(sources))

    def _of(self, source: str, state: str) -> list[EpochRow]:
        return [row for row in self._by_source.get(source, ()) if row.state == state]


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The start of an epoch: the epoch before it (None: the source has no changes), its first messages."""

    source: str
    epoch: int
    before: int | None
    places: Sequence[PartitionStart] = field(default=())


def advice(stop: StopPoint, epoch: int) -> str:
    """What the error says to do of a source that stops in an epoch at this message."""
    return StoppedSource(stop.source, epoch, -1, (stop,)).error().action


def read_history(spark: SparkSession, lake: Lakehouse) -> History:
    """Read `ops/epochs`."""
    return history_of(newest_tables(spark, lake))


def history_of(tables: TableReader) -> History:
    """The rows of `ops/epochs`, read with any reader."""
    return History(*read_epochs(tables))


def append_rows(spark: SparkSession, lake: Lakehouse, rows: Iterable[EpochRow]) -> None:
    """Append rows to `ops/epochs`."""
    from pyspark.sql import functions as F

    frame = local_frame(spark, [astuple(row) for row in rows], _ROW).withColumns(
        {t: F.timestamp_micros(t) for t in _TIMES}
    )
    frame = frame.withColumn("recorded_at", F.current_timestamp())
    # tables of earlier releases lack the landing and the times
    lake.append(frame.coalesce(1), EPOCHS_TABLE, None, {"mergeSchema": "true"})


def stopped_row(stop: StopPoint, epoch: int, batch: int) -> EpochRow:
    """The row of a source that stops at a message."""
    place = (stop.topic, stop.partition, stop.offset, stop.reason, stop.detail)
    return EpochRow(stop.source, epoch, _STOPPED, *place, batch, *(stop.landed or (None, None, None)))


def started_rows(beginning: EpochStart, history: History) -> list[EpochRow]:
    """The rows of a source that begins an epoch.

    For the first start, the epoch before it holds everywhere else.
    """
    rows = [_started_row(beginning, place) for place in beginning.places]
    if not history.epochs(beginning.source):
        first = beginning.epoch if beginning.before is None else beginning.before
        rows.insert(0, EpochRow(beginning.source, first, BEGUN))
    return rows


def _started_row(beginning: EpochStart, place: PartitionStart) -> EpochRow:
    landed_at, file, line = place.landing or (None, None, None)
    row = EpochRow(beginning.source, beginning.epoch, BEGUN, place.topic, place.partition, place.offset)
    row = replace(row, landed_at=landed_at, file=file, line=line)
    if place.since is None:
        return row
    first, time, earlier, reached = place.since
    return replace(row, first_offset=first, first_time=time, earlier_time=earlier, earlier_offset=reached)


def resumed_row(source: str, epoch: int, batch: int) -> EpochRow:
    """The row of a source whose passed-over messages are processed."""
    return EpochRow(source, epoch, _RESUMED, batch=batch)


def withdrawn_row(stopped: StoppedSource) -> EpochRow:
    """The row of a stopped source that later messages have shown to be in order."""
    return EpochRow(stopped.source, stopped.epoch, _WITHDRAWN, batch=stopped.batch)


def left_out_row(source: str, batch: int) -> EpochRow:
    """The row of a batch with messages of a source that the configuration does not name."""
    return EpochRow(source, 0, _LEFT_OUT, batch=batch)


def failed_row(source: str, batch: int, detail: str) -> EpochRow:
    """The row of a source whose messages made a batch fail, which went on without them."""
    return EpochRow(source, 0, _LEFT_OUT, reason=_FAILED, detail=detail[:1_000], batch=batch)


def check_not_lowered(history: History, configured: Mapping[str, int]) -> None:
    """Raises ConfigurationError if an epoch is lower than a recorded one: changes would be lost as late."""
    recorded = history.newest_epochs()
    for source, epoch in configured.items():
        newest = recorded.get(source, epoch)
        if epoch < newest:
            raise ConfigurationError(
                "EPOCH_LOWERED",
                found=f"epoch {epoch}, but messages of epoch {newest} have been read",
                where=f"source {source}",
                action=f"set `epoch: {newest}`, or a higher one",
            )


def _stop_point(row: EpochRow) -> StopPoint:
    place = (row.source, row.topic or "", row.partition or 0, row.offset or 0)
    return StopPoint(*place, row.reason or "", row.detail or "", landed=row.landing)
