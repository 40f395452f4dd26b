"""The parts of a status together are the number of its messages."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli.output import account_line
from framework.pipeline.message_counts import accounts

_COLUMNS = (
    "source string, topic string, `partition` int, offset bigint, ordinal int, kind string, half "
    "string, paired_with struct<offset: bigint>"
)
BASE = {"messages": 196, "changes": 136, "control_events": 29, "duplicates": 7, "quarantined": {"empty": 2}}


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"merged_halves": 22}, "0 excluded, 22 halves merged into the changes of their other halves"),
        ({"merged_halves": 20, "key_change_halves": 2}, "of their other halves, 2 halves of key changes"),
        ({"without_fate": 22}, "0 excluded, 22 without an outcome yet"),
        (
            {"without_fate": 25, "further_rows": 3},
            "25 without an outcome yet; less 3 further rows of messages that hold several",
        ),
        ({"merged_halves": 0}, "2 quarantined, 0 halves waiting, 0 excluded"),
    ],
)
def test_the_line_names_every_part_of_the_messages(more: dict[str, Any], end: str) -> None:
    line = account_line({**BASE, **more})
    assert line.startswith(
        "196 messages: 136 changes, 29 control events, 7 duplicates, 2 quarantined, 0 halves waiting, "
    )
    assert line.endswith(end)


def test_halves_of_key_changes_and_further_rows_are_counted_by_source(spark: SparkSession) -> None:
    rows: list[tuple[Any, ...]] = [
        ("crm", "t", 0, 1, 0, "half", None, None),  # the delete half of a key change
        ("crm", "t", 0, 2, 0, "row", None, None),
        ("crm", "t", 0, 3, 0, "row", None, None),
        ("crm", "t", 0, 3, 1, "row", None, None),
        ("crm", "t", 0, 3, 2, "duplicate", None, None),
        ("crm", "t", 0, 4, 1, "quarantined", None, None),
        ("dh", "t", 0, 1, 0, "half", "before", None),  # waits, or has met its partner
        ("dh", "t", 0, 2, 0, "row", None, (1,)),
        ("dh", "t", 0, 3, 0, "row", "after", None),  # released before its partner came
        ("dh", "t", 0, 3, 0, "row", None, (4,)),  # and written again when it did
        ("dh", "t", 0, 5, 0, "row", "after", None),  # released, and its partner never came
    ]
    found = {
        row["source"]: (row["key_halves"], row["further"])
        for row in accounts(spark.createDataFrame(rows, _COLUMNS)).collect()
    }
    assert found == {"crm": (1, 2), "dh": (0, 1)}
