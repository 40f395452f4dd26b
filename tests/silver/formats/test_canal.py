from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from framework.contracts.ddl_actions import AddColumn, DropTable, NoEffect
from framework.contracts.events import Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.ddl_events import statement_events
from silver.decoding.format import Context, Format, Options
from silver.formats import oms_canal
from silver.formats.canal import FORMAT

GEOMETRY = bytes.fromhex("e61000000101000000000000000000f03f0000000000000040")
"""A point as MySQL stores it: four bytes of SRID (4326), then WKB."""
CONTEXT = Context("feed", Options(), "Asia/Shanghai", lambda database, schema, table: None)


def decode(context: Context = CONTEXT, fmt: Format = FORMAT, **members: Any) -> Sequence[Event]:
    envelope = {
        "database": "shop",
        "table": "orders",
        "type": "INSERT",
        "es": 1609344671000,
        "id": 7,
        "isDdl": False,
        **members,
    }
    return fmt.decode(RawMessage("feed", "orders", 0, 0, None, None, json.dumps(envelope).encode()), context)


def only_row(**members: Any) -> RowChange:
    (event,) = decode(**members)
    assert isinstance(event, RowChange)
    return event


def test_an_insert_has_the_row_after() -> None:
    found = only_row(data=[{"id": "1", "name": "Ann"}], pkNames=["id"], mysqlType={"id": "int(11)"})
    assert (found.op, found.table, found.keys) == (Op.INSERT, "orders", ("id",))
    assert (found.before, found.after) == (None, {"id": "1", "name": "Ann"})


def test_an_update_has_the_old_values_of_changed_columns() -> None:
    found = only_row(type="UPDATE", data=[{"id": "1", "name": "Ann"}], old=[{"name": "Jane"}])
    assert found.op is Op.UPDATE
    assert (found.before, found.after) == ({"id": "1", "name": "Jane"}, {"id": "1", "name": "Ann"})


def test_a_delete_has_the_row_before() -> None:
    found = only_row(type="DELETE", data=[{"id": "1", "name": "Ann"}])
    assert (found.op, found.before, found.after) == (Op.DELETE, {"id": "1", "name": "Ann"}, None)


@pytest.mark.parametrize(
    ("declared", "wire", "text", "canonical"),
    [
        ("bigint(20) unsigned", "18446744073709551615", "18446744073709551615", "decimal(20,0)"),
        ("decimal(12,2)", "-9.90", "-9.90", "decimal(12,2)"),
        ("timestamp", "2020-12-30 16:11:11", "2020-12-30T08:11:11Z", "timestamp"),
        ("datetime(6)", "2020-12-30 16:11:11.012345", "2020-12-30T16:11:11.012345", "timestamp_ntz"),
        ("datetime", "0000-00-00 00:00:00", "0000-00-00 00:00:00", "timestamp_ntz"),
        ("blob", "\x00\u00ffA", "AP9B", "binary"),
        ("geometry", GEOMETRY.decode("latin-1"), base64.b64encode(GEOMETRY).decode(), "binary"),
        ("POINT", GEOMETRY.decode("latin-1"), base64.b64encode(GEOMETRY).decode(), "binary"),
        ("geomcollection", "\x00\u00ff", "AP8=", "binary"),
        ("multipolygon", "\u4e2d", "\u4e2d", "binary"),
        ("enum('S','M','it''s')", "3", "it's", "string"),
        ("enum('S','M')", "0", "", "string"),
        ("enum('S','M')", "M", "M", "string"),
        ("set('a','b','c')", "5", "a,c", "string"),
        ("set('a','b')", "9", "9", "string"),
        ("enum", "2", "2", "string"),
        ("varchar(20)", "2", "2", "string"),
    ],
)
def test_text_of_the_server_becomes_canonical(declared: str, wire: str, text: str, canonical: str) -> None:
    row = only_row(mysqlType={"c": declared}, data=[{"c": wire}])
    assert row.after == {"c": text}
    assert row.columns["c"].type == canonical


def test_codec_makes_bytes_text() -> None:
    context = Context("feed", Options(), "UTC", lambda *names: None, lambda *names: {"note": "utf8"})
    (row,) = decode(context, mysqlType={"note": "varbinary(20)"}, data=[{"note": "\u00c3\u00bc"}])
    assert isinstance(row, RowChange)
    assert row.after == {"note": "ü"}
    assert row.columns["note"].type == "string"


def test_doubled_backtick_in_a_name_is_one() -> None:
    row = only_row(table="odd``name", mysqlType={"a``b": "int(11)"}, data=[{"a``b": "1"}], pkNames=["a``b"])
    assert (row.table, row.keys, row.after) == ("odd`name", ("a`b",), {"a`b": "1"})


