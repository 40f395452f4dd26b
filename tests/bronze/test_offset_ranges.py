"""The search for an offset that cannot be read, with a broker of a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from bronze.offset_ranges import OffsetRange, before_ends, first_failing, in_ranges, new_ranges


def search(
    ranges: Sequence[OffsetRange], *unreadable: tuple[str, int, int]
) -> tuple[OffsetRange | None, int]:
    """What the search finds, and how often it has read."""
    reads = 0

    def fails(asked: Sequence[OffsetRange]) -> bool:
        nonlocal reads
        reads += 1
        return any(
            (one.topic, one.partition) == (topic, partition) and one.first <= offset < one.end
            for one in asked
            for topic, partition, offset in unreadable
        )

    return first_failing(ranges, fails), reads


def test_new_offsets_of_a_batch_by_partition() -> None:
    committed = {"a": {"0": 5, "1": 7}}
    planned = {"a": {"0": 9, "1": 7, "2": 3}, "b": {"0": 0}}
    assert new_ranges(committed, planned) == [OffsetRange("a", 0, 5, 9), OffsetRange("a", 2, 0, 3)]
    assert new_ranges({}, {"b": {"0": 2}}) == [OffsetRange("b", 0, 0, 2)]


def test_ranges_that_begin_before_the_end_of_their_partition() -> None:
    ranges = [OffsetRange("a", 0, 5, 9), OffsetRange("a", 1, 5, 9), OffsetRange("b", 0, 0, 2)]
    assert before_ends(ranges, {"a": {"0": 6, "1": 5}}) == ranges[:1]


@pytest.mark.spark
@pytest.mark.parametrize("many", [1, 100, 101])
def test_messages_in_ranges(spark: SparkSession, many: int) -> None:
    """Of many ranges only the common bounds count."""
    ranges = [
        OffsetRange(f"t{number:03}", number % 2, number * 10, number * 10 + 5) for number in range(many)
    ]
    asked = [("t000", 0, 4), ("t000", 0, 5), ("t000", 1, 4), ("t100", 0, 1004), ("t101", 1, 1010)]
    rows = spark.createDataFrame(asked, "topic string, partition int, offset bigint")
    found = rows.where(in_ranges(ranges)).orderBy("topic", "offset", "partition").collect()
    certain = [0, 1, 2, 3] if many == 101 else [0]
    assert sorted(map(tuple, found)) == sorted(asked[place] for place in certain)
    assert rows.where(in_ranges([])).isEmpty()


def test_the_only_unreadable_offset_is_found() -> None:
    ranges = [OffsetRange("a", 0, 0, 10), OffsetRange("a", 1, 5, 9), OffsetRange("b", 0, 3, 4)]
    assert search(ranges, ("a", 1, 6))[0] == OffsetRange("a", 1, 6, 7)
    assert search(ranges, ("b", 0, 3))[0] == OffsetRange("b", 0, 3, 4)
    assert search(ranges)[0] is None
    assert search([])[0] is None


def test_of_several_the_lowest_of_the_first_partition_is_found() -> None:
    ranges = [OffsetRange("a", n, 0, 100) for n in range(4)]
    assert search(ranges, ("a", 2, 3), ("a", 1, 99), ("a", 1, 98))[0] == OffsetRange("a", 1, 98, 99)


@pytest.mark.parametrize("offset", [0, 1, 499_999, 999_999])
def test_a_million_records_are_searched_with_a_few_reads(offset: int) -> None:
    ranges = [OffsetRange("a", n, 0, 1_000_000) for n in range(64)]
    found, reads = search(ranges, ("a", 17, offset))
    assert found == OffsetRange("a", 17, offset, offset + 1)
    assert reads <= 1 + 6 + 20
