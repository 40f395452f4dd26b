"""Partial images are completed by what came before them, at the same cost for each of thousands of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from gold.changes.folded_images import complete_images, fold_images, newest_images, newest_parts

EFFECTS = (
    "k0 int, sequence string, rank int, is_whole_change boolean, change_id string,"
    " event_time timestamp, op string, is_upsert boolean, is_key_change boolean, partial boolean, "
    "is_deleted boolean,"
    " before map<string,string>, after map<string,string>"
)
MANY = 10_000
COLUMNS = 10

Image = dict[str, str | None]


def upsert(place: int, image: Image, *, is_partial: bool = True, key: int = 1) -> tuple[Any, ...]:
    op, row = "update" if is_partial else "insert", (f"011.{place:06d}", 1, True, f"c{place}", None)
    return (key, *row, op, True, False, is_partial, False, None, image)


def removal(place: int) -> tuple[Any, ...]:
    return (
        1,
        f"011.{place:06d}",
        2,
        True,
        f"c{place}",
        None,
        "delete",
        False,
        False,
        False,
        False,
        None,
        None,
    )


CASES: dict[str, tuple[list[tuple[Any, ...]], Image | None, bool]] = {
    "a whole image": ([upsert(1, {"a": "x", "b": "y"}, is_partial=False)], {"a": "x", "b": "y"}, True),
    "a column after a whole image": (
        [upsert(1, {"a": "x", "b": "y"}, is_partial=False), upsert(2, {"b": None})],
        {"a": "x", "b": None},
        True,
    ),
    "a whole image after a column": (
        [upsert(1, {"a": "x", "c": "z"}), upsert(2, {"a": "y"}, is_partial=False)],
        {"a": "y"},
        True,
    ),
    "nothing but columns": (
        [upsert(1, {"a": "x"}), upsert(2, {"b": "y"}), upsert(3, {})],
        {"a": "x", "b": "y"},
        False,
    ),
    "a column after a removal": (
        [upsert(1, {"a": "x"}, is_partial=False), removal(2), upsert(3, {"b": "y"})],
        {"b": "y"},
        True,
    ),
    "a removal": ([upsert(1, {"a": "x"}, is_partial=False), upsert(2, {"b": "y"}), removal(3)], None, True),
}


@pytest.mark.parametrize("case", CASES)
def test_the_newest_image_has_the_newest_value_of_each_column(spark: SparkSession, case: str) -> None:
    effects, expected, is_whole = CASES[case]
    frame = spark.createDataFrame(effects[::-1], EFFECTS)
    [newest] = newest_images(frame, ["k0"]).collect()
    assert (newest["after"], newest["is_whole"], newest["change_id"]) == (expected, is_whole, effects[-1][4])
    rows = {row["change_id"]: row for row in fold_images(frame, ["k0"]).collect()}
    assert len(rows) == len(effects)
    last = rows[effects[-1][4]]
    assert (last["after"], last["is_whole"], last["k0"]) == (expected, is_whole, 1)


def updates(spark: SparkSession, count: int) -> DataFrame:
    """A whole row of key 1, updates of one column each, and a row of another key."""
    first = upsert(0, {f"c{n}": "0" for n in range(COLUMNS)}, is_partial=False)
    return spark.createDataFrame(
        [
            first,
            *(upsert(n, {f"c{n % COLUMNS}": str(n)}) for n in range(1, count + 1)),
            upsert(0, {"c0": "x"}, key=2),
        ],
        EFFECTS,
    )


@pytest.mark.parametrize("count", [1_000, MANY])
def test_a_key_with_thousands_of_partial_updates_is_a_row_for_each_column(
    spark: SparkSession, count: int
) -> None:
    frame = updates(spark, count)
    newest = {row["k0"]: row["after"] for row in newest_images(frame, ["k0"]).collect()}
    assert newest == {
        1: {f"c{n % COLUMNS}": str(n) for n in range(count - COLUMNS + 1, count + 1)},
        2: {"c0": "x"},
    }
    parts = newest_parts(frame, ["k0"])
    assert parts.where("k0 = 1 AND _name IS NULL").count() == 1
    assert parts.where("k0 = 1").count() == 1 + COLUMNS


def test_each_of_thousands_of_partial_updates_is_completed(spark: SparkSession) -> None:
    found = {
        row["change_id"]: row["after"]
        for row in fold_images(updates(spark, MANY), ["k0"]).where("k0 = 1").collect()
    }
    image = {f"c{n}": "0" for n in range(COLUMNS)}
    for n in range(1, MANY + 1):
        image[f"c{n % COLUMNS}"] = str(n)
        assert found[f"c{n}"] == image


def batches(count: int) -> Iterator[pa.RecordBatch]:
    """So many partial updates of one key, in the batches that Spark makes."""
    schema = pa.schema(
        {"_begins": pa.bool_(), "is_upsert": pa.bool_(), "after": pa.map_(pa.string(), pa.string())}
    )
    rows = [
        {"_begins": n == 0, "is_upsert": True, "after": [(f"c{n % COLUMNS}", str(n))]} for n in range(count)
    ]
    for start in range(0, count, 1_000):
        yield pa.RecordBatch.from_pylist(rows[start : start + 1_000], schema)


def test_work_and_output_grow_as_the_updates_do() -> None:
    some, many = (steps_and_entries(count) for count in (1_000, MANY))
    assert many[0] < 11 * some[0]
    assert many[1] < 11 * some[1]


def steps_and_entries(count: int) -> tuple[int, int]:
    """How many lines of Python run, and how many entries the images have."""
    given = list(batches(count))
    entries = 0

    def fold() -> None:
        nonlocal entries
        for batch in complete_images(given):
            entries += sum(map(len, batch.column(2).to_pylist()))

    return steps(fold), entries


def steps(work: Callable[[], None]) -> int:
    """How many lines of `complete_images` run."""
    count = 0

    def line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, event: str, _: object) -> Any:
        return line if frame.f_code is complete_images.__code__ else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
