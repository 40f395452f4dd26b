from __future__ import annotations

import json
from typing import Any

from framework.contracts.events import Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from silver.decoding.format import Context
from silver.formats.ogg import FORMAT, OggOptions

HEAD = {
    "table": "SHOP.ORDERS",
    "op_ts": "2024-02-29 10:00:00.000001",
    "pos": "00000000000000000009",
    "primary_keys": ["ID"],
}


def event(zone: str = "UTC", keys: tuple[str, ...] | None = None, **members: Any) -> Event:
    context = Context("feed", OggOptions(), zone, lambda *_: keys)
    value = {name: value for name, value in {**HEAD, **members}.items() if value is not None}
    (found,) = FORMAT.decode(RawMessage("feed", "ogg", 0, 0, None, None, json.dumps(value).encode()), context)
    return found


def row(**members: Any) -> RowChange:
    found = event(**members)
    assert isinstance(found, RowChange)
    return found


def test_column_that_an_update_leaves_out_is_unchanged_and_null_is_null() -> None:
    found = row(op_type="U", before={"ID": 1, "NAME": "Ann"}, after={"ID": 1, "NAME": None})
    assert (found.after, found.partial) == ({"ID": "1", "NAME": None}, True)


def test_compressed_update_without_its_key_has_the_key_of_before() -> None:
    assert row(op_type="U", before={"ID": 1}, after={"NAME": "Ann"}).after == {"ID": "1", "NAME": "Ann"}
    assert row(
        op_type="U", before={"ID": 1}, after={"NAME": "Ann"}, primary_keys=None, keys=("ID",)
    ).after == {"ID": "1", "NAME": "Ann"}


def test_insert_is_the_whole_row() -> None:
    assert not row(op_type="I", after={"ID": 1}).partial


def test_key_change_has_the_old_key_in_before() -> None:
    found = row(op_type="U", before={"ID": 1}, after={"ID": 2})
    assert (found.before, found.after) == ({"ID": "1"}, {"ID": "2"})


def test_row_layout() -> None:
    assert row(op_type="D", ID=1, NAME="Ann").before == {"ID": "1", "NAME": "Ann"}
    assert row(op_type="U", ID=1, NAME="Ann").after == {"ID": "1", "NAME": "Ann"}


def test_trail_positions_are_numbers() -> None:
    low, high = (
        row(op_type="I", after={"ID": 1}),
        row(op_type="I", after={"ID": 1}, pos="00000000000000000010"),
    )
    assert (low.position or ()) < (high.position or ())


def test_time_is_in_the_zone_of_the_source() -> None:
    assert row(op_type="I", after={"ID": 1}, zone="Asia/Shanghai").event_time == 1709172000000001


def test_truncate() -> None:
    found = event(op_type="T")
    assert isinstance(found, Control)
    assert (found.kind, found.database, found.table) == (ControlKind.TRUNCATE, "SHOP", "ORDERS")


def test_columns_that_are_said_to_be_missing_are_none() -> None:
    found = row(
        op_type="U",
        after={"ID": 1, "A": None, "A_isMissing": True, "B": 2, "B_isMissing": False, "C_isMissing": True},
    )
    assert found.after == {"ID": "1", "B": "2", "C_isMissing": "true"}
    assert found.op is Op.UPDATE
