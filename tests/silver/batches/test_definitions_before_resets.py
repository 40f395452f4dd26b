"""Definitions before the first new row of a reset are of its epoch, and read no row before it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.test_identity import TS, Topics
from tests.end_to_end.test_late_definitions import ID, price
from tests.large_batches import take_for_large
from tests.silver.batches.test_definitions_behind_stops import BYTES, EXCLUDED, SETTINGS, defined, silver

MINUTE = 60_000
SERVERS = {"same server": (1, "false", 1), "snapshot": (0, "true", 1), "snapshot of another": (0, "true", 2)}
"""By case: the server of the new definitions, whether a snapshot read them, and the server of the new row."""
DIGITS = {0: "123.45", 1: "123.45", 2: "1.2345"}
"""The prices by the offset of their row."""


def written(
    table: str, file: int, pos: int, minute: float, server: int = 1, snapshot: str = "false"
) -> dict[str, Any]:
    """The `source` block of a change at a time in minutes."""
    place = {"file": f"bin.{file:06d}", "pos": pos, "row": 0, "ts_ms": TS + int(minute * MINUTE)}
    names = {"connector": "mysql", "db": "shop", "table": table}
    return {**names, "server_id": server, "snapshot": snapshot, **place}


def message(topic: str, offset: int, key: object, value: Mapping[str, Any], *, is_dated: bool = True) -> str:
    """A line of kcat, sent two seconds after the change, or without the time when it was sent."""
    at = value["source"]["ts_ms"] + 2_000
    place = {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "tstype": "create",
        "ts": at if is_dated else -1,
    }
    return json.dumps({**place, "key": json.dumps(key), "payload": json.dumps(value)})


def definition(offset: int, source: Mapping[str, Any], scale: int, *, is_dated: bool = True) -> str:
    described = {"primaryKeyColumnNames": ["id"], "columns": [ID, price(scale)]}
    change = {"type": "ALTER", "id": f'"shop"."{source["table"]}"', "table": described}
    value = {"source": source, "databaseName": "shop", "ddl": "", "tableChanges": [change]}
    value |= {"ts_ms": source["ts_ms"]}
    return message("crm", offset, {"databaseName": "shop"}, value, is_dated=is_dated)


def row(offset: int, source: Mapping[str, Any], op: str = "c", *, is_dated: bool = True) -> str:
    after = {"id": offset, "price": BYTES}
    value = {"op": op, "before": None, "after": after, "source": source, "ts_ms": source["ts_ms"]}
    return message(f"crm.shop.{source['table']}", offset, {"id": offset}, value, is_dated=is_dated)


def heartbeat(offset: int, minute: float) -> str:
    at = TS + int(minute * MINUTE)
    place = {
        "topic": "__debezium-heartbeat.crm",
        "partition": 0,
        "offset": offset,
        "tstype": "create",
        "ts": at,
    }
    return json.dumps({**place, "key": None, "payload": json.dumps({"ts_ms": at})})


TABLES = ("item", "extra", "empty")
"""A table with rows, an excluded one, and one without rows."""


def before(*, is_dated: bool = True) -> list[str]:
    """Definitions with two digits behind the point, of which one changes to three, and a row."""
    tables = [
        definition(n, written(name, 3, 154 + n, 0), 2, is_dated=is_dated) for n, name in enumerate(TABLES)
    ]
    extra = definition(3, written("extra", 9, 100, 50), 3, is_dated=is_dated)
    return [*tables, row(0, written("item", 3, 300, 1), is_dated=is_dated), extra]


def last(*, is_dated: bool = True) -> list[str]:
    return [row(1, written("item", 9, 500, 60), is_dated=is_dated)]


def new_tables(case: str, minute: float = 120, *, is_dated: bool = True) -> list[str]:
    """Definitions with four digits, below the last row before the reset."""
    server, snapshot, _ = SERVERS[case]
    return [
        definition(n + 4, written(name, 5, 157 + n, minute, server, snapshot), 4, is_dated=is_dated)
        for n, name in enumerate(TABLES)
    ]


def new_row(case: str, minute: float = 121, *, is_dated: bool = True) -> list[str]:
    return [row(2, written("item", 5, 300, minute, SERVERS[case][2]), is_dated=is_dated)]


OF_EPOCHS = [(1, "DECIMAL(9,2)"), (1, "DECIMAL(9,3)"), (2, "DECIMAL(9,4)")]
"""The epochs and the columns of the excluded table's definitions."""


def prices(topics: Topics) -> dict[int, str]:
    changes = [change for change in topics.silver("changes") if change["kind"] == "row"]
    return {change["offset"]: dict(change["after"])["price"] for change in changes}


def epochs(topics: Topics, topic: str) -> list[int]:
    """The epochs of the messages of a topic, in their order."""
    found = [change for change in topics.silver("changes") if change["topic"] == topic]
    return [change["epoch"] for change in sorted(found, key=lambda change: change["offset"])]


def begin(topics: Topics) -> None:
    """Lets the second epoch begin, and checks what silver has then."""
    topics.set_epoch(2)
    assert silver(topics) == 0
    assert prices(topics) == DIGITS
    assert epochs(topics, "crm") == [1] * 4 + [2] * 3
    assert epochs(topics, "crm.shop.item") == [1, 1, 2]
    assert defined(topics) == OF_EPOCHS


@pytest.fixture
def topics(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Topics:
    return Topics(tmp_path, capsys, {"feed": SETTINGS}, EXCLUDED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "how"),
    [
        ("same server", "in this process"),
        ("snapshot", "by Spark"),
        ("snapshot of another", "in this process"),
    ],
)
def test_definitions_and_the_first_row_of_a_reset_in_one_batch(
    topics: Topics, case: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "by Spark":
        take_for_large(monkeypatch)
    topics.land("feed", before())
    assert silver(topics) == 0
    topics.land("feed", [*last(), *new_tables(case), heartbeat(0, 120.5), *new_row(case)])
    assert silver(topics) == 1
    assert prices(topics) == {0: "123.45", 1: "123.45"}
    begin(topics)
    assert topics.command("rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert prices(topics) == DIGITS


@pytest.mark.slow
def test_everything_in_the_first_batch_of_all(topics: Topics) -> None:
    topics.land("feed", [*before(), *last(), *new_tables("same server"), *new_row("same server")])
    assert silver(topics) == 1
    assert prices(topics) == {0: "123.45", 1: "123.45"}
    begin(topics)
    assert topics.command("run")[0] == 0
    assert topics.status()["without_fate"] == 0
