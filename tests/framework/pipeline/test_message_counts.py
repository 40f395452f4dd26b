"""The parts of a status together are the number of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from framework.cli.output import account_line
from framework.config.model import load_config
from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, MESSAGES_TABLE, QUARANTINE_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalReader
from framework.pipeline.layer import Reading
from framework.pipeline.message_counts import accounts
from silver.layer import LAYER
from silver.operations.status import status

_COLUMNS = ("source", "topic", "partition", "offset", "ordinal", "kind", "half", "paired_with")
_PLACE = ("source", "database", "schema", "table")
_COUNTED = (*_PLACE, "max_sequence", "batch", "merged", "snapshots", "kind", "rows")
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
    write(lake, CHANGES_TABLE, _COLUMNS, rows)
    found = {each.source: (each.key_halves, each.further) for each in accounts(LocalReader(lake))}
    assert found == {"crm": (1, 2), "dh": (0, 1)}


def write(lake: Lakehouse, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    arrays = [pa.array(values) for values in zip(*rows, strict=True)]
    cells = [cell.cast(pa.string()) if pa.types.is_null(cell.type) else cell for cell in arrays]
    write_deltalake(lake.location(table), pa.table(cells, list(columns)))


@pytest.mark.parametrize("unread", [0, 1])
def test_the_rows_of_a_message_that_was_refused_in_part_add_up_to_it(tmp_path: Path, unread: int) -> None:
    """A message of three rows, of which the first is a change; the others are open and dismissed.

    The number of messages is right by chance where one has no outcome yet.
    """
    lake = Lakehouse(str(tmp_path))
    at = ("crm", "t", 0, 1)
    rows = [(*at, 0, "row", None, None), *((*at, n, "quarantined", None, None) for n in (1, 2))]
    write(lake, CHANGES_TABLE, _COLUMNS, rows)
    write(lake, MESSAGES_TABLE, ("source", "offset"), [("crm", n + 1) for n in range(1 + unread)])
    refused = [("crm", 1, False, None), ("crm", 2, False, datetime(2026, 1, 1)), ("crm", 3, True, None)]
    write(
        lake,
        QUARANTINE_TABLE,
        ("source", "ordinal", "is_resolved", "dismissed_at", "reason"),
        [(*row, "rule_broken") for row in refused],
    )
    counts = [("crm", "shop", "", "t", "", 0, 0, 0, *one) for one in (("row", 1), ("quarantined", 2))]
    write(lake, BATCHES_TABLE, _COUNTED, counts)
    (tmp_path / "mainstem.yml").write_text(
        f"pipeline: p\nlakehouse: {tmp_path}\nsources:\n  crm: {{format: canal, files: ./in}}\n"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    found = status(Reading(lake, config, LocalReader(lake)))
    assert (found["further_rows"], found["without_fate"]) == (2, unread)
