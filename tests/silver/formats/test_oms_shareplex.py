from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from framework.contracts.events import Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import ColumnHint, Context, Options
from silver.formats.oms_shareplex import FORMAT


def context(keys: tuple[str, ...] | None = ("id",)) -> Context:
    return Context("feed", Options(), "Asia/Shanghai", lambda database, schema, table: keys)


def decode(
    op: str,
    data: str,
    key: str = "null",
    *,
    keys: tuple[str, ...] | None = ("id",),
    by_partition: bool = False,
    hints: Mapping[str, ColumnHint] | None = None,
    **meta: Any,
) -> RowChange:
    fields = {
        "op": op,
        "table": "shop.orders",
        "time": "2020-11-25T00:01:02",
        "scn": "160934467100001",
        "seq": 1,
        "trans": "tx-1",
        **meta,
    }
    value = f'{{"data": {data}, "meta": {json.dumps(fields)}, "key": {key}}}'
    (event,) = FORMAT.decode(
        RawMessage("feed", "orders", 0, 0, None, None, value.encode()),
        replace(context(keys), needs_no_position=by_partition, hints_for=lambda *_: hints or {}),
    )
    assert isinstance(event, RowChange)
    return event


def test_update_overlays_the_row_before_with_the_changed_columns() -> None:
    row = decode("upd", '{"name": null}', '{"id": 1, "name": "Ann", "price": 1.10}')
    assert row.before == {"id": "1", "name": "Ann", "price": "1.10"}
    assert row.after == {"id": "1", "name": None, "price": "1.10"}
    assert not row.partial


def test_changed_key_is_one_update() -> None:
    row = decode("upd", '{"id": 2}', '{"id": 1, "name": "Ann"}')
    assert (row.op, row.before, row.after) == (
        Op.UPDATE,
        {"id": "1", "name": "Ann"},
        {"id": "2", "name": "Ann"},
    )


def test_update_that_changed_nothing_is_still_an_update() -> None:
    row = decode("upd", "{}", '{"id": 1}')
    assert row.before == row.after == {"id": "1"}


def test_update_without_the_row_before_is_partial() -> None:
    row = decode("upd", '{"id": 1, "name": "Bob"}')
    assert (row.before, row.after, row.partial) == (None, {"id": "1", "name": "Bob"}, True)


def test_update_with_no_more_than_the_key_before_is_partial() -> None:
    row = decode("upd", '{"name": "Ann"}', '{"id": 1}')
    assert (row.before, row.after, row.partial) == ({"id": "1"}, {"id": "1", "name": "Ann"}, True)
    moved = decode("upd", '{"id": 2}', '{"id": 1}')
    assert (moved.before, moved.after, moved.partial) == ({"id": "1"}, {"id": "2"}, True)
    assert not decode("upd", '{"name": "Ann"}', '{"id": 1, "name": null}').partial


def test_table_without_configured_keys_is_append_only() -> None:
    assert decode("ins", '{"id": 1}', keys=None).keys is None


def test_delete_has_only_a_before_image() -> None:
    row = decode("del", '{"id": 1}')
    assert (row.op, row.before, row.after) == (Op.DELETE, {"id": "1"}, None)


def test_positions_are_numbers_and_a_missing_seq_is_zero() -> None:
    assert decode("ins", '{"id": 1}', scn="16093446710", seq="2").position == (16093446710, 2)
    assert decode("ins", '{"id": 1}', seq=None).position == (160934467100001, 0)


def test_time_is_a_wall_time_of_the_source() -> None:
    assert decode("ins", '{"id": 1}').event_time == 1606233662000000


def test_a_table_name_may_hold_dots() -> None:
    row = decode("ins", '{"id": 1}', table="shop.a.b")
    assert (row.database, row.table) == ("shop", "a.b")


