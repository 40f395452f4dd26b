"""Which of several messages with the same coordinates a change was decoded from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from framework.contracts.epochs import EpochRow
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGES
from framework.text.times import micros_of
from gold.operations.source_messages import landed_messages, landings, without_content

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = ("shop.item", 0, 6)
SECOND = EpochRow(
    "feed",
    2,
    "begun",
    "shop.item",
    0,
    0,
    landed_at=micros_of(NOW + timedelta(hours=1)),
    file="2",
    line=1,
    first_offset=0,
    first_time=micros_of(NOW - timedelta(hours=1)),
    earlier_time=micros_of(NOW - timedelta(hours=5)),
    earlier_offset=2,
)
"""The topic was created again: its messages landed an hour later, and were sent four hours later."""
BEGUN = (EpochRow("feed", 1, "begun"), SECOND)


def landed(hour: int, value: str, *, sent: int, is_erased: bool = False) -> dict[str, Any]:
    """A message at AT that landed so many hours later than NOW, and was sent so many hours before NOW."""
    return {
        **{"source": "feed", "topic": AT[0], "partition": AT[1], "offset": AT[2], "file": f"{hour + 1}"},
        **{"timestamp": NOW - timedelta(hours=sent), "key": None, "line": 7},
        "value": None if is_erased else value.encode(),
        "headers": [{"key": FORGOTTEN, "value": None}] if is_erased else None,
        "ingested_at": NOW + timedelta(hours=hour),
    }


class _Tables:
    """A reader of these messages, of outcomes of these epochs at AT, and of `ops/epochs`."""

    def __init__(
        self, messages: list[dict[str, Any]], epochs: tuple[int, ...], recorded: tuple[EpochRow, ...]
    ) -> None:
        place = {"source": "feed", "topic": AT[0], "partition": AT[1], "offset": AT[2]}
        names = EpochRow.__slots__
        self.tables = {
            MESSAGES_TABLE: messages,
            CHANGES_TABLE: [{**place, "epoch": epoch, "paired_with": None} for epoch in epochs],
        }
        self.recorded = [
            {**{name: getattr(row, name) for name in names}, "recorded_at": NOW} for row in recorded
        ]

    def rows(self, query: Any, **_: Any) -> list[dict[str, Any]]:
        return self.tables.get(query.table, self.recorded)


def values(tables: _Tables) -> dict[int, list[bytes | None]]:
    reader: Any = tables
    found = landed_messages(reader, "feed", [AT])
    return {epoch: [row["value"] for row in rows] for (_, epoch), rows in found.items()}


def test_a_message_that_nobody_has_read_belongs_to_no_change() -> None:
    """The topic was created again, and the source has stopped before its first message."""
    old, again = landed(0, "old", sent=6), landed(2, "old", sent=6)
    new = landed(1, "new", sent=1)
    assert values(_Tables([new, old], (1,), ())) == {1: [b"old"]}
    assert values(_Tables([again, new, old], (1,), ())) == {1: [b"old", b"old"]}
    third = landed(3, "third", sent=0)
    assert values(_Tables([old, new, third], (1, 2), BEGUN)) == {1: [b"old"], 2: [b"new"]}


def test_a_late_dump_of_the_former_topic_is_of_the_former_epoch() -> None:
    """Its message lands behind that of the newer topic; of an epoch without one nothing is taken."""
    new, late = landed(1, "new", sent=1), landed(2, "late", sent=6)
    assert values(_Tables([new, late], (1, 2), BEGUN)) == {1: [b"late"], 2: [b"new"]}
    assert values(_Tables([new], (1,), BEGUN)) == {}


def test_a_message_that_was_emptied_is_known_by_its_time() -> None:
    erased, again = landed(0, "", sent=6, is_erased=True), landed(2, "old", sent=6)
    assert values(_Tables([erased, landed(1, "new", sent=1), again], (1,), ())) == {1: [None, b"old"]}


def test_a_message_that_was_emptied_and_has_no_time_is_known_by_its_epoch() -> None:
    erased, again, new = (
        {**landed(hour, text, sent=0, is_erased=not text), "timestamp": None}
        for hour, text in ((0, ""), (0, "old"), (1, "new"))
    )
    assert values(_Tables([erased, again], (1,), ())) == {1: [None, b"old"]}
    assert values(_Tables([erased, again, new], (1, 2), BEGUN)) == {1: [None, b"old"], 2: [b"new"]}


def test_forget_takes_the_landings_that_trace_shows(spark: SparkSession) -> None:
    rows = [landed(1, "new", sent=1), landed(2, "late", sent=6)]
    messages = spark.createDataFrame([tuple(row.get(n) for n in MESSAGES.names) for row in rows], MESSAGES)
    outcomes = [
        dict(zip(("source", "topic", "partition", "offset", "epoch"), ("feed", *AT, epoch), strict=True))
        for epoch in (1, 2)
    ]
    changes = spark.createDataFrame([tuple(row.get(n) for n in CHANGES.names) for row in outcomes], CHANGES)
    found = landings(without_content(messages), changes, "feed", [AT], BEGUN)
    assert {epoch: [row["file"] for row in rows] for (_, epoch), rows in found.items()} == {
        1: ["3"],
        2: ["2"],
    }
