"""The adapter around the decoders: every message of an Arrow batch has an outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from framework.contracts.ddl_actions import AddColumn, DropDatabase, Unsupported, actions_of
from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange, Token
from framework.contracts.messages import BAD_COORDINATES, TOO_LONG, RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.decode import SourcePlan, arrow_decoder, decode_batch
from silver.changes.staged_rows import STAGED, Row, plain_rows
from silver.decoding.format import Context, Format, Options
from silver.formats import canal, datahub_blob, datahub_tuple, oms_shareplex

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MESSAGES = pa.schema(
    [
        ("source", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("file", pa.string()),
        ("line", pa.int64()),
    ]
)
CONTEXT = Context("feed", Options(), "UTC", lambda database, schema, table: None)


def plan(
    fmt: Format = datahub_blob.FORMAT,
    *,
    leave_out: Sequence[str] = (),
    epoch: int = 1,
    max_bytes: int = 10_000,
) -> SourcePlan:
    return SourcePlan(fmt, CONTEXT, epoch, lambda database, schema, table: table in leave_out, max_bytes)


def batch(
    values: Sequence[bytes | None],
    *,
    source: str = "feed",
    key: bytes | None = None,
    headers: object = None,
    topic: str = "orders",
    file: str | None = None,
) -> pa.RecordBatch:
    """Messages as they land from a broker, or with a file of another name as the rows of a dump."""
    line = file is not None and topic in (file, f"./{file}")
    rows = [
        (source, topic, 0, n, None, key, value, headers, file, n if line else None)
        for n, value in enumerate(values)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(MESSAGES)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, MESSAGES, strict=True)], schema=MESSAGES
    )


def normalized(
    values: Sequence[bytes | None], the_plan: SourcePlan | None = None, **more: object
) -> list[Row]:
    """The outcomes of the values of one Arrow batch, every message accounted for."""
    found = decode_batch(batch(values, **more), {"feed": the_plan or plan()})  # type: ignore[arg-type]
    assert found.schema == STAGED
    rows = plain_rows(pa.Table.from_batches([found]))
    assert sum((row["ordinal"] == 0) + (row["paired_with"] is not None) for row in rows) == len(values)
    return rows


def message(
    op: str,
    seq: int,
    *,
    before: dict[str, object] | None = None,
    after: dict[str, object] | None = None,
    table: str = "orders",
    keys: object = ("id",),
) -> bytes:
    columns = {name: None for image in (before, after) for name in (image or {})}
    types = {"id": "LONG"}
    schema = {
        "dataColumn": [{"name": n, "type": types.get(n, "STRING")} for n in columns],
        "primaryKey": keys,
        "source": {"dbType": "MySQL", "dbName": "shop", "tableName": table},
    }
    images = {
        side: {"dataColumn": image}
        for side, image in (("before", before), ("after", after))
        if image is not None
    }
    payload = {"op": op, **images, "sequenceId": str(seq), "timestamp": {"eventTime": 1605339932000}}
    return json.dumps({"schema": schema, "payload": payload, "version": "1.0.0"}).encode()


def ddl(op: str, seq: int, text: str, table: str | None = "orders") -> bytes:
    source = {"dbType": "MySQL", "dbName": "shop"} | ({"tableName": table} if table else {})
    payload = {"op": op, "sequenceId": seq, "ddl": {"text": text}, "timestamp": {"eventTime": 1605339932000}}
    return json.dumps({"schema": {"source": source}, "payload": payload}).encode()


JOE, ANN = {"id": 1, "name": "joe"}, {"id": 1, "name": "ann"}
JOE_TEXT, ANN_TEXT = {"id": "1", "name": "joe"}, {"id": "1", "name": "ann"}
HEARTBEAT = b'{"schema":{},"payload":{"op":"MHEARTBEAT","timestamp":{"eventTime":1605339953629}}}'


def test_an_insert_is_a_row_with_its_sequence_and_id() -> None:
    (row,) = normalized([message("INSERT", 120, after=JOE)])
    assert (row["kind"], row["op"], row["before"], row["after"], row["partial"]) == (
        "row",
        "insert",
        None,
        JOE_TEXT,
        False,
    )
    assert (row["source"], row["format"], row["database"], row["schema"], row["table"]) == (
        "feed",
        "datahub_blob",
        "shop",
        None,
        "orders",
    )
    assert (row["sequence"], row["position"], row["keys"]) == ("011.011.03120", "011.011.03120", ["id"])
    assert (row["topic"], row["partition"], row["offset"], row["ordinal"]) == ("orders", 0, 0, 0)
    assert row["event_time"] == 1_605_339_932_000_000
    assert len(row["change_id"]) == 32


def test_neighbours_that_are_halves_of_one_update_are_merged_at_the_after_half() -> None:
    rows = normalized([message("UPDATE_BEFOR", 5, before=JOE), message("UPDATE_AFTER", 5, after=ANN)])
    assert [(r["kind"], r["before"], r["after"], r["half"], r["offset"]) for r in rows] == [
        ("row", JOE_TEXT, ANN_TEXT, None, 1)
    ]
    assert rows[0]["paired_with"] == {"topic": "orders", "partition": 0, "offset": 0}


def test_halves_that_do_not_follow_each_other_are_left_to_the_pairing() -> None:
    halves = [message("UPDATE_AFTER", 5, after=ANN), HEARTBEAT, message("UPDATE_BEFOR", 5, before=JOE)]
    for messages in (halves, halves[::-1]):
        assert sorted(str(r["half"]) for r in normalized(messages)) == ["None", "after", "before"]


def test_each_couple_of_neighbours_is_merged_where_several_updates_share_a_sequence() -> None:
    pairs = [(JOE, ANN), ({"id": 2, "name": "bob"}, {"id": 2, "name": "eve"})]
    halves = [
        m
        for old, new in pairs
        for m in (message("UPDATE_BEFOR", 5, before=old), message("UPDATE_AFTER", 5, after=new))
    ]
    assert [(r["before"]["name"], r["after"]["name"]) for r in normalized(halves)] == [
        ("joe", "ann"),
        ("bob", "eve"),
    ]


@pytest.mark.parametrize(
    "other",
    [
        message("UPDATE_AFTER", 6, after=ANN),
        message("UPDATE_AFTER", 5, after=ANN, table="lines"),
        message("UPDATE_AFTER", 5, after={"id": 2, "name": "ann"}),
        message("UPDATE_BEFOR", 5, before=ANN),
    ],
)
def test_halves_of_another_position_table_key_or_side_stay_halves(other: bytes) -> None:
    assert [r["half"] is not None for r in normalized([message("UPDATE_BEFOR", 5, before=JOE), other])] == [
        True,
        True,
    ]


def test_doubled_halves_are_left_to_the_pairing() -> None:
    halves = [message("UPDATE_BEFOR", 5, before=JOE)] * 2 + [message("UPDATE_AFTER", 5, after=ANN)]
    assert [r["half"] for r in normalized(halves)] == ["before", "before", "after"]


def test_halves_do_not_meet_across_arrow_batches() -> None:
    halves = [batch([message("UPDATE_BEFOR", 5, before=JOE)]), batch([message("UPDATE_AFTER", 5, after=ANN)])]
    found = list(arrow_decoder({"feed": plan()})(iter(halves)))
    assert [plain_rows(pa.Table.from_batches([b]))[0]["half"] for b in found] == ["before", "after"]


def test_a_redelivered_pair_has_the_id_of_the_first() -> None:
    pair = [message("UPDATE_BEFOR", 5, before=JOE), message("UPDATE_AFTER", 5, after=ANN)]
    first, repeated = normalized([*pair, *pair])
    assert first["change_id"] == repeated["change_id"]
    assert normalized(pair)[0]["change_id"] == first["change_id"]


def test_a_whole_update_and_its_after_half_have_one_id() -> None:
    (whole,) = normalized([message("UPDATE", 5, before=JOE, after=ANN)])
    (lone,) = normalized([message("UPDATE_AFTER", 5, after=ANN)])
    assert whole["change_id"] == lone["change_id"]
    assert lone["half"] == "after"


def test_ids_differ_by_source_table_position_operation_and_key() -> None:
    values = [
        message("INSERT", 5, after=JOE),
        message("INSERT", 6, after=JOE),
        message("INSERT", 5, after=JOE, table="lines"),
        message("INSERT", 5, after={"id": 2, "name": "joe"}),
        message("DELETE", 5, before=JOE),
    ]
    found = {row["change_id"] for row in normalized(values)}
    two_sources = {"feed": plan(), "other": plan()}
    other = plain_rows(pa.Table.from_batches([decode_batch(batch(values[:1], source="other"), two_sources)]))
    assert len(found | {other[0]["change_id"]}) == 6


def test_excluded_tables_are_excluded_rows_without_images() -> None:
    rows = normalized(
        [
            message("INSERT", 5, after=JOE, table="tmp_1"),
            message("UPDATE_AFTER", 6, after=JOE, table="tmp_1"),
            message("INSERT", 7, after=JOE),
        ],
        plan(leave_out=["tmp_1"]),
    )
    assert [(r["kind"], r["table"], r["after"], r["half"]) for r in rows] == [
        ("excluded", "tmp_1", None, None),
        ("excluded", "tmp_1", None, None),
        ("row", "orders", JOE_TEXT, None),
    ]


def test_a_rename_of_an_excluded_table_to_a_name_that_is_not_excluded_stays() -> None:
    texts = ("rename table tmp_1 to orders", "rename table tmp_1 to tmp_2", "alter table tmp_1 add x int")
    rows = normalized(
        [ddl("QUERY", at, text, table="tmp_1") for at, text in enumerate(texts, 5)],
        plan(leave_out=["tmp_1", "tmp_2"]),
    )
    assert [row["kind"] for row in rows] == ["ddl", "excluded", "excluded"]


def test_a_dropped_database_shows_although_all_names_in_it_are_excluded() -> None:
    """Later entries of the configuration may bring single tables back into view."""
    (row,) = normalized(
        [ddl("QUERY", 5, "drop database shop", table="orders")], plan(leave_out=["", "orders"])
    )
    assert (row["kind"], row["database"], row["table"]) == ("ddl", "shop", "")
    assert actions_of(row["actions"]) == (DropDatabase(),)


def test_a_statement_on_a_table_of_an_unknown_database_shows_although_the_envelopes_table_is_excluded() -> (
    None
):
    (row,) = normalized(
        [ddl("QUERY", 5, "rename table orders to shop.tmp_1", table="tmp_1")], plan(leave_out=["tmp_1"])
    )
    assert (row["kind"], row["database"], row["table"]) == ("ddl", None, "")
    assert actions_of(row["actions"]) == (Unsupported("the text does not say in which database `orders` is"),)


def test_what_cannot_be_read_is_quarantined_beside_the_rest() -> None:
    rows = normalized(
        [b"<html>", message("INSERT", 5, after=JOE), None, b"", message("INSERT", 5, after=JOE)[:-9]]
    )
    assert [(r["kind"], r["reason"], r["offset"]) for r in rows] == [
        ("quarantined", "not_json", 0),
        ("row", None, 1),
        ("quarantined", "empty", 2),
        ("quarantined", "empty", 3),
        ("quarantined", "truncated", 4),
    ]
    assert len({r["change_id"] for r in rows}) == 5


def test_a_null_value_with_a_key_is_a_tombstone() -> None:
    assert [(r["kind"], r["op"], r["sequence"]) for r in normalized([None], key=b"1")] == [
        ("tombstone", "tombstone", None)
    ]
    assert [(r["kind"], r["reason"]) for r in normalized([b""], key=b"1")] == [("quarantined", "empty")]


def test_a_message_beyond_the_limit_is_quarantined() -> None:
    rows = normalized([b"{" + b" " * 10_000], plan(max_bytes=10_000))
    assert [(r["kind"], r["reason"], r["detail"]) for r in rows] == [
        ("quarantined", "too_large", "10001 bytes, at most 10000")
    ]


def test_a_line_without_coordinates_is_quarantined_with_what_bronze_said() -> None:
    header = [{"key": "x", "value": None}, {"key": BAD_COORDINATES, "value": b"no offset"}]
    rows = normalized([message("INSERT", 5, after=JOE)], headers=header, file="orders")
    assert [(r["kind"], r["reason"], r["detail"]) for r in rows] == [
        ("quarantined", "bad_coordinates", "no offset")
    ]


@pytest.mark.parametrize("missing", ["topic", "partition", "offset"])
def test_a_row_without_coordinates_of_an_earlier_release_is_quarantined(missing: str) -> None:
    messages = batch([message("INSERT", number, after=JOE) for number in (5, 6)])
    at = messages.schema.get_field_index(missing)
    second = pa.array([messages.column(at)[0].as_py(), None], messages.schema.field(at).type)
    found = decode_batch(messages.set_column(at, messages.schema.field(at), second), {"feed": plan()})
    assert [(row["kind"], row["reason"]) for row in plain_rows(pa.Table.from_batches([found]))] == [
        ("row", None),
        ("quarantined", "bad_coordinates"),
    ]


def test_a_line_that_was_too_long_to_land_is_quarantined_as_too_large() -> None:
    (row,) = normalized([None], headers=[{"key": TOO_LONG, "value": b"524288000"}], file="orders")
    assert (row["kind"], row["reason"]) == ("quarantined", "too_large")
    assert row["detail"] == "a line of 524288000 bytes; they did not land, its file alone has them"


def test_a_batch_of_no_messages_has_no_outcomes() -> None:
    assert normalized([]) == []


def shaky(harm: dict[bytes, dict[str, object]]) -> SourcePlan:
    """A decoder whose rows cannot be put into Arrow for some values."""

    def decode(raw: RawMessage, context: Context) -> Sequence[Event]:
        (event,) = datahub_blob.decode(raw, context)
        return (structs.replace(event, **harm.get(raw.key or b"", {})),)

    return plan(replace(datahub_blob.FORMAT, decode=decode))


class Endless(dict[str, str | None]):
    """An image that breaks whoever reads it."""

    def values(self) -> NoReturn:
        raise RecursionError


HARM: dict[str, dict[str, object]] = {
    "a lone surrogate in a value": {"after": {"id": "1", "name": "\ud800"}},
    "a lone surrogate in a column": {"after": {"id": "1", "\udfff": "x"}},
    "a lone surrogate in a name": {"database": "\ud800"},
    "a lone surrogate in a key": {"keys": ("id", "\ud800")},
    "a lone surrogate in a type": {"columns": {"id": Column(type="int", declared="\ud800")}},
    "a type that is a statement": {"columns": {"id": Column(type="string COMMENT 'x', injected INT")}},
    "a time beyond all years": {"event_time": 2**63},
    "a value that is no text": {"after": {"id": 7}},
    "a value that breaks its reader": {"after": Endless(id="1")},
}


@pytest.mark.parametrize("harm", HARM)
def test_what_one_message_does_to_a_batch_is_its_own_quarantine(harm: str) -> None:
    good = [message("INSERT", n, after={"id": n, "name": "x"}) for n in range(9)]
    messages = batch(good)
    keys = pa.array([b"bad" if n == 6 else None for n in range(9)], pa.binary())
    messages = messages.set_column(messages.schema.get_field_index("key"), "key", keys)
    found = list(arrow_decoder({"feed": shaky({b"bad": HARM[harm]})})([messages]))
    rows = [row for part in found for row in plain_rows(pa.Table.from_batches([part]))]
    assert [(row["offset"], row["kind"]) for row in rows] == [
        (n, "quarantined" if n == 6 else "row") for n in range(9)
    ]
    assert rows[6]["reason"] == ("bad_position" if "event_time" in HARM[harm] else "decoder_error")
    assert [row["after"] for row in rows if row["offset"] != 6] == [
        {"id": str(n), "name": "x"} for n in range(9) if n != 6
    ]


@pytest.mark.parametrize(("again", "kind"), [(None, "quarantined"), ("landed_again a:1", "duplicate")])
def test_a_message_that_cannot_be_decoded_keeps_its_epoch_and_landing(again: str | None, kind: str) -> None:
    messages = batch([message("INSERT", 1, after={"id": 1})], key=b"bad")
    landing = {"epoch": (2, pa.int32()), "restart": (1, pa.int32()), "relanding": (again, pa.string())}
    for name, (value, column) in landing.items():
        messages = messages.append_column(name, pa.array([value], column))
    decode = arrow_decoder({"feed": shaky({b"bad": HARM["a lone surrogate in a value"]})})
    (row,) = [row for part in decode([messages]) for row in plain_rows(pa.Table.from_batches([part]))]
    assert (row["epoch"], row["restart"], row["kind"]) == (2, 1, kind)


def test_halves_that_a_bad_message_parts_are_left_for_pairing() -> None:
    values = [
        message("UPDATE_BEFOR", 5, before=JOE),
        message("INSERT", 4, after=ANN),
        message("UPDATE_AFTER", 5, after=ANN),
    ]
    messages = batch(values)
    messages = messages.set_column(
        messages.schema.get_field_index("key"), "key", pa.array([None, b"bad", None], pa.binary())
    )
    found = list(arrow_decoder({"feed": shaky({b"bad": HARM["a lone surrogate in a value"]})})([messages]))
    rows = [row for part in found for row in plain_rows(pa.Table.from_batches([part]))]
    assert [(row["kind"], row["half"]) for row in rows] == [
        ("row", "before"),
        ("quarantined", None),
        ("row", "after"),
    ]


def buggy(answer: object) -> SourcePlan:
    def decode(raw: RawMessage, context: Context) -> Sequence[Event]:
        if raw.value != b"bug":
            return datahub_blob.decode(raw, context)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    return plan(replace(datahub_blob.FORMAT, decode=decode))


@pytest.mark.parametrize(
    "answer", [KeyError("x"), RecursionError(), ZeroDivisionError(), (), None, 7, (None,)]
)
def test_a_bug_in_a_decoder_quarantines_that_message_alone(answer: object) -> None:
    rows = normalized([message("INSERT", 5, after=JOE), b"bug", HEARTBEAT], buggy(answer))
    assert [(r["kind"], r["reason"]) for r in rows] == [
        ("row", None),
        ("quarantined", "decoder_error"),
        ("heartbeat", None),
    ]


def rows_of(*positions: int) -> tuple[RowChange, ...]:
    return tuple(
        RowChange(Op.INSERT, "shop", None, "orders", ("id",), None, {"id": str(n)}, {}, (position,), None)
        for n, position in enumerate(positions)
    )


def test_rows_of_one_message_have_ordinals_and_one_that_has_no_place_is_quarantined_alone() -> None:
    rows = normalized([b"bug"], buggy(rows_of(5, -1, -1, 8)))
    assert [(r["ordinal"], r["kind"], r["reason"]) for r in rows] == [
        (0, "row", None),
        (1, "quarantined", "bad_position"),
        (2, "quarantined", "bad_position"),
        (3, "row", None),
    ]
    assert len({r["change_id"] for r in rows}) == 4


def test_positions_that_are_only_times_take_broker_coordinates_as_tie_breakers() -> None:
    def decode(raw: RawMessage, context: Context) -> Sequence[Event]:
        return rows_of(1605339932000, 1605339932000)

    rows = normalized(
        [b"x", b"y"], plan(replace(datahub_blob.FORMAT, decode=decode, positions_are_unique=False), epoch=2)
    )
    assert [r["sequence"] for r in rows] == [
        "012.011.131605339932000.orders.010.010.010",
        "012.011.131605339932000.orders.010.010.011",
        "012.011.131605339932000.orders.010.011.010",
        "012.011.131605339932000.orders.010.011.011",
    ]
    assert {r["position"] for r in rows} == {"012.011.131605339932000"}
    assert [r["change_id"] for r in rows[:2]] == [r["change_id"] for r in rows[2:]]


def test_a_snapshot_row_without_a_position_sorts_first_and_has_one_id_in_its_epoch() -> None:
    def decode(raw: RawMessage, context: Context) -> Sequence[Event]:
        return (RowChange(Op.READ, "shop", None, "orders", ("id",), None, {"id": "1"}, {}, None, None),)

    one, other = normalized([b"x", b"y"], plan(replace(datahub_blob.FORMAT, decode=decode)))
    assert one["sequence"] == "011.010.orders.010.010.010"
    assert one["position"] is None
    assert one["change_id"] == other["change_id"]
    (later,) = normalized([b"x"], plan(replace(datahub_blob.FORMAT, decode=decode), epoch=2))
    assert later["change_id"] != one["change_id"]


def test_a_position_that_is_only_a_time_takes_tie_breakers_in_a_format_of_positions() -> None:
    def decode(raw: RawMessage, context: Context) -> Sequence[Event]:
        return tuple(structs.replace(row, is_time=raw.offset > 0) for row in rows_of(7))

    rows = normalized([b"x", b"y", b"z"], plan(replace(datahub_blob.FORMAT, decode=decode)))
    assert [r["sequence"] for r in rows] == [
        "011.011.017",
        "011.011.017.orders.010.011.010",
        "011.011.017.orders.010.012.010",
    ]
    assert rows[1]["change_id"] == rows[2]["change_id"] != rows[0]["change_id"]


def test_a_statement_without_a_position_is_refused_unless_it_has_no_effect() -> None:
    def decode(raw: RawMessage, context: Context) -> Sequence[Event]:
        kind = ControlKind.TRUNCATE if raw.offset == 1 else ControlKind.DDL
        texts = (
            "ALTER TABLE orders ADD c INT",
            None,
            "CREATE INDEX i ON orders (id)",
            "CREATE TABLE x (id INT), nonsense",
        )
        return (Control(kind, "DDL", "shop", None, "orders", statement=texts[raw.offset], dialect="mysql"),)

    rows = normalized([b"a", b"b", b"c", b"d"], plan(replace(datahub_blob.FORMAT, decode=decode)))
    found = [(r["kind"], r["reason"], r["sequence"]) for r in rows]
    refused = ("quarantined", "missing_position", None)
    assert found == [refused, refused, ("ddl", None, None), refused]


def test_a_schema_is_written_once_and_named_by_each_row() -> None:
    rows = normalized(
        [message("INSERT", n, after=JOE) for n in (5, 6)]
        + [message("INSERT", 7, after={**JOE, "city": "Ulm"})]
    )
    assert rows[0]["schema_id"] == rows[1]["schema_id"] != rows[2]["schema_id"]
    assert [r["columns"] is None for r in rows] == [False, True, False]
    assert json.loads(rows[0]["columns"]) == [
        ["id", "bigint", "LONG", None],
        ["name", "string", "STRING", None],
    ]


def test_control_events_and_quarantined_messages_name_no_schema() -> None:
    assert [r["schema_id"] for r in normalized([HEARTBEAT, b"x"])] == [None, None]


def record(n: int, **cells: object) -> bytes:
    """A record of a format that declares no types."""
    flags = {
        "_sequence_id_": n,
        "_operation_type_": "I",
        "_excute_time_": 1,
        "_source_table_": "t",
        "_before_image_": "N",
        "_after_image_": "Y",
    }
    return json.dumps({**flags, **cells}).encode()


def test_tokens_of_undeclared_columns_are_joined_over_the_rows_of_a_table() -> None:
    rows = normalized(
        [record(1, a=None, b=1), record(2, a="x", b=2), record(3, a="y", b=None)], plan(datahub_tuple.FORMAT)
    )
    assert len({r["schema_id"] for r in rows}) == 1
    assert json.loads(rows[0]["columns"]) == [
        ["a", None, None, "null,text"],
        ["b", None, None, "null,number"],
    ]


def test_a_column_with_two_kinds_of_values_keeps_them_apart() -> None:
    rows = normalized(
        [record(1, a=None, b=1), record(2, a="x", b=2), record(3, a=3, b=None)], plan(datahub_tuple.FORMAT)
    )
    assert [json.loads(r["columns"])[0][3] for r in rows] == ["null", "text", "number"]
    assert {json.loads(r["columns"])[1][3] for r in rows} == {"null,number"}


def test_tokens_are_not_joined_across_a_statement() -> None:
    column = {"v": Column(token=Token.NUMBER)}
    number = RowChange(Op.INSERT, "shop", None, "orders", None, None, {"v": "1"}, column, (1,), None)
    text = structs.replace(number, columns={"v": Column(token=Token.TEXT)}, position=(3,))
    change = Control(
        ControlKind.DDL,
        "ALTER",
        "shop",
        None,
        "orders",
        statement="alter table orders modify v text",
        position=(2,),
    )
    rows = normalized([b"bug"], buggy((number, change, text)))
    assert [r["columns"] and json.loads(r["columns"])[0][3] for r in rows] == ["number", None, "text"]


def test_a_statement_about_several_tables_is_a_row_a_table() -> None:
    rows = normalized([ddl("ERASE", 9, "drop table orders, lines")])
    assert [(r["kind"], r["table"], r["ordinal"], json.loads(r["actions"])) for r in rows] == [
        ("ddl", "orders", 0, [{"action": "DropTable"}]),
        ("ddl", "lines", 1, [{"action": "DropTable"}]),
    ]
    assert {r["statement"] for r in rows} == {"drop table orders, lines"}
    assert len({r["change_id"] for r in rows}) == 2


def test_two_statements_about_one_table_in_one_text_have_ids_of_their_own() -> None:
    one, other = normalized([ddl("ALTER", 9, "alter table orders add a int; alter table orders add b int")])
    assert [actions_of(r["actions"])[0] for r in (one, other)] == [
        AddColumn("a", "bigint", "int"),
        AddColumn("b", "bigint", "int"),
    ]
    assert one["change_id"] != other["change_id"]


def test_a_statement_again_has_the_id_of_the_first() -> None:
    one, other = normalized([ddl("ALTER", 9, "alter table orders add a int")] * 2)
    assert one["change_id"] == other["change_id"]


def test_a_truncate_is_a_row_of_its_own_kind() -> None:
    (row,) = normalized([ddl("TRUNCATE", 9, "truncate table orders")])
    assert (row["kind"], row["op"], row["sequence"], row["after"]) == (
        "truncate",
        "TRUNCATE",
        "011.011.019",
        None,
    )


def test_a_heartbeat_has_no_sequence_but_a_time() -> None:
    (row,) = normalized([HEARTBEAT])
    assert (row["kind"], row["sequence"], row["event_time"]) == ("heartbeat", None, 1_605_339_953_629_000)


def test_a_batch_that_runs_again_gives_the_same_rows() -> None:
    values = [
        message("UPDATE_BEFOR", 5, before=JOE),
        b"x",
        message("UPDATE_AFTER", 5, after=ANN),
        ddl("ERASE", 9, "drop table a, b"),
    ]
    assert decode_batch(batch(values), {"feed": plan()}).equals(decode_batch(batch(values), {"feed": plan()}))


VALUES = st.sampled_from(
    [
        message("INSERT", 1, after=JOE),
        message("UPDATE_BEFOR", 2, before=JOE),
        message("UPDATE_AFTER", 2, after=ANN),
        message("UPDATE_AFTER", 2, after={"id": 2, "name": "ann"}),
        message("UPDATE_BEFOR", 3, before=JOE, keys=None),
        message("UPDATE_AFTER", 3, after=ANN, keys=None),
        message("INSERT", 4, after=JOE, table="tmp"),
        message("UPDATE_AFTER", 4, after=JOE, table="tmp"),
        ddl("ERASE", 5, "drop table a, b, c"),
        ddl("QUERY", 6, "", table=None),
        ddl("ALTER", 7, "alter table orders add (x int, y int); truncate table orders"),
        HEARTBEAT,
        b"",
        b"null",
        b"{",
        None,
    ]
)


@given(st.lists(st.one_of(VALUES, st.binary(max_size=20)), max_size=30))
def test_every_message_has_an_outcome(values: list[bytes | None]) -> None:
    rows = normalized(values, plan(leave_out=["tmp"]))
    offsets = {row["offset"] for row in rows} | {
        row["paired_with"]["offset"] for row in rows if row["paired_with"]
    }
    assert offsets == set(range(len(values)))
    assert all(row["change_id"] and row["kind"] for row in rows)
    assert all(row["reason"] in set(Reason) for row in rows if row["kind"] == "quarantined")


def test_the_detail_of_a_quarantined_message_is_cut() -> None:
    rows = normalized([b"bug"], buggy(Malformed(Reason.WRONG_SHAPE, "x" * 600)))
    assert rows[0]["detail"] == "x" * 500


def test_a_half_keeps_its_side() -> None:
    event = RowChange(
        Op.UPDATE, "shop", None, "orders", None, {"id": "1"}, None, {}, (1,), None, half=Half.BEFORE
    )
    (row,) = normalized([b"bug"], buggy((event,)))
    assert (row["kind"], row["half"]) == ("row", "before")


def test_a_message_that_landed_before_is_a_duplicate_whatever_it_says() -> None:
    values = [
        message("INSERT", 1, after=JOE),
        message("UPDATE_BEFOR", 5, before=JOE),
        b"nonsense",
        message("UPDATE_AFTER", 5, after=ANN),
    ]
    landed = batch(values).append_column("epoch", pa.array([2] * 4, pa.int32()))
    relanded = landed.append_column(
        "relanding", pa.array(["landed again b.jsonl:7"] * 3 + [None], pa.string())
    )
    first = plain_rows(pa.Table.from_batches([decode_batch(landed, {"feed": plan()})]))
    rows = plain_rows(pa.Table.from_batches([decode_batch(relanded, {"feed": plan()})]))
    assert [(row["kind"], row["half"], row["before"], row["after"]) for row in rows[:3]] == [
        ("duplicate", None, None, None)
    ] * 3
    assert {(row["reason"], row["detail"]) for row in rows[:3]} == {
        ("landed_again", "landed again b.jsonl:7")
    }
    assert [(row["half"], row["epoch"]) for row in rows[3:]] == [("after", 2)]
    assert rows[0]["change_id"] == first[0]["change_id"]
    quarantined = next(row for row in first if row["kind"] == "quarantined")
    assert rows[2]["change_id"] == quarantined["change_id"] != normalized(values)[1]["change_id"]


def test_equal_truncates_without_a_time_are_two_where_the_partition_orders() -> None:
    """Nothing but their offsets distinguishes them; a repeat of them has other ones."""
    truncate = json.dumps(
        {
            "database": "shop",
            "table": "stage",
            "type": "TRUNCATE",
            "isDdl": True,
            "sql": "TRUNCATE TABLE stage",
        }
    ).encode()
    without_position = replace(CONTEXT, needs_no_position=True)
    by_partition = replace(plan(canal.FORMAT), by_partition=True, context=without_position)
    rows = normalized([truncate, truncate], by_partition)
    assert [row["kind"] for row in rows] == ["truncate", "truncate"]
    assert len({row["change_id"] for row in rows}) == 2


def shareplex(op: str, name: str, time: str, scn: int | None) -> bytes:
    meta = {"op": op, "table": "shop.orders", "time": f"2020-12-30T{time}", "scn": scn, "seq": 1}
    return json.dumps({"data": {"id": 1, "name": name}, "key": None, "meta": meta}).encode()


def test_a_partition_orders_its_rows_with_and_without_a_position_together() -> None:
    """Rows of a full copy have no scn, and their clock may be ahead of the scn of the changes behind them."""
    values = [
        shareplex("ins", "Ann", "16:11:11", None),
        shareplex("upd", "Bob", "16:31:11", 160931707100001),
        shareplex("upd", "Cat", "16:31:11", 160931707100002),
    ]
    by_time = plan(oms_shareplex.FORMAT)
    by_partition = replace(by_time, by_partition=True, context=replace(CONTEXT, needs_no_position=True))
    rows = normalized(values, by_partition)
    assert [row["after"]["name"] for row in sorted(rows, key=lambda row: row["sequence"])] == [
        "Ann",
        "Bob",
        "Cat",
    ]
    again = normalized(values[1:], by_partition)
    assert [row["change_id"] for row in again] == [row["change_id"] for row in rows[1:]]
    assert again[0]["change_id"] == normalized(values[1:2], by_time)[0]["change_id"]
