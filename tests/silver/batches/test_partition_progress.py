"""Rule 5 of the formats: where positions are times, a partition's order is the broker's,
in whatever order its messages land.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.contracts.table_schemas import CHANGES
from silver.batches.partition_progress import (
    PartitionProgress,
    RowBlock,
    apply_plan,
    blocks_in,
    blocks_of,
    plan_of,
)
from silver.changes.decode import SourcePlan, decode_batch
from silver.changes.staged_rows import STAGED_DDL, Row, plain_rows, staged_table
from silver.decoding.format import Context, Options
from silver.formats import FORMATS
from tests.silver.changes.test_decode import MESSAGES

Message = tuple[str, str, int, int, bytes, int]
"""Source, topic, partition, offset, value and epoch."""
FIELDS = list(MESSAGES)[:8]
PARTITION = ("one", "t", 0, "011")


def canal(number: int, time: int, batch_number: int = 1) -> bytes:
    row = {"id": str(number % 3), "v": str(number)}
    more = {"pkNames": ["id"], "mysqlType": {"id": "int", "v": "int"}, "data": [row], "old": None}
    return json.dumps(
        {"database": "db", "table": "t", "type": "INSERT", "es": time, "id": batch_number, **more}
    ).encode()


def decoded(messages: Sequence[Message], *, by_partition: bool = True) -> list[Row]:
    """The outcomes of one Arrow batch."""
    context = Context("feed", Options(), "UTC", lambda *_: None)
    plan = SourcePlan(FORMATS["canal"], context, 1, lambda *_: False, 10_000, by_partition=by_partition)
    columns: list[Any] = [*zip(*((*m[:4], None, None, m[4], None) for m in messages), strict=True)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FIELDS, strict=True)]
    names = [*(f.name for f in FIELDS), "epoch"]
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array([m[5] for m in messages], pa.int32())], names)
    return plain_rows(pa.Table.from_batches([decode_batch(batch, {m[0]: plan for m in messages})]))


def at(offset: int, time: int, *, source: str = "one", partition: int = 0, epoch: int = 1) -> Message:
    return (source, "t", partition, offset, canal(offset, time), epoch)


def in_offset_order(rows: Iterable[Row]) -> bool:
    """Whether the sequences of each partition and epoch rise with its offsets."""
    partitions = defaultdict(list)
    for row in rows:
        partitions[row["source"], row["partition"], row["position"][:3]].append(row)
    return all(
        sorted(rows, key=lambda row: row["offset"]) == sorted(rows, key=lambda row: row["sequence"])
        for rows in partitions.values()
    )


def test_a_slow_statement_stays_behind_the_quick_one_that_the_broker_has_before_it() -> None:
    quick, slow, later = decoded([at(0, 7000), at(1, 3000), at(2, 8000)])
    assert quick["sequence"] < slow["sequence"] < later["sequence"]
    assert slow["sequence"] == "011.011.047000.010.t.010.011.010"
    assert slow["position"] == "011.011.043000.010"


def test_the_order_by_time_leaves_a_slow_statement_before_the_quick_one() -> None:
    quick, slow = decoded([at(0, 7000), at(1, 3000)], by_partition=False)
    assert slow["sequence"] < quick["sequence"]


def test_other_partitions_and_epochs_do_not_raise_a_sequence() -> None:
    rows = decoded([at(0, 7000), at(1, 3000, partition=1), at(1, 3000, epoch=2), at(1, 3000, source="two")])
    assert [row["sequence"].split(".")[2] for row in rows] == ["047000", "043000", "043000", "043000"]


def test_a_restarted_writer_in_the_same_second_writes_later_changes_whose_redelivery_is_no_change() -> None:
    (before,) = decoded([("one", "t", 0, 5, canal(1, 9000, batch_number=700), 1)])
    (after,) = decoded([("one", "t", 0, 6, canal(2, 9000, batch_number=1), 1)])
    (redelivered,) = decoded([("one", "t", 0, 7, canal(1, 9000, batch_number=2), 1)])
    assert before["sequence"] < after["sequence"]
    assert redelivered["change_id"] == before["change_id"] != after["change_id"]


def test_the_order_of_messages_in_an_arrow_batch_does_not_matter() -> None:
    messages = [at(offset, random.Random(offset).randrange(10) * 1000) for offset in range(40)]
    expected = {row["offset"]: row["sequence"] for row in decoded(messages)}
    for seed in range(5):
        rows = decoded(random.Random(seed).sample(messages, len(messages)))
        assert {row["offset"]: row["sequence"] for row in rows} == expected
        assert len({row["block"] for row in rows}) == 1


def block(first: int, last: int, lowest: str, greatest: str) -> RowBlock:
    return RowBlock(PARTITION, first, first, last, lowest, greatest)


def test_blocks_that_follow_each_other_are_raised_by_what_was_before_them() -> None:
    plan = plan_of([block(20, 29, "c", "d"), block(10, 19, "b", "f")], {PARTITION: PartitionProgress(9, "a")})
    assert [(raise_of.name, floor) for raise_of, floor in plan.floors] == [(20, "f")]
    assert (plan.late, plan.progress) == (frozenset(), {PARTITION: PartitionProgress(29, "f")})


def test_blocks_whose_positions_rise_are_left_alone() -> None:
    plan = plan_of([block(10, 19, "b", "c"), block(20, 29, "c", "d")], {PARTITION: PartitionProgress(9, "b")})
    assert (plan.floors, plan.late) == ([], frozenset())


@pytest.mark.parametrize(
    "blocks", [[block(9, 12, "c", "d")], [block(10, 20, "c", "d"), block(15, 16, "c", "d")]]
)
def test_blocks_among_offsets_that_are_there_are_late(blocks: list[RowBlock]) -> None:
    assert plan_of(blocks, {PARTITION: PartitionProgress(9, "b")}).late == {PARTITION}


class Silver:
    """What is committed, batch by batch, and how far its partitions have come."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.committed: list[Row] = []
        self.tops: dict[Any, PartitionProgress] = {}

    def take(self, messages: Sequence[Message], draw: random.Random) -> list[Row]:
        """The rows of a batch with their sequences; how its messages come in Arrow batches is drawn."""
        rows: list[Row] = []
        left = list(messages)
        while left:
            size = draw.randint(1, 12)
            rows += decoded(left[:size])
            left = left[size:]
        staged = _frame(self.spark, rows)
        blocks = blocks_of(staged)
        assert sorted(blocks_in(staged_table(rows)), key=repr) == sorted(blocks, key=repr)
        plan = plan_of(blocks, self.tops)
        self.tops.update(plan.progress)
        found = [row.asDict() for row in apply_plan(staged, plan, self._changes()).collect()]
        assert len(found) == len(messages)
        return found

    def commit(self, messages: Sequence[Message], draw: random.Random) -> None:
        self.committed += self.take(messages, draw)

    def _changes(self) -> DataFrame:
        rows = [tuple(row.get(name) for name in CHANGES.names) for row in self.committed]
        return self.spark.createDataFrame(rows, CHANGES)


