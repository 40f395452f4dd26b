"""MongoDB's extended JSON in Debezium messages: wrapped values become typed columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from framework.contracts.events import Column, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context
from silver.formats.debezium import FORMAT, DebeziumOptions

SOURCE = {"connector": "mongodb", "db": "shop", "collection": "item", "ts_ms": 1709200800000, "ord": 3}
CONTEXT = Context("feed", DebeziumOptions(), "UTC", lambda *_: None)
INSTANT, BYTES = "timestamp", "binary"
UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"


def row(op: str = "c", *, key: str | None = '{"$oid": "65e0"}', **members: Any) -> RowChange:
    value = {"op": op, "source": SOURCE, "ts_ms": 1709200800100, "before": None, "after": None, **members}
    raw_key = None if key is None else json.dumps({"id": key}).encode()
    (found,) = FORMAT.decode(
        RawMessage("feed", "crm.shop.item", 0, 40, None, raw_key, json.dumps(value).encode()), CONTEXT
    )
    assert isinstance(found, RowChange)
    return found


VALUES: list[tuple[str, str | None, str | None, str | None]] = [
    ('{"$date": 1709200800123}', INSTANT, None, "2024-02-29T10:00:00.123Z"),
    ('{"$date": -1}', INSTANT, None, "1969-12-31T23:59:59.999Z"),
    ('{"$date": {"$numberLong": "1709200800123"}}', INSTANT, None, "2024-02-29T10:00:00.123Z"),
    ('{"$date": "2024-02-29T10:00:00.123Z"}', INSTANT, None, "2024-02-29T10:00:00.123Z"),
    ('{"$date": "2024-02-29T18:00:00+08:00"}', INSTANT, None, "2024-02-29T10:00:00Z"),
    ('{"$timestamp": {"t": 1709200800, "i": 3}}', INSTANT, None, "2024-02-29T10:00:00Z"),
    ('{"$binary": "AAEC", "$type": "00"}', BYTES, None, "AAEC"),
    ('{"$binary": {"base64": "AAEC", "subType": "00"}}', BYTES, None, "AAEC"),
    (f'{{"$uuid": "{UUID}"}}', None, "text", UUID),
    ('{"$oid": "65e0"}', None, "text", "65e0"),
    ('{"$numberLong": "9007199254740993"}', None, "number", "9007199254740993"),
    ('{"$numberDecimal": "12.50"}', None, "number", "12.50"),
    ('{"$numberDecimal": "1.5E+3"}', None, "number", "1500"),
    ('{"$numberDouble": "-1.5"}', None, "number", "-1.5"),
    ('{"$numberDouble": "NaN"}', "double", None, "NaN"),
    ('{"$numberDecimal": "-Infinity"}', "double", None, "-Infinity"),
    ("NaN", "double", None, "NaN"),
    ("-Infinity", "double", None, "-Infinity"),
    ('{"$undefined": true}', None, "null", None),
    ('{"city": "Bern"}', None, "json", '{"city": "Bern"}'),
    ('{"$regex": "a", "$options": "i"}', None, "json", '{"$regex": "a", "$options": "i"}'),
    ('{"$date": [1]}', None, "json", '{"$date": [1]}'),
    ('"NaN and Infinity"', None, "text", "NaN and Infinity"),
    ("1.10", None, "number", "1.10"),
]


@pytest.mark.parametrize(("wire", "kind", "token", "text"), VALUES)
def test_a_value_of_extended_json_is_a_typed_value(
    wire: str, kind: str | None, token: str | None, text: str | None
) -> None:
    for members in (
        {"after": f'{{"_id": 1, "v": {wire}}}'},
        {"updateDescription": {"updatedFields": f'{{"v": {wire}}}'}},
    ):
        found = row("u", **members)
        assert (found.after or {})["v"] == text
        column = found.columns["v"]
        assert (column.type, column.token) == (kind, None if token is None else Token(token))


@pytest.mark.parametrize(("wire", "kind", "token", "text"), VALUES)
def test_a_key_of_extended_json_is_that_of_the_document(
    wire: str, kind: str | None, token: str | None, text: str | None
) -> None:
    whole, gone = row(key=wire, after=f'{{"_id": {wire}}}'), row("d", key=wire)
    assert (whole.after, gone.before, gone.op) == ({"_id": text}, {"_id": text}, Op.DELETE)
    assert whole.columns["_id"] == gone.columns["_id"]


def test_a_number_in_a_key_keeps_its_digits() -> None:
    assert row("d", key="1.10").before == {"_id": "1.10"}
    assert row("d", key="12345678901234567890.10").columns["_id"] == Column(token=Token.NUMBER)


def test_words_of_no_number_inside_of_texts_and_names_stay() -> None:
    found = row(after='{"_id": 1, "NaN": "a \\" NaN", "tags": [NaN, "Infinity"]}')
    assert found.after == {"_id": "1", "NaN": 'a " NaN', "tags": '[{"$numberDouble":"NaN"}, "Infinity"]'}


@pytest.mark.parametrize("after", ['{"_id": 1, "v": nan}', '{"_id": 1, "v": NaNs}', "NaN"])
def test_a_document_that_is_none_is_refused(after: str) -> None:
    with pytest.raises(Malformed) as caught:
        row(after=after)
    assert caught.value.reason in (Reason.NOT_JSON, Reason.WRONG_SHAPE)


@pytest.mark.parametrize("snapshot", ["true", "last", "incremental"])
@pytest.mark.parametrize("is_in_partitions_order", [False, True])
def test_a_document_of_a_snapshot_may_have_no_place_in_the_stream(
    snapshot: str, is_in_partitions_order: bool
) -> None:
    source = {**SOURCE, "version": "3.3.1.Final", "snapshot": snapshot, "ord": -1, "txnNumber": None}
    value = {"op": "r", "source": source, "ts_ms": 1709200800100, "before": None, "after": '{"_id": 1}'}
    message = RawMessage("feed", "crm.shop.item", 0, 40, None, b'{"id":"1"}', json.dumps(value).encode())
    (found,) = FORMAT.decode(message, replace(CONTEXT, needs_no_position=is_in_partitions_order))
    assert isinstance(found, RowChange)
    assert (found.op, found.position, found.is_time, found.after) == (Op.READ, None, False, {"_id": "1"})


def flattened(**metadata: Any) -> RawMessage:
    value = {"_id": "1", "__db": "shop", "__collection": "item", "__source_ts_ms": 5, **metadata}
    return RawMessage("feed", "crm.shop.item", 0, 40, None, b'{"_id":"1"}', json.dumps(value).encode())


@pytest.mark.parametrize("op", [{"__op": "r"}, {}])
def test_a_flattened_document_of_a_snapshot_may_have_no_place_in_the_stream(op: dict[str, str]) -> None:
    (found,) = FORMAT.decode(flattened(__ord=-1, **op), CONTEXT)
    assert isinstance(found, RowChange)
    assert (found.op, found.position, found.event_time) == (Op.READ, None, 5000)


def test_a_flattened_change_without_a_place_is_refused() -> None:
    """Its time in microseconds would come after every other change, whose times are seconds."""
    with pytest.raises(Malformed) as caught:
        FORMAT.decode(flattened(__ord=-1, __op="u"), CONTEXT)
    assert caught.value.reason is Reason.MISSING_POSITION
