"""Equal rows of tables without a key, format by format: rows of one record are many, a redelivery is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Op
from silver.changes.deduplication import deduplicate
from silver.changes.pairing import NEW
from silver.changes.staged_rows import Row
from silver.formats import FORMATS
from tests.silver.changes.test_decode import normalized, plan

Message = dict[str, Any]


def debezium(source: Message, op: str = "c", **more: object) -> Message:
    images = {"before": {"v": 1} if op != "c" else None, "after": None if op == "d" else {"v": 1}}
    return {
        "op": op,
        **images,
        "ts_ms": 1709200800000,
        "source": {"db": "shop", "table": "t", **source},
        **more,
    }


BINLOG = {"connector": "mysql", "file": "bin.000003", "pos": 484}
SCN = {"connector": "oracle", "schema": "S", "scn": "12", "commit_scn": "14"}
COMMIT = {"connector": "sqlserver", "schema": "dbo", "commit_lsn": "00000027:00000758:0005"}
TICDC = {"connector": "TiCDC", "file": "", "pos": 0, "row": 0, "commit_ts": 447984074911121426}
MAXWELL = {"database": "shop", "table": "t", "type": "insert", "ts": 1709200800, "xid": 7, "data": {"v": 1}}
CANAL = {
    "database": "shop", "table": "t", "type": "INSERT", "es": 1709200800000, "isDdl": False, "sql": "",
    "pkNames": None, "mysqlType": {"v": "int"}, "old": None, "data": [{"v": "1"}],
}  # fmt: skip

RECORDS = {
    "maxwell by transaction": ("maxwell", MAXWELL),
    "maxwell by binlog": ("maxwell", {**MAXWELL, "position": "bin.000003:484"}),
    "maxwell, deletes": ("maxwell", {**MAXWELL, "type": "delete"}),
    "mysql without row": ("debezium", debezium(BINLOG)),
    "mysql without row, updates": ("debezium", debezium(BINLOG, "u")),
    "sql server without change_lsn": ("debezium", debezium(COMMIT)),
    "oracle by scn": ("debezium", debezium(SCN)),
    "oracle by scn, deletes": ("debezium", debezium(SCN, "d")),
    "ticdc, debezium": ("debezium", debezium(TICDC)),
    "ticdc, canal-json": ("canal", {**CANAL, "_tidb": {"commitTs": 447984074911121426}}),
    "postgresql": ("debezium", debezium({"connector": "postgresql", "schema": "s", "lsn": 24023128})),
}
FLAT = {"v": 1, "__op": "r", "__table": "t", "__schema": "s", "__source_snapshot": "true", "__lsn": 24023128}
LOADED = {"sequenceId": "-1", "timestamp": {"eventTime": -1}}
BLOB: Message = {
    "schema": {"dataColumn": [{"name": "v", "type": "LONG"}], "primaryKey": [],
               "source": {"dbType": "MySQL", "dbName": "shop", "tableName": "t"}},
    "payload": {"op": "INSERT", "after": {"dataColumn": {"v": 1}}, **LOADED}, "version": "0.0.1",
}  # fmt: skip
TUPLE = {
    "_sequence_id_": "-1", "_operation_type_": "I", "_excute_time_": "-1", "_source_table_": "t",
    "_before_image_": "N", "_after_image_": "Y", "v": 1,
}  # fmt: skip
ARCION = {
    "payload": {"before": None, "after": {"v": "x"}, "op": "r", "ts_ms": 1677139769357,
                "source": {"db": "shop", "table": "t", "file": None, "pos": None, "snapshot": "true"}},
}  # fmt: skip
OMS = {
    "prevStruct": None, "postStruct": {"v": 1}, "recordType": "ROW",
    "allMetaData": {"dbType": "OB_MYSQL", "table_name": "t", "db": "shop", "timestamp": "1609344671"},
}  # fmt: skip
LINDORM = {
    "payload": {"op": "r", "before": None, "after": {"v": 1}, "source": {"namespace": "s", "table": "t"}}
}
DMS = {
    "data": {"v": 1}, "metadata": {"timestamp": "2024-07-29T00:58:44.895275Z", "operation": "load",
                                   "schema-name": "shop", "table-name": "t"},
}  # fmt: skip


def snapshot(source: Message, op: str = "r", **more: object) -> Message:
    return {**debezium({**source, "snapshot": "true"}, **more), "op": op}


SNAPSHOTS = {
    "mysql": ("debezium", snapshot({**BINLOG, "row": 0})),
    "mysql, older": ("debezium", snapshot({**BINLOG, "row": 0}, "c")),
    "postgresql": ("debezium", snapshot({"connector": "postgresql", "schema": "s", "lsn": 24023128})),
    "oracle": ("debezium", snapshot({"connector": "oracle", "schema": "S", "scn": "12"})),
    "sql server": ("debezium", snapshot({**COMMIT, "change_lsn": None})),
    "flattened rows": ("debezium", FLAT),
    "flattened rows with a time": ("debezium", {**FLAT, "__ts_ms": 1709200800000}),
    "flink": ("debezium", snapshot({**BINLOG, "file": "", "pos": 0, "row": 0, "ts_ms": 0})),
    "arcion": ("arcion", ARCION),
    "blob": ("datahub_blob", BLOB),
    "tuple": ("datahub_tuple", TUPLE),
    "oms": ("oms_default", OMS),
    "canal": ("canal", {**CANAL, "type": "INIT"}),
    "maxwell": ("maxwell", {**MAXWELL, "type": "bootstrap-insert", "xid": None}),
    "lindorm": ("lindorm", LINDORM),
    "lindorm with a time": (
        "lindorm",
        {"payload": {**LINDORM["payload"], "source": {**LINDORM["payload"]["source"], "ts_ms": 5}}},
    ),
    "dms": ("dms", DMS),
}
"""Rows of a snapshot as each format writes them: without a position, or at one that they share."""
STREAMED = {
    "arcion": {"payload": {**ARCION["payload"], "op": "c",
                           "source": {"db": "shop", "table": "t", "file": "log.1", "pos": 7, "row": 0}}},
    "blob": {**BLOB, "payload": {**BLOB["payload"], "sequenceId": "5"}},
    "tuple": {**TUPLE, "_sequence_id_": "5"},
    "oms": {**OMS, "recordType": "INSERT"},
    "canal": CANAL,
    "maxwell": MAXWELL,
    "lindorm": {"payload": {**LINDORM["payload"], "op": "c",
                            "source": {"namespace": "s", "table": "t", "ts_ms": 5}}},
    "flink": debezium({**BINLOG, "row": 0}),
}  # fmt: skip
"""A change of the stream, where rows of the snapshot have no position."""
IDS = {
    "maxwell by transaction": "98687ea339db3954f5f02a9663e4da53",
    "maxwell by binlog": "7ff81c87d4c70ee97ab048cb7c48a0b6",
    "maxwell, deletes": "6f8c12f933736d6427bcf51bf9694aad",
    "mysql without row": "de41a48f9330c1c5131126074ac7e15c",
    "mysql without row, updates": "41a5e54e0bc3af9319e2e72df3b915a1",
    "sql server without change_lsn": "ca884a69bcea3779c3319ff9ea867d32",
    "oracle by scn": "2870d140923e2804b5b5d4e8fdd538bb",
    "oracle by scn, deletes": "f4a93160cfbbbfa546b1520ebc247474",
    "ticdc, debezium": "49ec1c02ab77bbe5439b0bb556b810f8",
    "ticdc, canal-json": "0d5bc5869ebc572831ff10dc669da866",
    "postgresql": "0405580b22906b8dd2ddbbdb14e678b9",
}
"""The ids of the first rows in release 0.1.0: a redelivery after an upgrade meets them."""
IDS_OF_SNAPSHOTS = {
    "mysql": "38c96e8ac8743641a16532a70d23a192",
    "mysql, older": "38c96e8ac8743641a16532a70d23a192",
    "postgresql": "754b3aa4be78a5147a3e8cd64f419e42",
    "oracle": "189c6f48fef094cc4099c70e79878f48",
    "sql server": "fd8c319bd56044ea1184b8cb47bb2acb",
    "flattened rows": "a7ad1ea438d67371c95972f93e6e1b3b",
    "flattened rows with a time": "0ebb1353857be2d3da744e5541d77cc3",
    "flink": "e64fb0e12baf68273ae5c1bc283d0eca",
    "arcion": "531e7e398b2d16f60b291af27ba6e988",
    "blob": "e64fb0e12baf68273ae5c1bc283d0eca",
    "tuple": "8247401c2fb4adca8335d03675af3e33",
    "oms": "e64fb0e12baf68273ae5c1bc283d0eca",
    "canal": "e64fb0e12baf68273ae5c1bc283d0eca",
    "maxwell": "e64fb0e12baf68273ae5c1bc283d0eca",
    "lindorm": "24c8a619b3ece11690ba1947e18454ce",
    "lindorm with a time": "bbd9b531cc5e0e092d7ad33bfeee13d8",
    "dms": "e421bb02c8eecdf12566bf3b4691ab3d",
}
"""The ids of the first rows before equal rows of a snapshot counted."""
TOMBSTONE: Message = {}


def decided(name: str, message: Message, at: list[int], other: Message | None = None) -> list[Row]:
    """The outcomes of the message at these offsets; `other` is between them."""
    values = dict.fromkeys(at, message)
    filled = [values.get(offset, other) for offset in range(max(at) + 1)]
    texts = [None if value is TOMBSTONE else json.dumps(value).encode() for value in filled]
    rows = [row for row in normalized(texts, plan(FORMATS[name])) if row["offset"] in values]
    return deduplicate([{**row, "origin": NEW} for row in rows])


@pytest.mark.parametrize("case", RECORDS)
def test_equal_rows_that_follow_each_other_are_as_many_rows(case: str) -> None:
    found = decided(*RECORDS[case], at=[0, 1, 2])
    assert [row["kind"] for row in found] == ["row", "row", "row"]
    assert len({row["change_id"] for row in found}) == 3


@pytest.mark.parametrize("case", RECORDS)
def test_the_rows_delivered_again_are_duplicates(case: str) -> None:
    found = decided(*RECORDS[case], at=[0, 1, 8, 9], other={"no": "change"})
    assert [row["kind"] for row in found] == ["row", "row", "duplicate", "duplicate"]


@pytest.mark.parametrize("case", RECORDS)
def test_equal_rows_with_a_row_of_another_table_between_are_as_many_rows(case: str) -> None:
    name, message = RECORDS[case]
    other = {**message, "table": "other", "source": {**message.get("source", {}), "table": "other"}}
    found = decided(name, message, at=[0, 2, 5], other=other)
    assert [row["kind"] for row in found] == ["row", "row", "row"]


def test_equal_deletes_with_their_tombstones_are_as_many_rows() -> None:
    name, message = RECORDS["oracle by scn, deletes"]
    found = decided(name, message, at=[0, 2], other=TOMBSTONE)
    assert [row["kind"] for row in found] == ["row", "row"]


@pytest.mark.parametrize("case", RECORDS)
def test_the_first_row_keeps_the_id_of_the_first_release(case: str) -> None:
    assert decided(*RECORDS[case], at=[0])[0]["change_id"] == IDS[case]


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_equal_rows_of_a_snapshot_that_follow_each_other_are_as_many_rows(case: str) -> None:
    found = decided(*SNAPSHOTS[case], at=[0, 1, 2])
    assert [(row["kind"], row["op"]) for row in found] == [("row", "read")] * 3
    assert len({row["change_id"] for row in found}) == 3


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_rows_of_a_snapshot_with_other_rows_of_it_between_are_as_many_rows(case: str) -> None:
    name, message = SNAPSHOTS[case]
    other = json.loads(json.dumps(message).replace(': "t"', ': "other"'))
    found = decided(name, message, at=[0, 2, 5], other=other)
    assert [row["kind"] for row in found] == ["row", "row", "row"]


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_a_snapshot_that_is_delivered_again_behind_changes_is_repeated(case: str) -> None:
    name, message = SNAPSHOTS[case]
    found = decided(name, message, at=[0, 1, 4, 5], other=STREAMED.get(case, {"no": "change"}))
    assert [row["kind"] for row in found] == ["row", "row", "duplicate", "duplicate"]


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_the_first_row_of_a_snapshot_keeps_its_id(case: str) -> None:
    assert decided(*SNAPSHOTS[case], at=[0])[0]["change_id"] == IDS_OF_SNAPSHOTS[case]


def test_a_row_that_was_read_at_a_nanosecond_is_one_row_however_often_it_is_sent() -> None:
    found = decided("debezium", snapshot(BINLOG, ts_ns=1709200800100000001), at=[0, 1])
    assert {row["change_id"] for row in found} == {"01d96561ed86bbc72cdd0302a1613e43"}
    assert [row["kind"] for row in found] == ["row", "duplicate"]


def test_each_format_with_snapshots_takes_part() -> None:
    reading = {name for name, fmt in FORMATS.items() if Op.READ in fmt.ops}
    assert reading - {name for name, _ in SNAPSHOTS.values()} == {"oms_default_extend", "oms_canal"}


def test_what_has_no_place_in_the_log_ends_no_snapshot() -> None:
    """A heartbeat, and a message that cannot be read: the row behind it is no second delivery."""
    beat = {**OMS, "recordType": "HEARTBEAT", "postStruct": None}
    for other in (beat, {"no": "change"}, TOMBSTONE):
        found = decided("oms_default", OMS, at=[0, 2], other=other)
        assert [row["kind"] for row in found] == ["row", "row"]


def test_a_second_bootstrap_of_maxwell_repeats_the_first() -> None:
    name, message = SNAPSHOTS["maxwell"]
    begin = {**message, "type": "bootstrap-start", "data": {}}
    found = decided(name, message, at=[1, 2, 4, 5], other=begin)
    assert [row["kind"] for row in found] == ["row", "row", "duplicate", "duplicate"]


def test_equal_rows_inside_a_message_keep_their_ids_beside_those_of_other_messages() -> None:
    message = {**CANAL, "type": "INIT", "data": [{"v": "1"}] * 2}
    alone = [row["change_id"] for row in decided("canal", message, at=[0])]
    ids = [row["change_id"] for row in decided("canal", message, at=[0, 1])]
    assert ids[:2] == alone
    assert len(set(ids)) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("canal", CANAL),
        ("maxwell", {**MAXWELL, "xid": None}),
        ("maxwell", {**MAXWELL, "primary_key_columns": ["v"]}),
    ],
)
def test_where_a_position_is_only_a_time_or_a_row_has_a_key_an_equal_row_is_a_duplicate(
    name: str, message: Message
) -> None:
    assert [row["kind"] for row in decided(name, message, at=[0, 1])] == ["row", "duplicate"]
