"""The epochs of the sources, in `ops/epochs`: where each began, and where a source stopped before that.

A message's epoch is that of its place: of its partition and offset, whenever and however often it is decoded. Each
beginning names, for every partition that bronze had then, the first message that belongs to it; a partition that came
later belongs to it whole. A beginning without a topic holds everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.errors import ConfigurationError, MainstemError
from framework.tables import Lakehouse, Transaction
from silver.choice import by_source
from silver.resets import FOLLOWS, Stop

EPOCHS_TABLE = "ops/epochs"
_ROW = "source string, epoch int, state string, topic string, `partition` int, offset bigint, reason string, detail string, batch bigint"
_STOPPED, _BEGUN, _RESUMED, _LEFT_OUT = "stopped", "begun", "resumed", "left_out"

Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""


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


@dataclass(frozen=True, slots=True)
class Halt:
    """A source that stands still: its stops, and the epoch and the batch in which they happened."""

    source: str
    epoch: int
    batch: int
    stops: tuple[Stop, ...]

    def error(self) -> MainstemError:
        """Why the source stands still and what to do, for the run's report."""
        first = self.stops[0]
        return MainstemError(
            "SOURCE_RESET",
            found=f"{first.reason}: {first.detail}",
            where=f"source {self.source}, topic {first.topic}, partition {first.partition}, offset {first.offset}",
            action=f"if its positions have begun anew there, set `epoch: {self.epoch + 1}` for the source and run again; nothing is lost",
        )


@dataclass(frozen=True, slots=True)
class History:
    """What `ops/epochs` holds."""

    rows: tuple[EpochRow, ...] = ()

    @property
    def has_gaps(self) -> bool:
        """Whether messages were ever passed over, to have their fate later than those behind them."""
        return any(row.state in (_STOPPED, _LEFT_OUT) for row in self.rows)

    def epochs(self, source: str) -> list[int]:
        """The epochs of a source whose beginning is recorded, the oldest first."""
        return sorted({row.epoch for row in self._of(source, _BEGUN)})

    def halts(self) -> dict[str, Halt]:
        """The sources that were stopped and have not gone on since."""
        found = {}
        for source in {row.source for row in self.rows}:
            newest = max(self.epochs(source), default=0)
            rows = [row for row in self._of(source, _STOPPED) if row.epoch >= newest]
            rows = [row for row in rows if row.epoch == max(r.epoch for r in rows)]
            if rows:
                rows.sort(key=lambda r: (r.batch, r.reason == FOLLOWS, r.topic or "", r.partition or 0))
                found[source] = Halt(source, rows[0].epoch, rows[0].batch, tuple(map(_stop, rows)))
        return found

    def passed_over(self, sources: Iterable[str]) -> list[str]:
        """Those of the sources that may go on, and have messages that were passed over and not taken up since."""
        halted = self.halts()
        found = []
        for source in sources:
            resumed = max((row.batch for row in self._of(source, _RESUMED)), default=-1)
            if source not in halted and self.last_batch(source) > resumed:
                found.append(source)
        return found

    def last_batch(self, source: str) -> int:
        """The last batch in which messages of the source were passed over, -1 where there is none."""
        return max((row.batch for row in (*self._of(source, _STOPPED), *self._of(source, _LEFT_OUT))), default=-1)

    def left_out(self, sources: Iterable[str]) -> list[str]:
        """Sources that are not among these, whose messages bronze has."""
        return sorted({row.source for row in self.rows if row.state == _LEFT_OUT} - set(sources))

    def _of(self, source: str, state: str) -> list[EpochRow]:
        return [row for row in self.rows if row.source == source and row.state == state]


@dataclass(frozen=True, slots=True)
class Beginning:
    """The epoch that a source begins, after which one (None: it has shown nothing yet), at which messages."""

    source: str
    epoch: int
    before: int | None
    places: Sequence[Place] = field(default=())


