"""Several updates under one sequenceId: their halves are paired as they belong together, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from silver.changes import adjacent_halves, decode
from silver.changes.change_id import change_id
from silver.changes.decode import decode_batch
from silver.changes.pairing import KNOWN, NEW, PENDING, pair
from silver.changes.staged_rows import Row, plain_rows
from silver.formats import datahub_blob
from tests.amounts import IS_LARGE
from tests.silver.changes.test_decode import MESSAGES, message, plan

FIELDS = list(MESSAGES)[:8]
DELIVERIES = 4_000 if IS_LARGE else 250
LATER = 10 * 1_605_339_932_000_000
Values = dict[str, str]


@dataclass
class Log:
    """What a writer sends of one table: the shards with their messages in order,
    and the updates in them.
    """

    shards: list[list[bytes]]
    updates: set[tuple[str, str]] = field(default_factory=set)

    def tell(self, sequence: int, before: Values, after: Values, *, has_key: bool) -> None:
        """One update: each half goes to the shard of its own key, the first half first."""
        for op, side, image in (("UPDATE_BEFOR", "before", before), ("UPDATE_AFTER", "after", after)):
            images = {side: image}
            shard = self.shards[int(image["id"]) % len(self.shards)]
            shard.append(message(op, sequence, keys=("id",) if has_key else (), **images))  # type: ignore[arg-type]
        self.updates.add((repr(before), repr(after)))


def drawn_log(draw: Random, *, moves: int) -> Log:
    """Updates of a few rows, several of them under one sequenceId; of each sequenceId so many change a key
    at most.

    A row with a key has one update of a sequenceId: nothing would say which of two comes last.
    """
    has_key = draw.random() < 0.7
    log = Log([[] for _ in range(draw.randint(1, 3) if has_key else 1)])
    rows = {str(key): {"id": str(key), "v": f"a{key}"} for key in range(4)}
    free, number = ["4", "5", "6", "7"], 0
    for sequence in range(draw.randint(1, 3)):
        moved, left = 0, sorted(rows)
        for _ in range(draw.randint(1, 4)):
            number += 1
            key = draw.choice(left)
            if has_key:
                left.remove(key)
            before = rows.pop(key)
            after = {**before, "v": f"b{number}"}
            if has_key and moved < moves and free and draw.random() < 0.3:
                moved += 1
                after["id"] = free.pop()
            rows[after["id"]] = after
            log.tell(sequence, before, after, has_key=has_key)
    for shard in log.shards:
        for _ in range(draw.choice((0, 0, 1, 2))):  # a part of the shard comes again behind it
            begin = draw.randrange(len(shard) + 1)
            shard += shard[begin : begin + draw.randrange(4)]
        for _ in range(draw.choice((0, 2))):  # other tables' messages stand between
            shard.insert(
                draw.randrange(len(shard) + 1), message("INSERT", 900, after={"id": "1"}, table="other")
            )
    return log


def decoded(messages: Sequence[tuple[int, int, bytes]]) -> list[Row]:
    """The outcomes of one Arrow batch of messages, each with its shard and offset."""
    rows = [("feed", "orders", shard, offset, None, None, value, None) for shard, offset, value in messages]
    columns: list[Any] = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FIELDS, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(FIELDS))
    return plain_rows(pa.Table.from_batches([decode_batch(batch, {"feed": plan(datahub_blob.FORMAT)})]))


@dataclass
class Silver:
    """The batch loop in memory: what is committed, and the halves that wait."""

    changes: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)

    def take(
        self, messages: Sequence[tuple[int, int, bytes]], draw: Random, deadline: int | None = None
    ) -> None:
        rows: list[Row] = []
        left = list(messages)
        while left:
            size = draw.randint(1, 6)
            rows += [row for row in decoded(left[:size]) if row["table"] == "orders"]
            left = left[size:]
        known = {
            row["change_id"]: row for row in self.changes if row["kind"] == "row" and row["half"] is None
        }
        for row in rows:
            if row["half"] is None and row["change_id"] not in known:
                known[row["change_id"]] = row
                self.changes.append(row)
        halves = [{**row, "origin": NEW} for row in rows if row["half"] is not None]
        touched = {row["sequence"] for row in rows}
        waiting = [
            {**row, "origin": PENDING}
            for row in self.pending
            if deadline is not None or row["sequence"] in touched
        ]
        every = [
            *halves,
            *waiting,
            *({**row, "origin": KNOWN} for row in self.changes if row["kind"] == "row"),
        ]
        for place in sorted({row["sequence"] for row in [*halves, *waiting]}):
            self._commit(
                pair(
                    [
                        {**row, "deadline": deadline, "is_shared": True}
                        for row in every
                        if row["sequence"] == place
                    ]
                )
            )

    def _commit(self, outcomes: Sequence[Row]) -> None:
        self.changes += [row for row in outcomes if row["kind"] != "half"]
        gone = {_at(row) for row in outcomes if row["kind"] != "half"}
        gone |= {_at(row["paired_with"]) for row in outcomes if row["paired_with"]}
        self.pending = [
            row
            for row in [*self.pending, *(row for row in outcomes if row["kind"] == "half")]
            if _at(row) not in gone
        ]


def _at(row: Any) -> tuple[int, int]:
    return row["partition"], row["offset"]


def delivered(log: Log, draw: Random) -> Silver:
    """The log in batches: each takes some more of each shard, in Arrow batches that mix the shards."""
    silver, read = Silver(), [0] * len(log.shards)
    while any(at < len(shard) for at, shard in zip(read, log.shards, strict=True)):
        ends = [
            min(len(shard), at + draw.choice((0, 1, 2, 3, 9)))
            for at, shard in zip(read, log.shards, strict=True)
        ]
        parts = [[(n, at, shard[at]) for at in range(read[n], ends[n])] for n, shard in enumerate(log.shards)]
        order = [n for n, part in enumerate(parts) for _ in part]
        draw.shuffle(order)
        silver.take([parts[n].pop(0) for n in order], draw)
        read = ends
    return silver


def couples(silver: Silver) -> set[tuple[str, str]]:
    rows = [row for row in silver.changes if row["kind"] == "row" and row["half"] is None]
    return {(repr(row["before"]), repr(row["after"])) for row in rows}


@pytest.mark.parametrize(("moves", "share"), [(1, 0.98), (4, 0.9)])
def test_no_update_has_the_halves_of_two(moves: int, share: float) -> None:
    """Deliveries in the order of their shards: what the order settles is paired,
    and nothing is paired crosswise.
    """
    paired = expected = 0
    for seed in range(DELIVERIES):
        draw = Random(seed)
        log = drawn_log(draw, moves=moves)
        silver = delivered(log, draw)
        assert couples(silver) <= log.updates, seed
        silver.take([], draw, deadline=LATER)
        assert couples(silver) <= log.updates, seed
        assert not silver.pending
        assert {row["reason"] for row in silver.changes if row["kind"] == "quarantined"} <= {
            "ambiguous_pair",
            "unpaired_before_image",
        }
        paired += len(couples(silver))
        expected += len(log.updates)
    assert paired > share * expected


A, B = {"id": "1", "v": "x"}, {"id": "2", "v": "x"}


@pytest.mark.parametrize(
    ("updates", "evidence"),
    [
        ([(1, A, {**A, "v": "y"}), (1, B, {**B, "v": "y"})], {"positions=shared"}),
        ([(1, A, {**A, "v": "y"}), (2, B, {**B, "v": "y"})], {None}),
        ([(1, A, {**A, "v": "y"}), (1, A, {**A, "v": "y"})], {None}),  # delivered twice
        ([(1, A, {**A, "id": "9"})], {None}),
    ],
)
def test_updates_of_one_sequence_show_that_their_source_shares_positions(
    updates: Sequence[tuple[int, Values, Values]], evidence: set[str | None]
) -> None:
    log = Log([[]])
    for sequence, before, after in updates:
        log.tell(sequence, before, after, has_key=True)
    rows = decoded([(0, at, value) for at, value in enumerate(log.shards[0])])
    assert {row["evidence"] for row in rows} == evidence


def test_a_before_half_has_an_id_of_its_own_only_where_it_is_not_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Row] = []

    def noted(row: Row) -> str:
        made.append(row)
        return change_id(row)

    for module in (decode, adjacent_halves):
        monkeypatch.setattr(module, "change_id", noted)
    log, rows = Log([[]]), [{"id": str(number), "v": "a"} for number in range(3)]
    for sequence, row in enumerate(rows):
        log.tell(sequence, row, {**row, "v": "b"}, has_key=True)
    (shard,) = log.shards
    found = decoded([(0, offset, value) for offset, value in enumerate(shard[:-1])])
    assert [(row["half"], row["before"] is None) for row in found] == [
        (None, False),
        (None, False),
        ("before", False),
    ]
    assert len(made) == len({row["change_id"] for row in found} - {None}) == 3
    alone = [decoded([(0, offset, value)])[0]["change_id"] for offset, value in enumerate(shard)]
    assert [row["change_id"] for row in found] == [alone[1], alone[3], alone[4]]
