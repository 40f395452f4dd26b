"""Key candidates: columns whose values distinguish the rows of a sample."""

from __future__ import annotations

from typing import Any

import pytest

from framework.contracts.events import Op, RowChange
from silver.detection.key_candidates import MOST_ROWS, Sample, candidates


def change(op: Op, place: int | None, **cells: str | None) -> RowChange:
    is_gone = op is Op.DELETE
    return RowChange(
        op=op,
        database="shop",
        schema=None,
        table="t",
        keys=None,
        before=cells if is_gone else None,
        after=None if is_gone else cells,
        columns={},
        position=None if place is None else (place,),
        event_time=None,
    )


def sampled(*changes: RowChange) -> Sample:
    sample = Sample()
    for each in changes:
        sample.take(each, 10_000)
    return sample


def rows(*cells: dict[str, str | None]) -> Sample:
    return sampled(*(change(Op.INSERT, place, **row) for place, row in enumerate(cells, 1)))


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (rows({"kind": "a", "id": "1"}, {"kind": "a", "id": "2"}), [["id"]]),
        (rows({"name": "a", "id": "1"}, {"name": "b", "id": "2"}), [["id"], ["name"]]),
        (rows({"name": "a", "id": None}, {"name": "b", "id": "2"}), [["name"]]),
        (
            rows(
                {"o": "1", "n": "1", "q": "1"}, {"o": "1", "n": "2", "q": "1"}, {"o": "2", "n": "1", "q": "1"}
            ),
            [["o", "n"]],
        ),
        (rows({"id": "1"}), []),
        (rows({"id": "1"}, {"other": "2"}), []),
        (rows({"id": "1", "v": "x"}, {"id": "1", "v": "x"}), []),
        (sampled(), []),
    ],
)
def test_columns_and_pairs_whose_values_are_unique_and_never_null(
    sample: Sample, expected: list[list[str]]
) -> None:
    columns = list(dict.fromkeys(name for row in sample.rows.values() for name in row))
    assert candidates(sample, columns) == expected


def test_a_row_that_is_delivered_again_is_one_row() -> None:
    first, second = change(Op.INSERT, 1, id="1"), change(Op.INSERT, 2, id="2")
    assert candidates(
        sampled(first, second, first, change(Op.READ, None, id="3"), change(Op.READ, None, id="3")), ["id"]
    ) == [["id"]]


def test_a_deleted_row_may_come_again_and_an_update_is_no_new_row() -> None:
    first, second = change(Op.INSERT, 1, id="1"), change(Op.INSERT, 2, id="2")
    gone, inserted = change(Op.DELETE, 3, id="1"), change(Op.INSERT, 4, id="1")
    assert candidates(sampled(first, second, gone, inserted), ["id"]) == [["id"]]
    assert candidates(sampled(first, second, change(Op.UPDATE, 3, id="1")), ["id"]) == [["id"]]


def test_the_sample_is_bounded() -> None:
    sample = Sample()
    grown: list[Any] = [
        sample.take(change(Op.INSERT, n, id=str(n), v="x"), 10_000) for n in range(MOST_ROWS + 9)
    ]
    assert (len(sample.rows), sum(grown)) == (MOST_ROWS, 2 * MOST_ROWS)
    assert Sample().take(change(Op.INSERT, 1, id="1", v="x"), 1) == 0
