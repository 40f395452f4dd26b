from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.ddl_events import statement_events
from silver.decoding.cells import NeedsExactDecoding
from silver.decoding.dual_decoder import DualDecoder
from silver.decoding.format import Context, Options
from silver.formats.datahub_blob import FORMAT, column_type

CONTEXT = Context("feed", Options(), "Asia/Shanghai", lambda database, schema, table: None)
SOURCE = {"dbType": "MySQL", "dbName": "shop", "tableName": "orders"}
TYPES = {"id": "LONG", "ok": "BOOLEAN", "ratio": "DOUBLE", "name": "STRING", "at": "DATE", "photo": "BYTES"}
JOE, ANN = {"id": 1, "name": "joe"}, {"id": 1, "name": "ann"}


def message(op: str, *, before: Any = None, after: Any = None, **members: Any) -> bytes:
    """A message with these images; `members` replaces or (None) removes others."""
    schema = {
        "dataColumn": [
            {"name": name, "type": TYPES[name]}
            for name in {**(before or {}), **(after or {})}
            if name in TYPES
        ],
        "primaryKey": ["id"],
        "source": SOURCE,
    }
    payload: dict[str, Any] = {
        "op": op,
        "sequenceId": "1605339516000000004",
        "timestamp": {"eventTime": 1605339932000},
    }
    payload |= {
        side: {"dataColumn": image}
        for side, image in (("before", before), ("after", after))
        if image is not None
    }
    document = {"schema": schema, "payload": payload, "version": "1.0.0"}
    for name, value in members.items():
        place = (
            document
            if name in ("schema", "version")
            else schema
            if name in ("primaryKey", "source")
            else payload
        )
        place[name] = value
        if value is None:
            del place[name]
    return json.dumps(document).encode()


def decode(value: bytes) -> Event:
    (event,) = FORMAT.decode(RawMessage("feed", "orders", 0, 0, None, None, value), CONTEXT)
    return event


def row(value: bytes) -> RowChange:
    event = decode(value)
    assert isinstance(event, RowChange)
    return event


def control(value: bytes) -> Control:
    event = decode(value)
    assert isinstance(event, Control)
    return event


def reason(value: bytes) -> Reason:
    with pytest.raises(Malformed) as caught:
        decode(value)
    return caught.value.reason


def test_insert_is_the_whole_row_with_its_schema_and_key() -> None:
    assert row(message("INSERT", after=JOE)) == RowChange(
        op=Op.INSERT,
        database="shop",
        schema=None,
        table="orders",
        keys=("id",),
        before=None,
        after={"id": "1", "name": "joe"},
        columns={
            "id": Column(type="bigint", declared="LONG"),
            "name": Column(type="string", declared="STRING"),
        },
        position=(1605339516000000004,),
        event_time=1_605_339_932_000_000,
    )


@pytest.mark.parametrize("word", ["UPDATE_BEFOR", "UPDATE_BEFORE"])
def test_the_before_half_in_the_vendors_spelling_and_the_right_one(word: str) -> None:
    half = row(message(word, before=JOE))
    assert (half.op, half.half, half.before, half.after) == (
        Op.UPDATE,
        Half.BEFORE,
        {"id": "1", "name": "joe"},
        None,
    )


def test_the_after_half_has_no_before_image() -> None:
    half = row(message("UPDATE_AFTER", after=ANN))
    assert (half.op, half.half, half.before, half.after) == (
        Op.UPDATE,
        Half.AFTER,
        None,
        {"id": "1", "name": "ann"},
    )


@pytest.mark.parametrize("word", ["UPDATE", "UPDATE_AFTER"])
def test_one_message_with_both_images_is_a_whole_update(word: str) -> None:
    update = row(message(word, before=JOE, after=ANN))
    assert (update.op, update.half) == (Op.UPDATE, None)
    assert (update.before, update.after) == ({"id": "1", "name": "joe"}, {"id": "1", "name": "ann"})


def test_a_single_update_without_a_before_image_is_whole() -> None:
    update = row(message("UPDATE", after=ANN))
    assert (update.op, update.half, update.before) == (Op.UPDATE, None, None)


