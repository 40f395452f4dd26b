"""Rows beside a forgotten one, in the same messages, of which silver has no image: bronze alone has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pyspark.sql import Row
from pyspark.sql import functions as F

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import CHANGES_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import QUARANTINE
from framework.errors import MainstemError
from framework.pipeline.layer import Run
from framework.spark.local_frame import local_frame
from framework.text.formatting import quantity
from gold.operations.source_messages import Coordinates, coordinates_of, epoch_of
from gold.planning.task import Task

_PLACES = "topic string, `partition` int, offset bigint, its_epoch int"
_AT = ("topic", "partition", "offset")


def check_siblings(run: Run, task: Task, at: Sequence[tuple[Coordinates, int]], own: Sequence[Row]) -> None:
    """Refuses to erase messages that hold other rows which are excluded or in quarantine.

    A dismissed row is no longer wanted.

    Args:
        run: The run.
        task: The table.
        at: The messages to erase, each with its epoch; 0 stands for an epoch that is not recorded.
        own: The rows to forget.

    Raises:
        MainstemError: OTHER_ROWS_WAIT where there are such rows.
    """
    waiting = run.lake.rows(run.spark, QUARANTINE_TABLE, QUARANTINE).where(
        "NOT is_resolved AND dismissed_at IS NULL"
    )
    excluded = run.lake.read(run.spark, CHANGES_TABLE).where(
        (F.col("kind") == "excluded") & ~F.col("reason").eqNullSafe(FORGOTTEN)
    )
    if "epoch" not in excluded.columns:
        excluded = excluded.withColumn("epoch", F.lit(None).cast("int"))
    columns = ("source", *_AT, "epoch", "ordinal")
    rows = waiting.select(*columns, F.lit("quarantined").alias("kind")).unionByName(
        excluded.select(*columns, "kind")
    )
    places = F.broadcast(local_frame(run.spark, [(*place, epoch) for place, epoch in at], _PLACES))
    is_there = [rows[name] == places[name] for name in _AT]
    is_there.append((places["its_epoch"] == 0) | rows["epoch"].eqNullSafe(places["its_epoch"]))
    near = rows.where(F.col("source") == task.source).join(places, is_there, "left_semi").distinct()
    others = siblings(near.collect(), own)
    if not others:
        return
    first = min(_place(row)[0] for row in others)
    waits = sum(row["kind"] == "quarantined" for row in others)
    raise MainstemError(
        "OTHER_ROWS_WAIT",
        found=f"{quantity(waits, 'row')} in quarantine and {quantity(len(others) - waits, 'excluded row')}"
        f" in messages of the row, at {':'.join(str(part) for part in first)}",
        where=f"source {task.source}, table {task.name.dotted}",
        action="these rows would be lost with the bytes of the messages: `replay` those in quarantine once"
        " they can be read, or `dismiss` them; for excluded ones take `exclude` off and"
        " `rebuild --from bronze`",
    )


def siblings(near: Sequence[Row], own: Sequence[Row]) -> list[Row]:
    """Those rows without an image that are none of the row's own, among all of the same messages.

    The BEFORE half of an excluded update has an outcome of its own: it is alone in its message.
    """
    mine = {(_place(row), row["ordinal"]) for row in own}
    halves = {(place, epoch_of(row)) for row in own for place in coordinates_of(row)[:-1]}
    counts = Counter(_place(row) for row in near)
    return [
        row
        for row in near
        if (_place(row), row["ordinal"]) not in mine
        and not (_place(row) in halves and counts[_place(row)] == 1)
    ]


def _place(row: Row) -> tuple[Coordinates, int]:
    return (row["topic"], row["partition"], row["offset"]), epoch_of(row)