def read_history(spark: SparkSession, lake: Lakehouse) -> History:
    """All that is recorded of epochs."""
    if not lake.exists(spark, EPOCHS_TABLE):
        return History()
    rows = lake.read(spark, EPOCHS_TABLE).select(*(F.col(f"`{name}`") for name in EpochRow.__slots__)).collect()
    return History(tuple(EpochRow(*row) for row in rows))


def append_rows(spark: SparkSession, lake: Lakehouse, rows: Iterable[EpochRow], transaction: Transaction | None = None) -> None:
    """Record stops or beginnings; with a transaction, once."""
    frame = spark.createDataFrame([astuple(row) for row in rows], _ROW).withColumn("recorded_at", F.current_timestamp())
    lake.append(frame.coalesce(1), EPOCHS_TABLE, transaction)


def stopped(stop: Stop, epoch: int, batch: int) -> EpochRow:
    """A source stands still at a message."""
    return EpochRow(stop.source, epoch, _STOPPED, stop.topic, stop.partition, stop.offset, stop.reason, stop.detail, batch)


def begun(beginning: Beginning, history: History) -> list[EpochRow]:
    """A source begins an epoch; where none of it is recorded yet, the one before it holds everywhere else."""
    rows = [EpochRow(beginning.source, beginning.epoch, _BEGUN, *place) for place in beginning.places]
    if not history.epochs(beginning.source):
        first = beginning.epoch if beginning.before is None else beginning.before
        rows.insert(0, EpochRow(beginning.source, first, _BEGUN))
    return rows


def resumed(source: str, epoch: int, batch: int) -> EpochRow:
    """A source has taken up what was passed over."""
    return EpochRow(source, epoch, _RESUMED, batch=batch)


def left_out(source: str, batch: int) -> EpochRow:
    """A batch had messages of a source that the configuration does not name."""
    return EpochRow(source, 0, _LEFT_OUT, batch=batch)


def check_not_lowered(history: History, configured: Mapping[str, int]) -> None:
    """Raises ConfigurationError where a source's epoch is lower than one that it has begun: its changes would be lost as late."""
    for source, epoch in configured.items():
        newest = max(history.epochs(source), default=epoch)
        if epoch < newest:
            raise ConfigurationError(
                "EPOCH_LOWERED",
                found=f"epoch {epoch}, but messages of epoch {newest} have been read",
                where=f"source {source}",
                action=f"set `epoch: {newest}`, or a higher one",
            )


def placed(messages: DataFrame, history: History, configured: Mapping[str, int]) -> DataFrame:
    """The messages with the `epoch` that holds at the place of each."""
    known = {source: history.epochs(source) for source in configured if len(history.epochs(source)) > 1}
    default = by_source({source: F.lit(epoch) for source, epoch in configured.items()}, F.lit(None).cast("int"))
    if not known:
        return messages.withColumn("epoch", default)
    rows = [
        (r.source, r.topic, r.partition, r.epoch, r.offset) for r in history.rows if r.state == _BEGUN and r.topic and r.source in known
    ]
    schema = "source string, topic string, `partition` int, epoch int, offset bigint"
    starts = (
        messages.sparkSession.createDataFrame(rows, schema).groupBy("source", "topic", "partition", "epoch").agg(F.min("offset").alias("o"))
    )
    at = ["source", "topic", "partition"]
    starts = starts.groupBy(*at).agg(F.map_from_entries(F.collect_list(F.struct("epoch", "o"))).alias("starts"))
    joined = messages.join(F.broadcast(starts), at, "left")
    found = by_source({source: _highest(epochs) for source, epochs in known.items()}, default)
    return joined.withColumn("epoch", found).select(*(F.col(f"`{name}`") for name in messages.columns), "epoch")


def _highest(epochs: Sequence[int]) -> Column:
    """The highest of the epochs that has begun where a message is."""
    has_begun = lambda epoch: F.coalesce(F.col("offset") >= F.try_element_at("starts", epoch), F.lit(True))  # noqa: E731
    return F.array_max(F.filter(F.array(*map(F.lit, epochs)), has_begun))


def _stop(row: EpochRow) -> Stop:
    return Stop(row.source, row.topic or "", row.partition or 0, row.offset or 0, row.reason or "", row.detail or "")