def test_delete_keeps_its_before_image_alone() -> None:
    delete = row(message("DELETE", before=JOE))
    assert (delete.op, delete.before, delete.after) == (Op.DELETE, {"id": "1", "name": "joe"}, None)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("CREATE", ControlKind.DDL),
        ("ALTER", ControlKind.DDL),
        ("RENAME", ControlKind.DDL),
        ("ERASE", ControlKind.DDL),
        ("QUERY", ControlKind.DDL),
        ("CINDEX", ControlKind.DDL),
        ("DINDEX", ControlKind.DDL),
        ("TRUNCATE", ControlKind.TRUNCATE),
        ("TRANSACTION_BEGIN", ControlKind.TRANSACTION),
        ("TRANSACTION_END", ControlKind.TRANSACTION),
        ("GTID", ControlKind.TRANSACTION),
        ("XACOMMIT", ControlKind.TRANSACTION),
        ("XAROLLBACK", ControlKind.TRANSACTION),
        ("MHEARTBEAT", ControlKind.HEARTBEAT),
    ],
)
def test_every_other_operation_word_is_a_control_event(word: str, kind: ControlKind) -> None:
    event = control(message(word))
    assert (event.kind, event.op, event.table, event.position) == (
        kind,
        word,
        "orders",
        (1605339516000000004,),
    )


@pytest.mark.parametrize("word", ["insert", "Insert", "UPSERT", "HEARTBEAT", "", "UPDATE_BEFOR "])
def test_operation_words_are_exact(word: str) -> None:
    assert reason(message(word, before=JOE, after=ANN)) is Reason.UNKNOWN_OP


def test_a_heartbeat_has_an_empty_schema_and_no_position() -> None:
    event = control(message("MHEARTBEAT", schema={}, sequenceId=None))
    assert event == Control(
        ControlKind.HEARTBEAT, "MHEARTBEAT", event_time=1_605_339_932_000_000, dialect="mysql"
    )


def test_ddl_keeps_its_text_and_its_meta_is_never_read() -> None:
    text = "alter table orders add column holo text"
    for meta in ("rO0ABXNyACljb20=", "not base64", None):
        event = control(message("ALTER", ddl={"text": text, "ddlMeta": meta}))
        assert (event.statement, event.table) == (text, "orders")
    assert control(message("ALTER", ddl={"text": text, "ddlMeta": {"any": ["thing"]}})).statement == text


@pytest.mark.parametrize(
    ("vendor", "dialect"),
    [
        ("MySQL", "mysql"),
        ("PostgreSQL", "postgres"),
        ("sqlserver", "tsql"),
        ("Oracle", "oracle"),
        ("DB2", "db2"),
        ("polardb", "mysql"),
    ],
)
def test_the_database_type_tells_the_dialect(vendor: str, dialect: str) -> None:
    assert control(message("ALTER", source={**SOURCE, "dbType": vendor})).dialect == dialect


def test_ddl_and_truncate_need_a_position_and_transaction_markers_do_not() -> None:
    assert reason(message("ALTER", sequenceId=None)) is Reason.MISSING_POSITION
    assert reason(message("TRUNCATE", sequenceId=None)) is Reason.MISSING_POSITION
    assert control(message("GTID", sequenceId=None)).position is None


@pytest.mark.parametrize(
    ("name", "wire", "text"),
    [
        ("id", 18446744073709551615, "18446744073709551615"),
        ("id", "9223372036854775808", "9223372036854775808"),
        ("id", -9223372036854775808, "-9223372036854775808"),
        ("ok", True, "true"),
        ("ok", "False", "false"),
        ("ratio", 0.5, "0.5"),
        ("ratio", "NaN", "NaN"),
        ("name", "", ""),
        ("name", "007", "007"),
        ("name", 7, "7"),
        ("name", {"a": [1]}, '{"a": [1]}'),
        ("at", 1605339932736, "2020-11-14T07:45:32.736Z"),
        ("at", "1605339932736", "2020-11-14T07:45:32.736Z"),
        ("at", -1, "1969-12-31T23:59:59.999Z"),
        ("at", "2020-11-14", "2020-11-14"),
        ("photo", "dGVzdF90ZXh0MTIz", "dGVzdF90ZXh0MTIz"),
        ("photo", None, None),
        ("at", None, None),
    ],
)
def test_values_of_the_six_types_are_canonical_text(name: str, wire: Any, text: str | None) -> None:
    after = row(message("INSERT", after={"id": 1, name: wire})).after
    assert after is not None
    assert after[name] == text


def test_the_six_types_have_canonical_types() -> None:
    columns = row(message("INSERT", after=dict.fromkeys(TYPES))).columns
    assert {name: column.type for name, column in columns.items()} == {
        "id": "bigint",
        "ok": "boolean",
        "ratio": "double",
        "name": "string",
        "at": "timestamp",
        "photo": "binary",
    }


def test_the_digits_of_a_number_are_those_on_the_wire() -> None:
    value = message("INSERT", after={"id": 1, "ratio": 5}).replace(b'"ratio": 5', b'"ratio": 1.10E-308')
    assert row(value).after == {"id": "1", "ratio": "1.10E-308"}