def _frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    kept = [{**row, "event_time": None, "before": None, "after": None} for row in rows]
    return spark.createDataFrame([tuple(row.values()) for row in kept], STAGED_DDL)


def sequences(rows: Iterable[Row]) -> dict[tuple[Any, ...], str]:
    return {(row["source"], row["partition"], row["offset"]): row["sequence"] for row in rows}


def drawn_messages(draw: random.Random, source: str) -> list[Message]:
    """Messages of three partitions in the order of their offsets;
    offsets have gaps, times rise by and large.
    """
    offsets = [0, draw.randrange(9_000), draw.randrange(9_000)]
    begins = [draw.choice((0, offset + 20)) for offset in offsets]
    messages = []
    for number in range(draw.randint(1, 60)):
        partition = draw.randrange(3)
        offsets[partition] += draw.choice((1, 1, 1, 2, 5_000))
        time = max(0, number * 1000 + draw.choice((0, 0, 0, -3_000, -40_000, 9_000)))
        epoch = 2 if begins[partition] and offsets[partition] > begins[partition] else 1
        messages.append(at(offsets[partition], time, source=source, partition=partition, epoch=epoch))
    return messages


def cut(draw: random.Random, messages: Sequence[Message], parts: int) -> list[list[Message]]:
    """The messages in parts, which keep their order."""
    cuts = sorted(draw.randrange(len(messages) + 1) for _ in range(parts - 1))
    return [list(messages[a:b]) for a, b in zip([0, *cuts], [*cuts, len(messages)], strict=True)]


@pytest.mark.slow
def test_sequences_rise_with_the_offsets_however_messages_land(spark: SparkSession) -> None:
    """40 sources: landed in order with other cuts the sequences are equal, landed in any order they rise,
    decoded again they stay.
    """
    draw = random.Random(17)
    feeds = [drawn_messages(draw, f"feed{n}") for n in range(40)]
    whole = decoded([message for feed in feeds for message in feed])
    in_order, shuffled = Silver(spark), Silver(spark)
    for part in zip(*(cut(draw, feed, 3) for feed in feeds), strict=True):
        in_order.commit([message for messages in part for message in messages], draw)
    assert sequences(in_order.committed) == sequences(whole)
    for part in zip(*(cut(draw, draw.sample(feed, len(feed)), 3) for feed in feeds), strict=True):
        messages = [message for messages in part for message in messages]
        shuffled.commit(draw.sample(messages, len(messages)), draw)
    assert len(shuffled.committed) == len(whole)
    assert in_offset_order(shuffled.committed)
    assert sequences(shuffled.committed) != sequences(whole)
    redelivered = shuffled.take([message for feed in feeds for message in feed if message[3] % 3], draw)
    assert sequences(redelivered).items() <= sequences(shuffled.committed).items()
    together = Silver(spark)
    together.commit(draw.sample(messages := [m for feed in feeds for m in feed], len(messages)), draw)
    assert sequences(together.committed) == sequences(whole)
