from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.config.json_schema import json_schema
from framework.config.model import load_config
from framework.contracts.events import Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.errors import ConfigurationError
from silver.batches.encodings import Encodings, retried_row, waiting_row
from silver.changes.decode import SourcePlan
from silver.decoding.cells import NumberText
from silver.decoding.encoding_modes import ModeState, evidence_of, evidence_text, kind_of_fault, state_of
from silver.decoding.format import ColumnHint, Context
from silver.envelopes.connect.column_types import Field, value_of
from silver.envelopes.debezium.declared_schema import declared_fields
from silver.envelopes.debezium.encoding_modes import (
    KINDS,
    OPEN_BYTES,
    OPEN_DECIMAL,
    OPEN_TIME,
    OPEN_WALL,
    resolve_modes,
)
from silver.formats.debezium import FORMAT, DebeziumOptions

NUMBERS = "adaptive,adaptive_time_microseconds,connect,microseconds,nanoseconds"
MILLISECONDS = "adaptive,adaptive_time_microseconds,connect"
TABLE = ("shop", None, "orders")
MAX = (1 << 63) - 1


def field(name: str, digits: int | None = None) -> Field:
    if name == OPEN_DECIMAL:
        return Field(name=name, parameters={"connect.decimal.precision": "20", "scale": "0"})
    return Field(name=name, parameters={} if digits is None else {"digits": str(digits)})


def evidence(given: Field, cell: Any) -> str:
    """What one value shows; empty where it shows nothing."""
    try:
        found = resolve_modes({"c": given}, ({"c": cell},), {}, TABLE).evidence
    except Malformed as error:
        found = error.evidence
    assert len(found) < 2
    return found[0].partition("=")[2] if found else ""


@pytest.mark.parametrize(
    ("given", "cell", "modes"),
    [
        (field(OPEN_DECIMAL), "1234", "base64,text"),
        (field(OPEN_DECIMAL), "18446744073709551616", "base64,text"),
        (field(OPEN_DECIMAL), "1E+3", "base64,text"),
        (field(OPEN_DECIMAL), "Infinity", "base64,text"),
        (field(OPEN_DECIMAL), "12345", "text"),
        (field(OPEN_DECIMAL), "12.4", "text"),
        (field(OPEN_DECIMAL), "-123", "text"),
        (field(OPEN_DECIMAL), "NaN", "text"),
        (field(OPEN_DECIMAL), "BNI=", "base64"),
        (field(OPEN_DECIMAL), "+y4=", "base64"),
        (field(OPEN_DECIMAL), "AAAA", "base64"),
        (field(OPEN_DECIMAL), "BNJ=", ""),
        (field(OPEN_DECIMAL), "n/a", ""),
        (field(OPEN_DECIMAL), "", ""),
        (field(OPEN_DECIMAL), 1234, ""),
        (field(OPEN_DECIMAL), NumberText("1.5"), ""),
        (field(OPEN_DECIMAL), None, ""),
        (field(OPEN_BYTES), "00ff1234", "base64,base64url,hex"),
        (field(OPEN_BYTES), "fbefbe", "hex"),
        (field(OPEN_BYTES), "FBEFBE", "hex"),
        (field(OPEN_BYTES), "abcg", "base64,base64url"),
        (field(OPEN_BYTES), "AP8SNA==", "base64,base64url"),
        (field(OPEN_BYTES), "++++", "base64"),
        (field(OPEN_BYTES), "_-_-", "base64url"),
        (field(OPEN_BYTES), "abc", ""),
        (field(OPEN_BYTES), "", ""),
        (field(OPEN_WALL, 0), 1709200801000, MILLISECONDS),
        (field(OPEN_WALL, 0), 1709200801000000, "microseconds"),
        (field(OPEN_WALL, 0), 1709200801000000000, "nanoseconds"),
        (field(OPEN_WALL, 0), 0, NUMBERS),
        (field(OPEN_WALL, 0), 1000000000, NUMBERS),
        (field(OPEN_WALL, 3), 1709200800123, MILLISECONDS),
        (field(OPEN_WALL, 6), 1709200800123, "adaptive,adaptive_time_microseconds,connect,microseconds"),
        (field(OPEN_WALL, 6), 1709200800123456, "adaptive,adaptive_time_microseconds,microseconds"),
        (field(OPEN_WALL, 0), -(1 << 63) + 86399 * 10**9 - 1, "nanoseconds"),
        (field(OPEN_WALL, 0), MAX, "nanoseconds"),
        (field(OPEN_WALL, 6), "2024-02-29T10:00:00Z", ""),
        (field(OPEN_WALL), 1709200800123, ""),
        (field(OPEN_TIME, 0), 36001000000, "adaptive,adaptive_time_microseconds,microseconds"),
        (field(OPEN_TIME, 0), 36000000, "adaptive,adaptive_time_microseconds,connect,microseconds"),
        (field(OPEN_TIME, 0), 36001000000000, "nanoseconds"),
        (field(OPEN_TIME, 0), "10:00:00Z", ""),
    ],
)
def test_a_value_shows_what_cannot_be_otherwise(given: Field, cell: Any, modes: str) -> None:
    assert evidence(given, cell) == modes


