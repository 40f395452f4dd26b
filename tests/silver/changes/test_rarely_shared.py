"""Changes that share a position which seldom has several: none is lost, none counts twice, ids stay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from silver.changes.staged_rows import Row
from silver.formats import oms_shareplex
from tests.silver.changes.silver_in_memory import Silver
from tests.silver.changes.test_decode import CONTEXT, batch, normalized, plan

Values = dict[str, object]
TIMES = pytest.mark.parametrize("by_partition", [False, True], ids=["by scn", "by partition"])


def message(op: str, data: Values, key: Values | None = None, table: str = "orders", **meta: object) -> bytes:
    """A change of SharePlex; all of them have one position unless `meta` says otherwise."""
    place = {"op": op, "table": f"shop.{table}", "time": "2020-12-30T16:11:11", "scn": "123456789", "seq": 1}
    return json.dumps({"data": data, "key": key, "meta": {**place, **meta}}).encode()


def update(old: str, new: str, **meta: object) -> bytes:
    return message("upd", {"v": new}, {"id": 1, "v": old}, **meta)


def keys_of(database: str | None, schema: str | None, table: str) -> tuple[str, ...] | None:
    return ("id",) if table == "orders" else None


def silver(*, by_partition: bool = False) -> Silver:
    context = replace(CONTEXT, keys_for=keys_of, needs_no_position=by_partition)
    return Silver(replace(plan(oms_shareplex.FORMAT), by_partition=by_partition, context=context))


def taken(where: Silver, *batches: Sequence[bytes]) -> list[Row]:
    """All rows after these batches; each message has an offset of its own."""
    for values in batches:
        offset = len(where.rows)
        where.take([batch([None] * offset + list(values)).slice(offset)])
    return where.rows


def changes(rows: Sequence[Row]) -> list[Row]:
    found = [row for row in rows if row["kind"] == "row"]
    assert len({row["change_id"] for row in found}) == len(found)
    return sorted(found, key=lambda row: row["sequence"])


@TIMES
@pytest.mark.parametrize("cut", [1, 2])
def test_updates_of_one_row_are_as_many_changes(*, by_partition: bool, cut: int) -> None:
    where = silver(by_partition=by_partition)
    sent = [update("a", "b"), update("b", "c")]
    taken(where, sent[:cut], *([sent[cut:]] if sent[cut:] else []))
    assert [row["after"]["v"] for row in changes(where.rows)] == ["b", "c"]
    taken(where, sent, [sent[1]], [sent[0]])
    assert [row["after"]["v"] for row in changes(where.rows)] == ["b", "c"]
    ids = {row["change_id"] for row in changes(where.rows)}
    again = [row for row in where.rows if row["kind"] == "duplicate"]
    assert (len(again), {row["change_id"] for row in again}) == (4, ids)


@TIMES
def test_a_row_that_is_deleted_and_inserted_is_there(*, by_partition: bool) -> None:
    where = silver(by_partition=by_partition)
    taken(where, [message("del", {"id": 1, "v": "a"}), message("ins", {"id": 1, "v": "b"})])
    assert where.replica() == ({"1": {"id": "1", "v": "b"}}, {})


@TIMES
def test_there_and_back_and_there_is_three_changes(*, by_partition: bool) -> None:
    where = silver(by_partition=by_partition)
    taken(where, [update("a", "b"), update("b", "a")], [update("a", "b")])
    assert [row["after"]["v"] for row in changes(where.rows)] == ["b", "a", "b"]


def test_equal_rows_of_a_transaction_are_told_apart_by_their_number() -> None:
    where = silver()
    notes = [message("ins", {"v": "x"}, table="notes", seq=None, idx=f"{n}/2") for n in (1, 2)]
    taken(where, notes, notes)
    assert [row["kind"] for row in where.rows] == ["row", "row", "duplicate", "duplicate"]


IDS = ["2f843289958b106fd7164e185e675859", "34fa11d92ba624d1ebe40fc81205ca0a"]
"""The ids that earlier releases gave, when the position alone identified a change."""


@TIMES
def test_a_change_that_an_earlier_release_has_stored_is_found(*, by_partition: bool) -> None:
    where = silver(by_partition=by_partition)
    sent = [
        message("ins", {"id": 1, "name": "Ann"}, scn=160931707100001),
        message("upd", {"id": 1, "name": "Bob"}, scn=123456789),
    ]
    stored = normalized(sent, where.plan)
    assert [row["change_id"] for row in stored] == IDS
    for row in stored:
        where.rows.append(row if by_partition else {**row, "sequence": row["position"]})
    other = message("upd", {"id": 1, "name": "Cat"}, {"id": 1, "name": "Bob"}, scn=123456789)
    taken(where, sent, [other], [other])
    assert [row["kind"] for row in where.rows[2:]] == ["duplicate", "duplicate", "row", "duplicate"]
    assert len(changes(where.rows)) == 3
