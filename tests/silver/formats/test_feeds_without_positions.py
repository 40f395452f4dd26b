"""Writers whose messages have no position: read in the partition's order where the source says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
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


def decoded(
    name: str, message: Mapping[str, Any], *, needs_no_position: bool, topic: str = "shop.orders"
) -> RowChange:
    fmt = FORMATS[name]
    context = Context("shop", fmt.options(), "UTC", lambda *_: ("id",))
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
