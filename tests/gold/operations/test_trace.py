"""What became of each change of a row: applied, superseded or late."""

from __future__ import annotations

from random import Random
from typing import Any

from gold.operations.trace import outcomes

Change = dict[str, Any]


def change(sequence: int, batch: int, name: str | None = None) -> Change:
    return {"sequence": f"{sequence:06d}", "batch": batch, "change_id": name or f"c{sequence}"}


def test_a_change_is_late_where_an_earlier_batch_had_a_newer_one() -> None:
    changes = [change(4, 2), change(3, 3), change(2, 1), change(1, 1)]
    assert outcomes(changes, "c4") == ["applied", "late", "superseded", "superseded"]


def test_without_a_row_the_newest_changes_are_the_applied_ones() -> None:
    assert outcomes([change(2, 2, "a"), change(2, 1, "b"), change(1, 1)], None) == [
        "applied",
        "applied",
        "superseded",
    ]
    assert outcomes([], None) == []


class Counted(str):
    """A text that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    def __gt__(self, other: str) -> bool:
        Counted.comparisons += 1
        return str.__gt__(self, other)

    __hash__ = str.__hash__


def comparisons(count: int) -> int:
    changes = [{**change(n, n), "sequence": Counted(f"{n:06d}")} for n in reversed(range(count))]
    Counted.comparisons = 0
    assert outcomes(changes, f"c{count - 1}") == ["applied", *["superseded"] * (count - 1)]
    return Counted.comparisons


def test_thousands_of_changes_of_one_row_are_not_compared_with_each_other() -> None:
    assert comparisons(10_000) < 11 * comparisons(1_000)


def test_outcomes_are_those_of_the_plain_definition() -> None:
    draw = Random(3)
    for _ in range(300):
        changes = [change(draw.randint(1, 5), draw.randint(1, 4), f"c{n}") for n in range(draw.randint(1, 8))]
        changes.sort(key=lambda c: c["sequence"], reverse=True)
        applied = draw.choice([None, draw.choice(changes)["change_id"]])
        assert outcomes(changes, applied) == [plain(each, changes, applied) for each in changes]


def plain(each: Change, changes: list[Change], applied: str | None) -> str:
    newer = [other for other in changes if other["sequence"] > each["sequence"]]
    if each["change_id"] == applied or (applied is None and not newer):
        return "applied"
    return "late" if any(other["batch"] < each["batch"] for other in newer) else "superseded"
