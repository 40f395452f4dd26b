"""Messages of one record, as far as they follow each other in their partition."""

from __future__ import annotations

from silver.changes.record_runs import deliveries, note_runs
from silver.changes.staged_rows import STAGED, Row


def row(
    offset: int, position: str | None, *, keyless: bool = False, kind: str = "row", run: int | None = None
) -> Row:
    blank: Row = dict.fromkeys(STAGED.names)
    place = {"source": "feed", "topic": "t", "partition": 0, "epoch": 1, "offset": offset, "ordinal": 0}
    return {**blank, **place, "kind": kind, "position": position, "is_of_record": keyless, "run": run}


def runs(*rows: Row) -> list[int | None]:
    note_runs(rows)
    return [row["run"] for row in rows]


def test_a_run_goes_on_over_rows_of_other_tables() -> None:
    assert runs(row(7, "5", keyless=True), row(8, "5"), row(9, "5", keyless=True)) == [7, None, 7]


def test_a_row_at_another_position_or_a_gap_ends_a_run() -> None:
    assert runs(row(7, "5", keyless=True), row(8, "6"), row(9, "5", keyless=True)) == [7, None, 9]
    assert runs(row(7, "5", keyless=True), row(9, "5", keyless=True)) == [7, 9]


def test_a_tombstone_ends_no_run() -> None:
    tombstone = row(8, None, kind="tombstone")
    assert runs(row(7, "5", keyless=True), tombstone, row(9, "5", keyless=True)) == [7, None, 7]


def test_the_rows_come_in_any_order() -> None:
    assert runs(row(9, "5", keyless=True), row(7, "5", keyless=True), row(8, "5")) == [7, 7, None]


def test_a_run_that_ends_with_a_row_of_another_table_meets_the_next_arrow_batch() -> None:
    """Where the messages are cut makes no difference."""
    one, other, two = (row(n, "5", keyless=n != 8) for n in (7, 8, 9))
    again, end = row(50, "5", keyless=True), row(51, "5")
    note_runs([one, other])
    note_runs([two])
    note_runs([again, end])
    found = deliveries([one, two, again])
    assert found == {("t", 0, 7): ("t", 0, 7), ("t", 0, 9): ("t", 0, 7), ("t", 0, 50): ("t", 0, 50)}


def test_runs_that_meet_are_one_delivery() -> None:
    """The second begins an Arrow batch with a row of another table, at offset 8."""
    found = deliveries([row(7, "5"), row(9, "5", run=8), row(50, "5", run=50)])
    assert found == {("t", 0, 7): ("t", 0, 7), ("t", 0, 9): ("t", 0, 7), ("t", 0, 50): ("t", 0, 50)}


def test_messages_that_landed_again_are_in_no_run() -> None:
    """Their dump repeats offsets between those of the record; the record goes on at offset 9."""
    landed = [row(n, None, kind="duplicate") for n in (7, 8)]
    assert runs(row(7, "5", keyless=True), row(8, "5"), *landed, row(9, "5", keyless=True)) == [
        7, None, None, None, 7
    ]  # fmt: skip