@pytest.mark.parametrize(
    ("op", "data", "meta", "reason"),
    [
        ("UPD", '{"id": 1}', {}, Reason.UNKNOWN_OP),
        ("ins", "null", {}, Reason.MISSING_IMAGE),
        ("ins", "{}", {}, Reason.MISSING_IMAGE),
        ("ins", '{"id": 1}', {"scn": None}, Reason.MISSING_POSITION),
        ("ins", '{"id": 1}', {"scn": "x"}, Reason.BAD_POSITION),
        ("ins", '{"id": 1}', {"time": "soon"}, Reason.BAD_POSITION),
        ("ins", '{"id": 1}', {"table": ""}, Reason.MISSING_TABLE),
        ("ins", '{"name": "Ann"}', {}, Reason.KEY_NOT_IN_IMAGE),
    ],
)
def test_poison_has_a_reason(op: str, data: str, meta: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(Malformed) as caught:
        decode(op, data, **meta)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    "rowid", ["shop.orders-1\x01007", "shop.orders-1/u0001007", "shop.orders-1\\u0001007"]
)
def test_a_row_id_of_more_values_than_configured_columns_is_refused(rowid: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode("ins", '{"id": 1, "line": "007"}', rowid=rowid)
    assert caught.value.reason is Reason.KEY_NOT_IN_IMAGE
    assert decode("ins", '{"id": 1, "line": "007"}', rowid=rowid, keys=("id", "line")).keys == ("id", "line")
    assert decode("ins", '{"id": 1, "line": "007"}', rowid=rowid, keys=None).keys is None


def test_a_row_id_that_has_lost_its_separator_is_read() -> None:
    assert decode("ins", '{"id": 1, "line": "007"}', rowid="shop.orders-1007", keys=("id", "line")).keys == (
        "id",
        "line",
    )


ROW = """{"id": 1, "line": "007", "customer": 5, "code": "A b",
 "price": 1.5, "at": "2020-11-25 00:01:02", "raw": "AA=="}"""


@pytest.mark.parametrize(
    ("rowid", "keys"),
    [
        ("1", ("customer",)),
        ("1", ("code",)),
        ("B", ("code",)),
        ("1\x01007", ("customer", "line")),
        ("1\x01007", ("id", "customer")),
        ("1\x01007", ("customer", "price")),
        ("1007", ("customer", "line")),
        ("1007", ("id", "customer")),
    ],
)
def test_a_key_with_other_values_than_the_row_id_is_refused(rowid: str, keys: tuple[str, ...]) -> None:
    for op in ("ins", "del"):
        with pytest.raises(Malformed, match="other values") as caught:
            decode(op, ROW, rowid=f"shop.orders-{rowid}", keys=keys)
        assert caught.value.reason is Reason.KEY_NOT_IN_IMAGE


@pytest.mark.parametrize(
    ("rowid", "keys"),
    [
        ("1", ("id",)),
        ("0001", ("id",)),
        ("A b", ("code",)),
        ("A b  ", ("code",)),
        ("007\x011", ("id", "line")),
        ("007/u00011", ("id", "line")),
        ("0071", ("id", "line")),
        ("1", ("id", "customer")),
        ("1.00", ("id",)),
        ("1E+0", ("id",)),
        ("0x01", ("id",)),
        ("1.50", ("price",)),
        ("2020-11-25T00:01:02", ("at",)),
        ("1606233662", ("at",)),
        ("\x00", ("raw",)),
        ("1\x011.50", ("id", "price")),
    ],
)
def test_a_key_whose_values_the_row_id_may_have_is_taken(rowid: str, keys: tuple[str, ...]) -> None:
    assert decode("ins", ROW, rowid=f"shop.orders-{rowid}", keys=keys).keys == keys


@pytest.mark.parametrize("text", ["a\x01b", "a/u0001b", "\x01", "a\x01\x01b"])
def test_a_value_of_the_key_may_hold_the_separator(text: str) -> None:
    row = json.dumps({"id": 7, "line": text, "note": "x"})
    assert decode("ins", row, rowid=f"shop.orders-{text}", keys=("line",)).keys == ("line",)
    for keys in (("id", "line"), ("line", "id")):
        assert decode("ins", row, rowid=f"shop.orders-7\x01{text}", keys=keys).keys == keys
    assert decode("upd", '{"note": "y"}', row, rowid=f"shop.orders-{text}", keys=("line",)).keys == ("line",)
    assert decode("upd", '{"line": "z"}', row, rowid=f"shop.orders-{text}", keys=("line",)).keys == ("line",)
    for keys in (("id",), ("line", "note"), ("id", "line", "note")):
        with pytest.raises(Malformed):
            decode("ins", row, rowid=f"shop.orders-7\x01{text}", keys=keys)


def test_a_key_that_is_not_compared_whole_is_read_where_a_value_holds_the_separator() -> None:
    row = json.dumps({"line": "a\x01b", "price": 1.5})
    keys = ("line", "price")
    assert decode("ins", row, rowid="shop.orders-ab15000", keys=keys).keys == keys


@pytest.mark.parametrize("rowid", ["AAATGpAAIAAItcIAAA", "orders-7", "", None])
def test_a_row_id_of_another_kind_says_nothing_of_the_key(rowid: str | None) -> None:
    assert decode("ins", ROW, rowid=rowid).keys == ("id",)


def test_after_a_change_of_the_key_the_row_id_has_one_of_its_values() -> None:
    for rowid in ("shop.orders-1", "shop.orders-2"):
        assert decode("upd", '{"id": 2}', ROW, rowid=rowid).keys == ("id",)
    with pytest.raises(Malformed, match="other values"):
        decode("upd", '{"id": 2}', ROW, rowid="shop.orders-3")
    for before in ("null", '{"line": "007"}'):
        assert decode("upd", '{"id": 2}', before, rowid="shop.orders-1").keys == ("id",)


def test_columns_that_are_configured_as_bytes_or_times_are_not_compared() -> None:
    for hint in (ColumnHint(type="binary"), ColumnHint(type="timestamp"), ColumnHint(type="double")):
        assert decode("ins", ROW, rowid="shop.orders-x", keys=("customer",), hints={"customer": hint}).keys
    with pytest.raises(Malformed, match="other values"):
        decode(
            "ins", ROW, rowid="shop.orders-x", keys=("customer",), hints={"customer": ColumnHint("bigint")}
        )


@pytest.mark.parametrize("scn", [None, "160934467100001"])
def test_rows_with_and_without_scn_are_ordered_by_their_partition_where_the_source_says_so(
    scn: str | None,
) -> None:
    row = decode("ins", '{"id": 1}', by_partition=True, scn=scn, seq=3)
    expected = (160934467100001, 3) if scn else (160623366200000, 0)
    assert (row.position, row.is_time, row.earliest) == (expected, True, expected if scn else None)
    assert row.event_time == 1606233662000000


def test_without_scn_the_refusal_names_the_setting() -> None:
    with pytest.raises(Malformed, match="order: partition") as caught:
        decode("ins", '{"id": 1}', scn=None)
    assert caught.value.reason is Reason.MISSING_POSITION