@pytest.mark.parametrize(
    ("given", "cell", "mode", "text"),
    [
        (field(OPEN_DECIMAL), "1234", "base64", "-2658824"),
        (field(OPEN_DECIMAL), "1234", "text", "1234"),
        (field(OPEN_DECIMAL), 1234, "number", "1234"),
        (field(OPEN_BYTES), "00ff1234", "hex", "AP8SNA=="),
        (field(OPEN_BYTES), "00ff1234", "base64", "00ff1234"),
        (field(OPEN_WALL, 6), 1709200800123, "connect", "2024-02-29T10:00:00.123"),
        (field(OPEN_WALL, 6), 1709200800123, "microseconds", "1970-01-20T18:46:40.800123"),
        (field(OPEN_WALL), 1577836800000000, "nanoseconds", "1970-01-19T06:17:16.800000000"),
        (field(OPEN_WALL), 1577836800000000, "adaptive", "2020-01-01T00:00:00.000000"),
        (field(OPEN_WALL), 86400000, "microseconds", "1970-01-01T00:01:26.400000"),
        (field(OPEN_WALL), "2024-02-29T10:00:00Z", "isostring", "2024-02-29T10:00:00"),
        (field(OPEN_TIME, 0), 36000000, "connect", "10:00:00"),
        (field(OPEN_TIME, 0), 36000000000, "adaptive_time_microseconds", "10:00:00"),
    ],
)
def test_an_ambiguous_value_is_read_in_the_mode_that_is_known(
    given: Field, cell: Any, mode: str, text: str
) -> None:
    kind = next(
        kind
        for kind, modes in KINDS.items()
        if mode in modes and (kind != "decimals" or given.name == OPEN_DECIMAL)
    )
    found = resolve_modes({"c": given}, ({"c": cell},), {kind: ModeState(frozenset({mode}))}, TABLE)
    token = Token.TEXT if isinstance(cell, str) else Token.NUMBER
    assert value_of(found.fields["c"], token, str(cell)) == text


@pytest.mark.parametrize(
    ("setting", "seen", "left"),
    [
        (None, [], "base64,number,text"),
        (None, ["base64,text"], "base64,text"),
        (None, ["base64,text", "text"], "text"),
        (None, ["base64", "text"], ""),
        ("text", [], "text"),
        ("text", ["base64,text"], "text"),
        ("text", ["base64"], ""),
        ("number", ["base64,text"], ""),
        ("text", ["base64", "text"], "text"),
        ("number", ["base64", "text"], ""),
    ],
)
def test_settings_and_values_together_leave_modes_open(
    setting: str | None, seen: list[str], left: str
) -> None:
    found = state_of(KINDS["decimals"], setting, [frozenset(text.split(",")) for text in seen])
    assert ",".join(sorted(found.left)) == left


