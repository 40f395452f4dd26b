"""What neighbouring messages show of missing settings, and what shows nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from framework.contracts.messages import RawMessage
from silver.changes.decode import decode_batch
from silver.changes.setting_evidence import LONE_TOMBSTONE, SHARED_POSITION
from silver.changes.staged_rows import plain_rows
from silver.formats import debezium
from silver.formats.debezium import DebeziumOptions
from tests.silver.changes.test_decode import batch, plan

BINLOG = {"connector": "mysql", "db": "shop", "table": "orders", "server_id": 7, "ts_ms": 1709200800000}
AT = {"file": "binlog.000003", "pos": 500, "row": 0}
POSTGRES = {"connector": "postgresql", "db": "shop", "schema": "s", "table": "orders", "lsn": 7}


def message(op: str, before: int | None, after: int | None, value: str = "a", **more: Any) -> bytes:
    images = [None if number is None else {"id": number, "v": value} for number in (before, after)]
    source = more.pop("source", {**BINLOG, **AT, **more})
    return json.dumps({"op": op, "before": images[0], "after": images[1], "source": source}).encode()


def evidence(messages: Sequence[bytes | None], again: Sequence[str | None] = (), **options: Any) -> list[str]:
    """The evidence of messages; `again` says how they landed before, with None for those that did not."""
    own = plan(debezium.FORMAT)
    own = replace(
        own, context=replace(own.context, options=DebeziumOptions(**options), keys_for=lambda *_: ("id",))
    )
    landed = batch(messages)
    if again:
        landed = landed.append_column("relanding", pa.array(again, pa.string()))
    rows = plain_rows(decode_batch(landed, {"feed": own}))
    return [row["evidence"] for row in rows if row["evidence"]]


SHARED = [message("c", None, 1), message("u", 1, 1, "b")]


@pytest.mark.parametrize(
    "messages",
    [
        SHARED,
        [message("u", 1, 1, "b"), message("u", 1, 1, "c")],  # the second would be a duplicate of the first
        [message("c", None, 1), message("c", None, 2)],
        [message("d", 1, None), message("d", 2, None)],
        [message("c", None, 1), message("c", None, 1, table="notes")],
        [message("u", 1, 1, "b"), b"{}", message("u", 1, 1, "c")],
        [*SHARED, message("u", 1, 1, "c")],
    ],
)
def test_neighbours_that_share_a_position_of_a_binlog_are_evidence_once(messages: list[bytes]) -> None:
    assert evidence(messages) == [SHARED_POSITION]
    assert evidence(messages, compressed_transactions=True) == []


@pytest.mark.parametrize(
    "messages",
    [
        [message("c", None, 1), message("c", None, 2, row=1)],
        [message("c", None, 1), message("c", None, 2, pos=900)],
        [message("c", None, 1), message("c", None, 1)],  # one change, delivered twice
        [message("c", None, 1), message("u", 1, 1, server_id=8)],  # another server's log
        [message("d", 1, None), message("c", None, 2)],  # a change of a key
        [message("d", 1, None), None, message("c", None, 2)],
        [message("c", None, 2), message("d", 1, None)],  # its halves in two partitions
        [message("r", None, 1, snapshot="true"), message("r", None, 2, snapshot="true")],
        [message("c", None, 1), message("r", None, 2, snapshot="incremental")],
        [message("c", None, 1, row=None), message("u", 1, 1, "b", row=None)],
        [message("u", 1, 1, "b", source=POSTGRES), message("u", 1, 1, "c", source=POSTGRES)],
    ],
)
def test_other_neighbours_are_none(messages: list[bytes]) -> None:
    assert evidence(messages) == []


def flat(number: int, *, is_deleted: bool = False, topic: str = "crm.shop.orders") -> RawMessage:
    value = {"id": number, "v": "a", "__deleted": str(is_deleted).lower(), "__table": "orders", "__pos": 7}
    return message_of(topic, number, json.dumps(value).encode())


def message_of(topic: str, number: int, value: bytes | None) -> RawMessage:
    return RawMessage("feed", topic, 0, 0, None, json.dumps({"id": number}).encode(), value)


def tombstone(number: int, topic: str = "crm.shop.orders") -> RawMessage:
    return message_of(topic, number, None)


def shown(messages: Sequence[RawMessage], offsets: Sequence[int], tombstones: str = "ignore") -> list[str]:
    options = DebeziumOptions(flattened=True, tombstones=tombstones)
    own = plan(debezium.FORMAT)
    own = replace(own, context=replace(own.context, options=options))
    parts = [
        batch([each.value], key=each.key, topic=each.topic).set_column(
            3, "offset", pa.array([offset], pa.int64())
        )
        for each, offset in zip(messages, offsets, strict=True)
    ]
    (whole,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return [row["evidence"] for row in plain_rows(decode_batch(whole, {"feed": own})) if row["evidence"]]


def test_a_tombstone_behind_a_change_that_is_no_delete_is_evidence_once() -> None:
    found = [flat(1), tombstone(1), flat(2), tombstone(2), tombstone(3)]
    assert shown(found, range(5)) == [LONE_TOMBSTONE]
    assert shown(found, range(5), "delete") == []
    assert shown([found[1], found[0]], [1, 0]) == [LONE_TOMBSTONE]  # of files that landed in another order


@pytest.mark.parametrize(
    ("messages", "offsets"),
    [
        ([flat(1), flat(1, is_deleted=True), tombstone(1)], [0, 1, 2]),
        ([flat(1), flat(1, is_deleted=True), tombstone(1), tombstone(1)], [0, 1, 2, 3]),  # sent again
        ([flat(1), tombstone(1)], [0, 2]),  # the broker has removed what was between them
        ([flat(1), tombstone(1, "crm.shop.notes")], [0, 1]),
        ([tombstone(1), tombstone(2)], [0, 1]),
        ([flat(1), RawMessage("feed", "crm.shop.orders", 0, 0, None, b"null", None)], [0, 1]),
    ],
)
def test_other_tombstones_are_none(messages: list[RawMessage], offsets: list[int]) -> None:
    assert shown(messages, offsets) == []


def test_a_message_that_has_landed_before_shares_no_position() -> None:
    one, two = message("c", None, 1), message("u", 1, 1, "b", row=1)
    for again in (["a.jsonl:7", None, None], [None, "a.jsonl:7", None]):
        assert evidence([one, one, two], again) == []
    assert evidence([SHARED[0], SHARED[0], SHARED[1]], [None, "a.jsonl:7", None]) == [SHARED_POSITION]
