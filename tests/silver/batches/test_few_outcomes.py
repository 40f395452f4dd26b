"""Few rows have the outcomes in this process that Spark gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_schemas import CHANGES
from framework.spark.local_frame import arrow_frame
from silver.batches import few_outcomes, outcomes
from silver.batches.few_outcomes import mark_duplicates, pair_halves
from silver.batches.known_runs import EarlierOutcomes
from silver.changes.staged_rows import STAGED, STAGED_DDL, Row, as_refused, plain_rows, staged_table
from tests.silver.changes.test_pairing import ANN, BOB, HOUR, JOE, half, update

ZOE = {"id": "9", "name": "Zoe"}
PEOPLE = (JOE, ANN, BOB, ZOE)
BEGIN = datetime(1970, 1, 1)


def changes(rows: Iterable[Row]) -> pa.Table:
    """The rows as `silver/changes` or `silver/pending` have them."""
    staged = staged_table(rows)
    batch = pa.array([0] * staged.num_rows, pa.int64())
    return pa.table(
        [batch if name == "batch" else staged.column(name) for name in CHANGES.names], CHANGES.names
    )


def frame(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    return arrow_frame(spark, changes(rows), CHANGES)


def comparable(rows: pa.Table) -> list[str]:
    """The rows as sorted texts, without what only tells where they come from."""
    return sorted(
        str({name: sorted(v.items()) if isinstance(v := row[name], dict) else v for name in STAGED.names})
        for row in plain_rows(rows)
    )


def drawn_halves(draw: Random, feed: str) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows of a batch, halves that wait, and earlier changes, of one feed with few positions."""
    keys = draw.choice((("id",), ("id",), None))

    def place() -> dict[str, Any]:
        return {
            "keys": keys,
            "sequence": f"011.011.01{draw.choice((5, 5, 6, 7))}",
            "partition": draw.choice((0, 0, 0, 1)),
            "time": draw.choice((0, HOUR, HOUR, None)),
        }

    def halves(start: int, most: int) -> list[Row]:
        sides = [draw.choice(("before", "after")) for _ in range(draw.randint(0, most))]
        return [half(side, draw.choice(PEOPLE), start + n, **place()) for n, side in enumerate(sides)]

    def updates(start: int, most: int) -> list[Row]:
        many = range(start, start + 2 * draw.randint(0, most), 2)
        return [
            {**update(draw.choice(PEOPLE), draw.choice(PEOPLE), n + 1, **place()), "half": None} for n in many
        ]

    batch = [*halves(100, 5), *updates(200, 2)]
    draw.shuffle(batch)
    waiting = [{**row, "kind": "half"} for row in halves(0, 2)]
    late = [
        {**as_refused(row, Reason.UNPAIRED_BEFORE_IMAGE, "late"), "before": row["before"]}
        for row in halves(20, 2)
        if row["half"] == "before"
    ]
    released = [row for row in halves(40, 2) if row["half"] == "after"]
    earlier = [*updates(60, 2), *late, *released, {**update(JOE, ANN, 90), "op": "insert", "half": None}]
    for row in (*batch, *waiting, *earlier):
        row["source"] = feed
    return batch, waiting, earlier


@pytest.mark.parametrize("has_history", [False, True])
def test_halves_are_paired_as_spark_pairs_them(spark: SparkSession, has_history: bool) -> None:
    draw = Random(has_history)
    batch: list[Row] = []
    waiting: list[Row] = []
    earlier: list[Row] = []
    deadlines: dict[str, datetime | None] = {}
    for number in range(200):
        feed = f"feed{number}"
        deadlines[feed] = draw.choice((None, BEGIN, BEGIN + timedelta(minutes=1), BEGIN + timedelta(hours=2)))
        for rows, more in zip((batch, waiting, earlier), drawn_halves(draw, feed), strict=True):
            rows.extend(more)
    shared = {f"feed{number}" for number in range(0, 200, 7)}
    staged, history = staged_table(batch), frame(spark, earlier) if has_history else None
    by_spark = outcomes.pair_halves(
        arrow_frame(spark, staged, STAGED_DDL), frame(spark, waiting), history, deadlines, shared
    )
    found = pair_halves(staged, changes(waiting), history, deadlines, shared)
    assert found is not None
    assert comparable(found) == comparable(by_spark.toArrow())
    here = pair_halves(staged, changes(waiting), changes(earlier) if has_history else None, deadlines, shared)
    assert here is not None
    assert comparable(here) == comparable(found)
    kinds = {(row["kind"], row["reason"]) for row in plain_rows(found)}
    assert {("row", None), ("half", None), ("quarantined", "ambiguous_pair")} < kinds