def test_a_value_that_says_no_more_than_those_before_it_is_no_news() -> None:
    state = state_of(KINDS["decimals"], None, [frozenset({"text"})])
    assert not state.is_news(frozenset({"base64", "text"}))
    assert state.is_news(frozenset({"base64"}))
    assert evidence_of(evidence_text("decimals", frozenset({"text", "base64"}))) == (
        "decimals",
        frozenset({"base64", "text"}),
    )


STRUCTURE = (("id", "INT"), ("amount", "DECIMAL(20)"), ("raw", "BLOB"), ("wall", "DATETIME(6)"))


def decoded(
    after: dict[str, Any] | None, *, before: Any = None, key: bytes | None = None, op: str = "c", **modes: str
) -> RowChange:
    source = {
        "connector": "mariadb",
        "db": "shop",
        "table": "orders",
        "file": "bin.3",
        "pos": 4,
        "row": 0,
        "ts_ms": 1709200800000,
    }
    value = {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}
    states = {kind: ModeState(frozenset({mode})) for kind, mode in modes.items()}
    context = Context(
        "feed", DebeziumOptions(), "UTC", lambda *_: None, definition_at=lambda *_: STRUCTURE, modes=states
    )
    (found,) = FORMAT.decode(RawMessage("feed", "crm", 0, 0, None, key, json.dumps(value).encode()), context)
    assert isinstance(found, RowChange)
    return found


def test_the_values_of_one_row_settle_each_other() -> None:
    found = decoded({"id": 1, "amount": "1234"}, before={"id": 1, "amount": "-5"}, op="u")
    assert (found.before, found.after) == ({"id": "1", "amount": "-5"}, {"id": "1", "amount": "1234"})
    assert set(found.evidence) == {"decimals=text", "decimals=base64,text"}


@pytest.mark.parametrize(
    ("before", "after", "modes", "reason"),
    [
        (None, {"amount": "1234"}, {}, Reason.ENCODING_UNKNOWN),
        (None, {"amount": "-5"}, {"decimals": "base64"}, Reason.ENCODING_CONTRADICTED),
        ({"amount": "-5"}, {"amount": "BNI="}, {}, Reason.ENCODING_CONTRADICTED),
        (None, {"wall": 1}, {"times": "isostring"}, Reason.ENCODING_CONTRADICTED),
        (None, {"raw": "00ff1234"}, {}, Reason.ENCODING_UNKNOWN),
    ],
)
def test_a_row_that_no_mode_or_more_than_one_reads_is_refused_with_the_setting_to_write(
    before: Any, after: dict[str, Any], modes: dict[str, str], reason: Reason
) -> None:
    with pytest.raises(Malformed) as caught:
        decoded(after, before=before, op="u", **modes)
    assert caught.value.reason is reason
    assert "write `" in caught.value.detail
    assert kind_of_fault(caught.value.detail) in KINDS
    assert caught.value.table == ("shop", None, "orders")


def test_values_that_need_no_mode_pass_while_none_is_known() -> None:
    assert decoded({"amount": None, "raw": "", "wall": 0}).after == {
        "amount": None,
        "raw": "",
        "wall": "1970-01-01T00:00:00.000",
    }
    assert decoded({"amount": 7, "wall": "2024-02-29T10:00:00Z"}).after == {
        "amount": "7",
        "wall": "2024-02-29T10:00:00",
    }


def test_the_key_alone_of_a_delete_is_read_as_the_row_is() -> None:
    found = decoded(None, op="d", key=b'{"amount": "1234"}', decimals="text")
    assert (found.op, found.before) == (Op.DELETE, {"amount": "1234"})
    assert decoded(None, op="d", key=b'{"amount": "1234"}', decimals="base64").before == {
        "amount": "-2658824"
    }


