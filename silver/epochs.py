"""Where the epochs of a source begin, in `ops/epochs`: stops at a message, and the epoch that went on from there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.errors import MainstemError
from framework.tables import Lakehouse, Transaction
from silver.resets import Stop

EPOCHS_TABLE = "ops/epochs"
_ROW = "source string, epoch int, state string, topic string, `partition` int, offset bigint, reason string, detail string, batch bigint"
_STOPPED, _BEGUN = "stopped", "begun"


@dataclass(frozen=True, slots=True)
class EpochRow:
    """A row of `ops/epochs` without its time."""

    source: str
    epoch: int
    state: str
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    batch: int


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


def halts(spark: SparkSession, lake: Lakehouse) -> dict[str, Halt]:
    """The sources that were stopped and have not gone on since."""
    if not lake.exists(spark, EPOCHS_TABLE):
        return {}
    rows = lake.read(spark, EPOCHS_TABLE).collect()
    begun: dict[str, int] = {}
    for row in rows:
        if row["state"] == _BEGUN:
            begun[row["source"]] = max(row["epoch"], begun.get(row["source"], 0))
    open_rows = [row for row in rows if row["state"] == _STOPPED and row["epoch"] >= begun.get(row["source"], 0)]
    found: dict[str, Halt] = {}
    for row in sorted(open_rows, key=lambda r: (r["batch"], r["topic"], r["partition"])):
        stop = Stop(row["source"], row["topic"], row["partition"], row["offset"], row["reason"], row["detail"])
        have = found.get(stop.source)
        found[stop.source] = Halt(stop.source, row["epoch"], have.batch if have else row["batch"], (*(have.stops if have else ()), stop))
    return found


def append_rows(spark: SparkSession, lake: Lakehouse, rows: Iterable[EpochRow], transaction: Transaction | None = None) -> None:
    """Record stops or beginnings; with a transaction, once."""
    frame = spark.createDataFrame([astuple(row) for row in rows], _ROW).withColumn("recorded_at", F.current_timestamp())
    lake.append(frame.coalesce(1), EPOCHS_TABLE, transaction)


def stopped(stop: Stop, epoch: int, batch: int) -> EpochRow:
    """A source stands still at a message."""
    return EpochRow(stop.source, epoch, _STOPPED, stop.topic, stop.partition, stop.offset, stop.reason, stop.detail, batch)


def begun(halt: Halt, epoch: int, batch: int) -> list[EpochRow]:
    """A source has gone on under a new epoch, from these messages on."""
    return [replace(stopped(stop, epoch, batch), state=_BEGUN) for stop in halt.stops]