def test_a_column_that_the_schema_does_not_declare_is_undeclared() -> None:
    columns = row(message("INSERT", after={"id": 1, "extra": 1.5})).columns
    assert columns["extra"] == Column(token="number")


@pytest.mark.parametrize("wire", [1605339516000000004, "1605339516000000004", " 1605339516000000004 "])
def test_a_position_is_a_number_or_text(wire: Any) -> None:
    assert row(message("INSERT", after=JOE, sequenceId=wire)).position == (1605339516000000004,)


def test_a_position_may_exceed_64_bits() -> None:
    assert row(message("INSERT", after=JOE, sequenceId="18446744073709551616")).position == (
        18446744073709551616,
    )


@pytest.mark.parametrize("version", ["0.0.1", "1.0.0", "1.7", None])
def test_versions_0_and_1_are_read(version: str | None) -> None:
    assert row(message("INSERT", after=JOE, version=version)).op is Op.INSERT


@pytest.mark.parametrize("version", ["2.0.0", "10.0", "", "one"])
def test_other_versions_are_quarantined(version: str) -> None:
    spaced = message("INSERT", after=JOE, version=version)
    compact = json.dumps(json.loads(spaced), separators=(",", ":")).encode()
    assert reason(spaced) is reason(compact) is Reason.UNSUPPORTED_VERSION


def test_the_schema_name_is_the_middle_level_where_the_source_has_three() -> None:
    event = row(message("INSERT", after=JOE, source={**SOURCE, "schemaName": "public"}))
    assert (event.database, event.schema, event.table) == ("shop", "public", "orders")
    assert row(message("INSERT", after=JOE, source={**SOURCE, "schemaName": ""})).schema is None


@pytest.mark.parametrize("keys", [None, []])
def test_a_feed_may_name_no_key(keys: Any) -> None:
    assert row(message("INSERT", after=JOE, primaryKey=keys)).keys is None


def test_an_event_time_may_be_missing() -> None:
    assert row(message("INSERT", after=JOE, timestamp=None)).event_time is None


@pytest.mark.parametrize(
    ("op", "images"),
    [
        ("INSERT", {"before": JOE}),
        ("UPDATE_BEFOR", {"after": JOE}),
        ("UPDATE_AFTER", {"before": JOE}),
        ("UPDATE", {"before": JOE}),
        ("DELETE", {"after": JOE}),
        ("INSERT", {"after": {}}),
        ("UPDATE_BEFOR", {"before": {}}),
        ("UPDATE", {"before": JOE, "after": {}}),
    ],
)
def test_a_row_without_the_image_that_its_operation_needs_is_quarantined(
    op: str, images: dict[str, Any]
) -> None:
    assert reason(message(op, **images)) is Reason.MISSING_IMAGE


def test_an_image_without_columns_completes_no_half() -> None:
    change = row(message("UPDATE_AFTER", before={}, after=JOE))
    assert (change.half, change.before) == (Half.AFTER, None)


def test_a_row_without_a_table_or_its_key_is_quarantined() -> None:
    assert reason(message("INSERT", after=JOE, source={"dbName": "shop"})) is Reason.MISSING_TABLE
    assert reason(message("INSERT", after={"name": "joe"})) is Reason.KEY_NOT_IN_IMAGE


def test_an_empty_name_is_no_name() -> None:
    """No table may be called by an empty name, and no replica be one of an empty database."""
    nameless = {"dbName": "", "schemaName": "", "tableName": ""}
    assert reason(message("INSERT", after=JOE, source=nameless)) is Reason.MISSING_TABLE
    event = row(message("INSERT", after=JOE, source={**nameless, "tableName": "orders"}))
    assert (event.database, event.schema, event.table) == (None, None, "orders")
    altered = control(
        message("ALTER", source=nameless, ddl={"text": "alter table shop.orders drop column c"})
    )
    assert (altered.database, altered.table) == (None, None)


@pytest.mark.parametrize("source", [{"dbName": "shop"}, {"dbName": "shop", "tableName": ""}])
@pytest.mark.parametrize("text", [None, "", "x y", "truncate", "delete from orders"])
def test_a_truncate_of_which_nothing_names_the_table_is_quarantined(
    source: dict[str, str], text: str | None
) -> None:
    assert reason(message("TRUNCATE", source=source, ddl={"text": text})) is Reason.MISSING_TABLE


def test_the_statement_may_name_the_table_that_a_truncate_empties() -> None:
    event = control(message("TRUNCATE", source={"dbName": "shop"}, ddl={"text": "truncate table orders"}))
    (found,) = statement_events(event, FORMAT)
    assert (found.kind, found.database, found.table) == (ControlKind.TRUNCATE, "shop", "orders")


