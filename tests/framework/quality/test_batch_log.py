"""`ops/batches` by what is kept of it and its new rows, held against the whole log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.ddl_actions import TableName
from framework.quality.batch_log import APPLIED_KINDS, BatchLog, Extent, Place, age, moment_text, place_of

TABLES = ("item", "line", None)
ITEM: Place = ("feed", TableName("shop", None, "item"))


def row(
    batch: int, table: str | None, kind: str = "row", time: int | None = None, rows: int = 1
) -> dict[str, Any]:
    place = {"source": "feed", "database": "shop", "schema": None, "table": table}
    return {**place, "batch": batch, "kind": kind, "rows": rows, "max_event_time": time}


def whole(rows: Sequence[dict[str, Any]], applied: dict[Place, int]) -> dict[Place, Extent]:
    """The extents by all rows of the log."""
    found = {}
    for place in {place_of(one) for one in rows}:
        mine = [one for one in rows if place_of(one) == place]
        done = applied.get(place, -1)
        waiting = {one["batch"] for one in mine if one["kind"] in APPLIED_KINDS and one["batch"] > done}
        newest = max(
            (one["max_event_time"] for one in mine if one["max_event_time"] is not None), default=None
        )
        found[place] = Extent(newest, done, len(waiting), max(waiting, default=-1))
    return found


def test_a_table_that_is_applied_waits_for_nothing() -> None:
    log = BatchLog(3, 2, [row(3, "item", time=20)], {ITEM: Extent(10, 2)})
    assert log.with_progress({ITEM: 3}) == {ITEM: Extent(20, 3)}
    assert log.with_progress({ITEM: 2}) == {ITEM: Extent(20, 2, 1, 3)}


def test_a_table_that_has_applied_some_of_what_waited_is_read_anew() -> None:
    log = BatchLog(5, 9, [], {ITEM: Extent(10, 2, 3, 5)})
    assert log.with_progress({ITEM: 2}) == {ITEM: Extent(10, 2, 3, 5)}
    assert log.with_progress({ITEM: 5}) == {ITEM: Extent(10, 5)}
    assert log.with_progress({ITEM: 4}) is None
    assert log.with_progress({ITEM: 1}) is None


def test_nothing_kept_is_nothing_told() -> None:
    assert BatchLog(5, 9, [], None).with_progress({}) is None


def test_the_newest_event_of_a_source_is_that_of_any_table() -> None:
    log = BatchLog(3, 2, [row(3, None, "heartbeat", 30)], {ITEM: Extent(10, 2)})
    assert log.newest_event("feed") == 30
    assert BatchLog(3, 2, [row(3, None, "heartbeat")], {ITEM: Extent(10, 2)}).newest_event("feed") == 10
    assert log.newest_event("other") is None


ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(TABLES), st.sampled_from([*APPLIED_KINDS, "heartbeat"]),
        st.none() | st.integers(0, 9),
    ),
    max_size=6,
)  # fmt: skip


@given(st.lists(st.tuples(ROWS, st.lists(st.booleans(), min_size=3, max_size=3)), max_size=6))
def test_what_is_kept_and_the_new_rows_are_the_whole_log(runs: list[tuple[Any, Any]]) -> None:
    rows: list[dict[str, Any]] = []
    applied: dict[Place, int] = {}
    kept: dict[Place, Extent] = {}
    for number, (drawn, is_applied) in enumerate(runs):
        new = [row(number * 3 + batch, *more) for batch, *more in drawn]
        rows += new
        top = max((one["batch"] for one in rows), default=-1)
        for table, is_done in zip(TABLES, is_applied, strict=True):
            if table is not None and is_done:  # gold applies all that there is
                applied["feed", TableName("shop", None, table)] = top
        found = BatchLog(top, len(rows), new, kept).with_progress(applied)
        assert found == whole(rows, applied)
        kept = found


def test_times_are_written_as_spark_writes_them() -> None:
    assert moment_text(1_700_000_000_000_000) == "2023-11-14 22:13:20"
    assert moment_text(1_700_000_000_120_000) == "2023-11-14 22:13:20.12"
    assert moment_text(-62_135_596_800_000_000) == "0001-01-01 00:00:00"
    assert age(1_700_000_000_900_000, datetime.fromtimestamp(1_700_000_060.1, UTC)) == 60
