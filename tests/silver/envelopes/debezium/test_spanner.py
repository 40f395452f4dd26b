"""Rows of Spanner: change streams record only some columns, and the connector writes null for the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context
from silver.formats.debezium import FORMAT, DebeziumOptions

Image = dict[str, Any]
KEY = {"id": "7", "region": None}
"""Spanner's keys may have nulls."""
COLUMNS = ("id", "region", "name", "city", "note")
SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "type": "struct",
            "field": image,
            "fields": [{"type": "string", "optional": True, "field": name} for name in COLUMNS],
        }
        for image in ("before", "after")
    ],
}


def change(
    op: str, before: Image | None, after: Image | None, recorded: str | None, *, form: str = "bare"
) -> RowChange:
    """A change as the connector writes it: with null for each column that an image does not have."""
    images = {
        name: None if image is None else {**dict.fromkeys(COLUMNS), **KEY, **image}
        for name, image in (("before", before), ("after", after))
    }
    source = {
        "connector": "spanner",
        "db": "shop",
        "table": "orders",
        "ts_us": 1709200800000000,
        "value_capture_type": recorded,
    }
    payload = {**images, "op": op, "source": source, "ts_ms": 1709200800100}
    value = {"schema": SCHEMA, "payload": payload} if form == "schema" else payload
    text = json.dumps(value)
    if form == "exact":  # an object with a member twice is read with bytes as cells
        text = text.replace('"op":', f'"op": "{op}", "op":', 1)
    message = RawMessage("feed", "crm.orders", 0, 40, None, json.dumps(KEY).encode(), text.encode())
    (found,) = FORMAT.decode(message, Context("feed", DebeziumOptions(), "UTC", lambda *_: None))
    assert isinstance(found, RowChange)
    return found


@pytest.mark.parametrize("form", ["bare", "schema", "exact"])
def test_a_column_that_an_update_does_not_record_is_unchanged(form: str) -> None:
    found = change("u", {"name": "Ann"}, {"name": "Bob"}, "OLD_AND_NEW_VALUES", form=form)
    assert (found.before, found.after) == ({**KEY, "name": "Ann"}, {**KEY, "name": "Bob"})
    assert found.partial
    assert list(found.columns) == list(COLUMNS if form == "schema" else COLUMNS[:3])


def test_a_null_that_is_a_value_is_one() -> None:
    before, after = {"name": "Ann", "city": None}, {"name": None, "city": "Bern"}
    found = change("u", before, after, "OLD_AND_NEW_VALUES")
    assert (found.before, found.after) == ({**KEY, **before}, {**KEY, **after})


@pytest.mark.parametrize("recorded", ["NEW_ROW", "NEW_ROW_AND_OLD_VALUES"])
def test_an_update_that_records_the_row_has_all_its_columns(recorded: str) -> None:
    old = {"name": "Ann"} if recorded == "NEW_ROW_AND_OLD_VALUES" else {}
    found = change("u", old, {"name": "Bob", "city": "Bern"}, recorded)
    assert found.after == {**KEY, "name": "Bob", "city": "Bern", "note": None}
    assert found.before == {**KEY, **old}
    assert not found.partial


def test_nulls_of_an_update_that_records_new_values_alone_are_refused() -> None:
    with pytest.raises(Malformed) as caught:
        change("u", {}, {"name": "Bob"}, "NEW_VALUES")
    assert caught.value.reason is Reason.MISSING_IMAGE
    assert "NEW_ROW" in caught.value.detail
    after = {"name": "Bob", "city": "Bern", "note": "x"}
    found = change("u", {}, after, "NEW_VALUES")
    assert (found.before, found.after, found.partial) == (KEY, {**KEY, **after}, False)


def test_an_update_without_an_image_before_does_not_show_what_changed() -> None:
    with pytest.raises(Malformed) as caught:
        change("u", None, {"name": "Bob"}, "OLD_AND_NEW_VALUES")
    assert caught.value.reason is Reason.MISSING_IMAGE


@pytest.mark.parametrize(
    ("recorded", "row"),
    [
        ("OLD_AND_NEW_VALUES", {**KEY, "name": "Ann", "city": None, "note": None}),
        ("NEW_ROW_AND_OLD_VALUES", {**KEY, "name": "Ann", "city": None, "note": None}),
        ("NEW_ROW", KEY),
        ("NEW_VALUES", KEY),
    ],
)
def test_a_delete_has_the_row_only_where_it_is_recorded(recorded: str, row: Image) -> None:
    before = {"name": "Ann"} if len(row) > len(KEY) else {}
    assert change("d", before, None, recorded).before == row


@pytest.mark.parametrize("recorded", ["OLD_AND_NEW_VALUES", "NEW_VALUES", "NEW_ROW", None])
def test_an_insert_has_all_its_columns(recorded: str | None) -> None:
    found = change("c", None, {"name": "Ann"}, recorded)
    assert found.after == {**KEY, "name": "Ann", "city": None, "note": None}
    assert not found.partial


def test_an_update_that_does_not_say_what_is_recorded_is_taken_as_it_is() -> None:
    found = change("u", {"name": "Ann"}, {"name": "Bob"}, None)
    assert found.after == {**KEY, "name": "Bob", "city": None, "note": None}
    assert not found.partial
