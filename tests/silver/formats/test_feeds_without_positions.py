"""Writers whose messages have no position: read in the partition's order where the source says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from framework.contracts.events import Op, RowChange
from framework.contracts.file_messages import FiledMessage
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.demo import feeds
from silver.decoding.format import Context
from silver.detection.detect import detect
from silver.formats import FORMATS

ROW = {"id": 1, "v": "A"}
MESSAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "Flink CDC's pipeline": (
        "debezium",
        {"before": None, "after": ROW, "op": "c", "source": {"db": "shop", "table": "orders"}},
    ),
    "Flink SQL": ("debezium", {"before": None, "after": ROW, "op": "c"}),
    "RisingWave": (
        "debezium",
        {"payload": {"before": None, "after": ROW, "op": "r", "source": {"db": "shop", "table": "orders"}}},
    ),
    "SeaTunnel": ("debezium", {"before": None, "after": ROW, "op": "c", "source": None}),
    "Flink CDC's pipeline, Canal": (
        "canal",
        {
            "old": None,
            "data": [{"id": "1", "v": "A"}],
            "type": "INSERT",
            "database": "shop",
            "table": "orders",
            "pkNames": ["id"],
        },
    ),
    "OMS without sequences": (
        "oms_shareplex",
        {"data": ROW, "meta": {"op": "ins", "table": "shop.orders"}, "key": None},
    ),
    "Flink SQL, Canal": ("canal", {"data": [{"id": "1", "v": "A"}], "type": "INSERT"}),
}

ORDERING = (
    "sequenceId _sequence_id_ _excute_time_ storeDataSequence timestamp scn seq time es ts_ms ts_us ts_ns"
    " file pos row gtid sequence position xid xoffset ts op_ts commit-timestamp stream-position"
)
"""The members of messages that order them."""
PLACED_BY_PARTITION = {"canal", "debezium", "lindorm", *(name for name in FORMATS if name.startswith("oms_"))}
"""The formats that docs/formats.md names for `order: partition`."""


def decoded(
    name: str,
    message: Mapping[str, Any],
    *,
    needs_no_position: bool,
    topic: str = "shop.orders",
    keys: tuple[str, ...] | None = ("id",),
) -> RowChange:
    fmt = FORMATS[name]
    context = Context("shop", fmt.options(), "UTC", lambda *_: keys)
    raw = RawMessage("feed", topic, 0, 7, None, None, json.dumps(message).encode(), ())
    (event,) = fmt.decode(raw, replace(context, needs_no_position=needs_no_position))
    assert isinstance(event, RowChange)
    return event


@pytest.mark.parametrize("writer", MESSAGES)
def test_messages_without_a_position_are_changes_in_the_order_of_their_partition(writer: str) -> None:
    name, message = MESSAGES[writer]
    event = decoded(name, message, needs_no_position=True)
    assert (event.op in (Op.INSERT, Op.READ), event.database, event.table, event.keys) == (
        True,
        "shop",
        "orders",
        ("id",),
    )
    assert event.position is not None
    assert not any(event.position[:4])
    assert event.after == {"id": "1", "v": "A"}
    assert event.is_time or not FORMATS[name].positions_are_unique


def without_positions(part: Any) -> Any:
    """The part of a message without the numbers and times that order messages."""
    if isinstance(part, list):
        return [without_positions(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {name: without_positions(value) for name, value in part.items() if name not in ORDERING.split()}


def inserted_row(name: str) -> dict[str, Any]:
    """The first inserted row of a format's sample."""
    for line in feeds.sample(name).splitlines():
        found = json.loads(line)
        message: dict[str, Any] = json.loads(found["payload"] or "{}") if "partition" in found else found
        with suppress(Malformed, ValueError):
            if decoded(name, message, needs_no_position=False, keys=None).op is Op.INSERT:
                return message
    raise AssertionError(name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_refusal_for_want_of_a_position_names_the_setting_only_where_it_helps(name: str) -> None:
    bare = without_positions(inserted_row(name))
    with pytest.raises(Malformed) as refused:
        decoded(name, bare, needs_no_position=False, keys=None)
    assert ("order: partition" in str(refused.value)) == (name in PLACED_BY_PARTITION)
    if name in PLACED_BY_PARTITION:
        row = decoded(name, bare, needs_no_position=True, keys=None)
        assert row.position is not None
        assert not any(row.position[:4])
    else:
        with pytest.raises(Malformed) as refused:
            decoded(name, bare, needs_no_position=True, keys=None)
        assert refused.value.reason is Reason.MISSING_POSITION
        assert "order: partition" not in str(refused.value)


@pytest.mark.parametrize("writer", MESSAGES)
def test_without_the_setting_the_refusal_names_it(writer: str) -> None:
    name, message = MESSAGES[writer]
    with pytest.raises(Malformed, match="order: partition") as caught:
        decoded(name, message, needs_no_position=False)
    assert caught.value.reason in (Reason.WRONG_SHAPE, Reason.MISSING_POSITION, Reason.MISSING_TABLE)


def test_a_message_of_another_writer_is_refused_with_the_setting_too() -> None:
    with pytest.raises(Malformed, match="in capitals"):
        decoded(
            "debezium",
            {"before": None, "after": ROW, "op": "c", "source": {"connector": "MYSQL"}},
            needs_no_position=True,
        )


def test_the_time_of_such_a_message_relates_partitions() -> None:
    name, message = MESSAGES["RisingWave"]
    timed = {"payload": {**message["payload"], "ts_ms": 1_709_200_800_000}}
    event = decoded(name, timed, needs_no_position=True)
    assert event.event_time == (event.position or ())[0] == 1_709_200_800_000_000


@pytest.mark.parametrize("writer", ["Flink CDC's pipeline, Canal", "Flink CDC's pipeline"])
def test_the_advice_of_detect_names_the_setting(writer: str) -> None:
    _, message = MESSAGES[writer]
    raw = RawMessage("feed", "feed.jsonl", 0, 0, None, None, json.dumps(message).encode(), ())
    answer = detect([FiledMessage("feed.jsonl", 1, "lines", raw)], FORMATS, samples=feeds.sample)
    assert "order: partition" in json.dumps(answer)