def test_many_earlier_changes_at_the_positions_are_left_to_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged, earlier = staged_table([half("before", JOE, 9)]), [update(JOE, ANN, n) for n in (2, 4)]
    both = (frame(spark, earlier), changes(earlier))
    assert None not in [pair_halves(staged, changes([]), history, {}, ()) for history in both]
    monkeypatch.setattr(few_outcomes, "MOST_EARLIER", 1)
    assert [pair_halves(staged, changes([]), history, {}, ()) for history in both] == [None, None]


def test_a_late_update_and_a_half_that_still_waits_have_nothing_to_pair() -> None:
    waiting = changes([{**half("before", JOE, 9), "sequence": "020"}])
    earlier = changes([update(JOE, ANN, 2)])
    found = pair_halves(staged_table([update(JOE, BOB, 1)]), waiting, earlier, {}, ())
    assert found is not None
    assert found.num_rows == 0


def whole(offset: int, change_id: str, **cells: object) -> Row:
    row: Row = {**update(JOE, ANN, offset), "half": None, "change_id": change_id, "position": "011.011.015"}
    return {**row, **cells}


def drawn_repeats(draw: Random) -> tuple[list[Row], list[Row]]:
    """Rows of a batch in which changes occur again, and earlier changes."""
    kinds = ("row", "row", "row", "ddl", "heartbeat", "tombstone", "excluded", "quarantined")
    batch = [
        whole(
            offset, f"id{draw.randint(0, 60)}", kind=draw.choice(kinds), topic=draw.choice(("a", "b", None)),
            partition=draw.choice((0, 0, 1)), restart=draw.choice((None, None, 1)),
        )
        for offset in draw.sample(range(100), 80)
    ]  # fmt: skip
    earlier = [
        whole(n, f"id{draw.randint(0, 90)}", half=draw.choice((None, None, "after"))) for n in range(9)
    ]
    return batch, earlier


@pytest.mark.parametrize("has_history", [False, True])
def test_repeats_are_marked_as_spark_marks_them(spark: SparkSession, has_history: bool) -> None:
    for seed in range(4):
        batch, earlier = drawn_repeats(Random(seed))
        staged, history = staged_table(batch), frame(spark, earlier) if has_history else None
        rows = arrow_frame(spark, staged, STAGED_DDL)
        by_spark = outcomes.resolve_duplicates(
            rows, outcomes.duplicate_ids(rows, history), EarlierOutcomes(history), 0
        )
        found = mark_duplicates(staged, history)
        assert found is not None
        assert comparable(found) == comparable(by_spark.toArrow())
        here = mark_duplicates(staged, changes(earlier) if has_history else None)
        assert here is not None
        assert comparable(here) == comparable(found)
        assert 10 < sum(row["kind"] == "duplicate" for row in plain_rows(found)) < 60


@pytest.mark.parametrize(
    ("doubles", "others", "expected"),
    [
        ({}, {}, ["duplicate", "row", "row"]),
        ({}, {"position": None}, ["duplicate", "row", "row"]),
        ({"position": None}, {}, None),
        ({"position": None, "earliest": "1"}, {}, ["duplicate", "row", "row"]),
        ({"position": None, "kind": "heartbeat"}, {}, ["duplicate", "heartbeat", "row"]),
    ],
)
def test_a_position_that_does_not_identify_a_repeated_change_is_left_to_spark(
    doubles: Row, others: Row, expected: Sequence[str] | None
) -> None:
    rows = [whole(1, "a", **doubles), whole(2, "b", **others), whole(3, "a", **doubles)]
    found = mark_duplicates(staged_table(rows), None)
    kinds = None if found is None else sorted(row["kind"] for row in plain_rows(found))
    assert kinds == expected