def test_the_key_alone_of_a_tombstone_is_read_as_the_row_is() -> None:
    given = {"id": ColumnHint("decimal(20,0)", unsigned=True), "amount": ColumnHint("decimal(20,0)")}
    context = Context(
        "feed",
        DebeziumOptions(flattened=True, tombstones="delete"),
        "UTC",
        lambda *_: None,
        hints_for=lambda *_: given,
        modes={"decimals": ModeState(frozenset({"base64"}))},
    )
    (found,) = FORMAT.decode(
        RawMessage("feed", "crm.shop.orders", 0, 4, 7, b'{"id":-1,"amount":"BNI="}', None), context
    )
    assert isinstance(found, RowChange)
    assert (found.op, found.before, found.event_time) == (
        Op.DELETE,
        {"id": "18446744073709551615", "amount": "1234"},
        7,
    )


def test_types_that_mean_something_else_in_other_databases_are_left_to_the_values() -> None:
    columns = (
        ("at", "datetime(23,3)"),
        ("v", "timestamp"),
        ("b", "bit"),
        ("n", "decimal(12,2)"),
        ("d", "date"),
    )
    assert set(declared_fields(columns, is_mysql=False)) == {"n", "d"}
    assert set(declared_fields(columns)) == {"at", "v", "b", "n", "d"}


def test_a_date_of_oracle_has_a_time_and_its_float_is_a_number() -> None:
    columns = (("d", "DATE"), ("f", "FLOAT(126)"), ("v", "VARCHAR2(20)"), ("c", "CHAR(3)"))
    found = declared_fields(columns, is_mysql=False, is_oracle=True)
    assert {name: field.name for name, field in found.items()} == {
        "d": "io.debezium.time.Timestamp",
        "c": None,
    }


def test_what_waits_is_due_when_other_modes_are_known() -> None:
    context = Context("feed", DebeziumOptions(), "UTC", lambda *_: None)
    plan = SourcePlan(FORMAT, context, 1, lambda *_: False, 100)
    first = Encodings((waiting_row(plan, Encodings(), 1000),))
    assert (first.waits(plan), first.is_due(plan)) == (True, False)
    shown = Encodings((*first.rows, *first.news({"feed": ["decimals=text"]}, 2000)))
    assert shown.is_due(plan)
    assert shown.news({"feed": ["decimals=text"]}, 3000) == []
    read = Encodings((*shown.rows, retried_row(plan, shown, 2001)))
    assert (read.waits(plan), read.is_due(plan)) == (False, False)
    some = Encodings((*shown.rows, waiting_row(plan, shown, 2001), retried_row(plan, shown, 2001)))
    assert (some.waits(plan), some.is_due(plan)) == (True, False)


def test_what_is_known_of_many_sources_is_not_read_once_more_for_each_of_them() -> None:
    """For each source, each batch went through the rows of all sources, once for each kind of values."""
    context = Context("feed", DebeziumOptions(), "UTC", lambda *_: None)
    plan = SourcePlan(FORMAT, context, 1, lambda *_: False, 100)
    plans = [replace(plan, context=replace(context, source=f"feed_{n}")) for n in range(6_000)]
    shown = {plan.context.source: ["decimals=text"] for plan in plans}
    begun = time.process_time()
    known = Encodings(tuple(Encodings().news(shown, 1000)))
    assert not any(known.is_due(plan) for plan in plans)
    assert {known.open_modes(plan) for plan in plans} == {known.open_modes(plans[0])}
    assert known.news(shown, 2000) == []
    assert time.process_time() - begun < 4


@pytest.mark.parametrize("kind", list(KINDS))
def test_each_mode_is_a_value_of_the_setting_of_its_name(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    head = (
        "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  crm:\n    format: debezium\n    files: "
        "./landing\n"
    )
    schema = json_schema({"debezium": DebeziumOptions})
    for mode in KINDS[kind]:
        file.write_text(f"{head}    {kind}: {mode}\n")
        options = load_config(file, formats={"debezium": DebeziumOptions}).sources["crm"].options
        assert getattr(options, kind) == mode
        assert f'"{mode}"' in json.dumps(schema)
    file.write_text(f"{head}    {kind}: precise\n")
    with pytest.raises(ConfigurationError) as caught:
        load_config(file, formats={"debezium": DebeziumOptions})
    assert all(mode in str(caught.value) for mode in ("precise", KINDS[kind][0]))
