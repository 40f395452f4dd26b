"""The rows without values that would be lost with the messages of a forgotten row."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row

from gold.operations.sibling_rows import siblings


def row(offset: int, ordinal: int = 0, epoch: int | None = 1, before: int | None = None) -> Row:
    """A row of a message; of an update whose BEFORE half is in the message at `before`."""
    half: Any = None if before is None else Row(topic="t", partition=0, offset=before)
    return Row(topic="t", partition=0, offset=offset, ordinal=ordinal, epoch=epoch, paired_with=half)


def test_other_rows_of_the_messages_are_found() -> None:
    near = [row(1), row(1, ordinal=1), row(2), row(1, epoch=2), row(1, ordinal=1, epoch=None)]
    assert siblings(near, [row(1), row(3)]) == near[1:]
    assert siblings([row(1), row(3)], [row(1), row(3, before=2)]) == []


def test_the_before_half_of_an_excluded_update_is_no_other_row() -> None:
    own = [row(2, before=1)]
    assert siblings([row(1), row(2)], own) == []
    assert len(siblings([row(1), row(1, ordinal=1), row(2)], own)) == 2