def test_time_and_commit_timestamp_order_and_the_batch_number_does_not() -> None:
    """Canal counts its batches from 1 again in each process."""
    assert (
        only_row(data=[{"id": "1"}]).position
        == only_row(data=[{"id": "1"}], id=1).position
        == (1609344671000, 0)
    )
    assert only_row(data=[{"id": "1"}], id=0, _tidb={"commitTs": 421832832000000001}).position == (
        1609344671000,
        421832832000000001,
    )


def test_watermark_is_a_heartbeat_with_a_position() -> None:
    (event,) = decode(
        type="TIDB_WATERMARK", database="", table="", data=None, _tidb={"watermarkTs": 429918007904436226}
    )
    assert isinstance(event, Control)
    assert (event.kind, event.table, event.position) == (
        ControlKind.HEARTBEAT,
        None,
        (1609344671000, 429918007904436226),
    )


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("RENAME", ControlKind.DDL),
        ("DDL", ControlKind.DDL),
        ("TRUNCATE", ControlKind.TRUNCATE),
        ("GTID", ControlKind.TRANSACTION),
        ("MHEARTBEAT", ControlKind.HEARTBEAT),
    ],
)
def test_words_that_are_no_rows(word: str, kind: ControlKind) -> None:
    (event,) = decode(type=word, data=None, isDdl=True, sql="some statement")
    assert isinstance(event, Control)
    assert (event.kind, event.op, event.statement) == (kind, word, "some statement")


def test_unknown_word_is_quarantined_with_its_name() -> None:
    with pytest.raises(Malformed) as caught:
        decode(type="UPSERT", data=[{"id": "1"}])
    assert (caught.value.reason, caught.value.detail) == (Reason.UNKNOWN_OP, "UPSERT")


def test_rows_of_a_snapshot_are_read_and_have_no_place_in_the_order() -> None:
    first, second = decode(
        type="INIT", mysqlType={"id": "int(11)"}, data=[{"id": "1"}, {"id": "2"}], pkNames=["id"]
    )
    assert isinstance(first, RowChange)
    assert isinstance(second, RowChange)
    assert (first.op, first.position, first.before, first.after, second.after) == (
        Op.READ,
        None,
        None,
        {"id": "1"},
        {"id": "2"},
    )


def test_structure_that_a_snapshot_begins_with_empties_no_table() -> None:
    (event,) = decode(type="INIT_DDL", data=None, isDdl=True, sql="CREATE TABLE orders (id int PRIMARY KEY)")
    assert isinstance(event, Control)
    assert (event.kind, event.actions) == (ControlKind.DDL, (NoEffect("structure"),))


def test_one_row_may_be_an_object_in_place_of_a_list() -> None:
    row = only_row(type="UPDATE", data={"id": "1", "name": "Ann"}, old={"name": "Jane"}, pkNames=["id"])
    assert (row.before, row.after) == ({"id": "1", "name": "Jane"}, {"id": "1", "name": "Ann"})


@pytest.mark.parametrize("data", [None, [], {}, [{}], [{"id": "1"}, {}], [None]])
def test_a_row_without_columns_is_no_row(data: Any) -> None:
    with pytest.raises(Malformed) as caught:
        decode(data=data)
    assert caught.value.reason == Reason.MISSING_IMAGE


def test_statement_is_read_as_the_server_reads_it() -> None:
    """MySQL fills a column that may not be null with zero,
    and takes a backslash for an escape and double quotes for a text.
    """
    sql = (
        "ALTER TABLE orders ADD quantity INT NOT NULL, ADD path VARCHAR(9) DEFAULT 'a\\\\b',"
        ' ADD mark VARCHAR(9) DEFAULT "x" '
    )
    (event,) = decode(type="ALTER", data=None, isDdl=True, sql=sql)
    assert isinstance(event, Control)
    (control,) = statement_events(event, FORMAT)
    assert [a.default for a in control.actions or () if isinstance(a, AddColumn)] == ["0", "a\\b", "x"]


@pytest.mark.parametrize("sql", [None, "", " "])
@pytest.mark.parametrize("fmt", [FORMAT, oms_canal.FORMAT])
def test_an_erasure_without_a_statement_drops_its_table(fmt: Format, sql: str | None) -> None:
    """The word has no other meaning in these messages."""
    (event,) = decode(fmt=fmt, type="ERASE", data=None, isDdl=True, sql=sql)
    assert isinstance(event, Control)
    (control,) = statement_events(event, fmt)
    assert (control.table, control.statement, control.actions) == ("orders", None, (DropTable(),))


def test_an_erasure_that_says_more_does_what_it_says() -> None:
    (named,) = decode(type="ERASE", data=None, isDdl=True, sql="DROP TABLE lines")
    (nowhere,) = decode(type="ERASE", data=None, isDdl=True, table="", sql="")
    assert isinstance(named, Control)
    assert isinstance(nowhere, Control)
    (control,) = statement_events(named, FORMAT)
    assert (control.table, control.actions) == ("lines", (DropTable(),))
    assert [e.actions for e in statement_events(nowhere, FORMAT)] == [(NoEffect("no table named"),)]
