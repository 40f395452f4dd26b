"""Several updates of one row under one sequenceId: all of them, in their order, however they are split."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from silver.changes.staged_rows import Row
from silver.formats import datahub_blob
from tests.silver.changes.silver_in_memory import Silver
from tests.silver.changes.test_decode import MESSAGES, message, plan

SPLITS = 400 if os.environ.get("MAINSTEM_SIZE") else 40
LATER = b'{"payload": {"op": "MHEARTBEAT", "timestamp": {"eventTime": 1605343532000}}}'
Values = dict[str, str]
Update = tuple[Values, Values]


def row(key: int, value: str) -> Values:
    return {"id": str(key), "v": value}


def halves_of(updates: Sequence[Update], *, has_key: bool = True) -> list[bytes]:
    """The messages of the updates, all of one sequenceId."""
    keys = ("id",) if has_key else ()
    return [
        message(op, 100, keys=keys, **{side: image})  # type: ignore[arg-type]
        for old, new in updates
        for op, side, image in (("UPDATE_BEFOR", "before", old), ("UPDATE_AFTER", "after", new))
    ]


def arrow_batch(messages: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    rows = [("feed", "orders", 0, offset, None, None, value, None, None, None) for offset, value in messages]
    columns: list[Any] = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MESSAGES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def parts(messages: Sequence[Any], draw: Random) -> Iterator[Sequence[Any]]:
    """The messages in parts, cut at random."""
    sizes = list(accumulate(draw.choice((1, 1, 2, 3, 9)) for _ in messages))
    cuts = [0, *(size for size in sizes if size < len(messages)), len(messages)]
    yield from (messages[begin:end] for begin, end in pairwise(cuts))


def taken(messages: Sequence[bytes], draw: Random) -> list[Row]:
    """The changes of the messages of one partition, in batches and Arrow batches cut at random."""
    silver = Silver(plan(datahub_blob.FORMAT), timedelta(minutes=10))
    for batch in parts(list(enumerate(messages)), draw):
        silver.take([arrow_batch(part) for part in parts(batch, draw)])
    silver.take([arrow_batch([(len(messages), LATER)])])
    assert not silver.waits()
    assert {found["reason"] for found in silver.rows if found["kind"] == "quarantined"} == set()
    changes = [found for found in silver.rows if found["kind"] == "row"]
    assert len({found["change_id"] for found in changes}) == len(changes)
    return sorted(changes, key=lambda found: found["sequence"])


CHAIN = [(row(1, "a"), row(1, "x")), (row(1, "x"), row(1, "y")), (row(1, "y"), row(1, "z"))]
THERE_AND_BACK = [(row(1, "a"), row(1, "x")), (row(1, "x"), row(1, "y")), (row(1, "y"), row(1, "x"))]
MANY_TO_ONE = [(row(1, "a"), row(1, "z")), (row(1, "c"), row(1, "z")), (row(1, "e"), row(1, "z"))]
MOVED = [(row(1, "a"), row(9, "x")), (row(9, "x"), row(9, "y"))]


@pytest.mark.parametrize("repeats", [0, 1, 2])
@pytest.mark.parametrize(
    ("updates", "has_key"),
    [
        (CHAIN, True),
        (THERE_AND_BACK, True),
        (MANY_TO_ONE, False),
        (MOVED, True),
    ],
    ids=["chain", "there and back", "many to one without a key", "moved key"],
)
def test_updates_of_one_row_are_all_there_in_their_order(
    updates: Sequence[Update], has_key: bool, repeats: int
) -> None:
    messages = halves_of(updates, has_key=has_key) * (1 + repeats)
    shown = set[str]()
    for seed in range(SPLITS):
        changes = taken(messages, Random(seed))
        assert [(found["before"], found["after"]) for found in changes] == updates, seed
        assert len({found["sequence"] for found in changes}) == len(changes), seed
        shown.add(str([(found["change_id"], found["sequence"]) for found in changes]))
    assert len(shown) == 1


def test_the_first_update_has_the_id_and_the_sequence_that_it_has_alone() -> None:
    (alone,) = taken(halves_of(CHAIN[:1]), Random(0))
    first, *_ = taken(halves_of(CHAIN), Random(0))
    assert (first["change_id"], first["sequence"]) == (alone["change_id"], alone["sequence"])