def test_an_image_that_the_operation_does_not_have_is_left_out() -> None:
    assert row(message("INSERT", before=JOE, after=ANN)).before is None
    assert row(message("DELETE", before=JOE, after=ANN)).after is None


def test_types_of_statements_become_those_that_rows_declare() -> None:
    kinds = (
        "tinyint",
        "bigint",
        "date",
        "timestamp_ntz",
        "float",
        "double",
        "string",
        "binary",
        "boolean",
        "decimal(10,2)",
    )
    assert [column_type(k) for k in kinds] == [
        "bigint",
        "bigint",
        "timestamp",
        "timestamp",
        "double",
        "double",
        "string",
        "binary",
        "boolean",
        None,
    ]


def test_updates_come_in_halves_at_unique_positions() -> None:
    assert (FORMAT.name, FORMAT.halves, FORMAT.positions_are_unique) == ("datahub_blob", True, True)
    assert FORMAT.ops == {Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}


@pytest.mark.parametrize("number", ["-1", -1])
def test_a_row_of_the_full_load_is_a_read_without_a_position_and_without_a_time(number: Any) -> None:
    times = {"eventTime": -1, "systemTime": 1731661820245, "checkpointTime": -1}
    found = row(message("INSERT", after=JOE, sequenceId=number, timestamp=times))
    assert (found.op, found.position, found.event_time) == (Op.READ, None, None)
    assert (found.keys, found.before, found.after) == (("id",), None, {"id": "1", "name": "joe"})


def test_a_row_of_the_full_load_keeps_a_time_that_is_one() -> None:
    assert row(message("INSERT", after=JOE, sequenceId="-1")).event_time == 1_605_339_932_000_000


@pytest.mark.parametrize("op", ["UPDATE", "UPDATE_BEFOR", "UPDATE_AFTER", "DELETE", "TRUNCATE"])
def test_a_change_that_is_no_row_of_the_full_load_needs_a_position(op: str) -> None:
    assert reason(message(op, before=JOE, after=ANN, sequenceId="-1")) is Reason.BAD_POSITION


CELLS = (
    *(
        "null",
        "true",
        "false",
        '""',
        '"a"',
        '"null"',
        '"\\u00e9\\ud83d\\ude00"',
        '"\\ud800"',
        '"a\\"b"',
        '" 7 "',
        '"007"',
        '"1.50"',
        '"TRUE"',
    ),
    *(
        "0",
        "-0",
        "-0.0",
        "0.10",
        "1e400",
        "1E-2",
        "-1.5e+3",
        "9223372036854775808",
        "-" + "9" * 40,
        "1" * 999,
        "1" * 1001,
        "2" * 5000,
    ),
    *(
        "1." + "3" * 1200,
        "{}",
        "[]",
        '{"b": 1.10, "a": [-0]}',
        '{"a":1,"a":2}',
        "1605339932000",
        '"1605339932000"',
        "-1",
        "99999999999999999",
    ),
)


@pytest.mark.parametrize("name", [*TYPES, "told by none"])
def test_cells_read_as_python_values_are_what_their_text_says(name: str) -> None:
    whole = message("INSERT", after=dict.fromkeys(TYPES))
    values = [
        whole.replace(json.dumps(dict.fromkeys(TYPES)).encode(), f'{{"id":1,"{name}":{cell}}}'.encode())
        for cell in CELLS
    ]
    values = [value.replace(b'"id":1,"id"', b'"id"') for value in values]
    quick = [result_of(value) for value in values]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DualDecoder, "plain_of", no_quick_way)
        assert quick == [result_of(value) for value in values]


def result_of(value: bytes) -> tuple[Event, Any] | Reason:
    try:
        event = row(value)
    except Malformed as error:
        return error.reason
    return event, event.columns


def no_quick_way(*_: object) -> None:
    raise NeedsExactDecoding


def test_messages_of_one_schema_share_its_columns_and_none_changes_them() -> None:
    first, wider = row(message("INSERT", after=JOE)), row(message("INSERT", after={**JOE, "new": 1}))
    assert list(wider.columns) == ["id", "name", "new"]
    assert row(message("INSERT", after=ANN)).columns is first.columns
    assert list(first.columns) == ["id", "name"]


@pytest.mark.parametrize(
    ("wire", "text"), [("1.5E+2", "150"), ("9.90", "9.90"), ("1E400", "1E400"), ("7", "7")]
)
def test_a_number_in_a_column_that_the_schema_leaves_out_is_plain_digits(wire: str, text: str) -> None:
    found = row(message("INSERT", after={"id": 1, "zz": 0}).replace(b'"zz": 0', f'"zz": {wire}'.encode()))
    assert (found.after or {})["zz"] == text
    assert found.columns["zz"] == Column(token=Token.NUMBER)
