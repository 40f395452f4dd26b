"""The parts of a status together are the number of its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from framework.cli.output import account_line
from framework.contracts.table_names import CHANGES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalReader
from framework.pipeline.message_counts import accounts

_COLUMNS = ("source", "topic", "partition", "offset", "ordinal", "kind", "half", "paired_with")
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


def test_halves_of_key_changes_and_further_rows_are_counted_by_source(tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [
        ("crm", "t", 0, 1, 0, "half", None, None),  # the delete half of a key change
        ("crm", "t", 0, 2, 0, "row", None, None),
        ("crm", "t", 0, 3, 0, "row", None, None),
        ("crm", "t", 0, 3, 1, "row", None, None),
        ("crm", "t", 0, 3, 2, "duplicate", None, None),
        ("crm", "t", 0, 4, 1, "quarantined", None, None),
        ("dh", "t", 0, 1, 0, "half", "before", None),  # waits, or has met its partner
        ("dh", "t", 0, 2, 0, "row", None, {"offset": 1}),
        ("dh", "t", 0, 3, 0, "row", "after", None),  # released before its partner came
        ("dh", "t", 0, 3, 0, "row", None, {"offset": 4}),  # and written again when it did
        ("dh", "t", 0, 5, 0, "row", "after", None),  # released, and its partner never came
    ]
    lake = Lakehouse(str(tmp_path))
    columns = zip(_COLUMNS, zip(*rows, strict=True), strict=True)
    write_deltalake(lake.location(CHANGES_TABLE), pa.table({name: list(values) for name, values in columns}))
    found = {each.source: (each.key_halves, each.further) for each in accounts(LocalReader(lake))}
    assert found == {"crm": (1, 2), "dh": (0, 1)}
