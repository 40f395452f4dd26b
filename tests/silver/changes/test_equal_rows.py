"""Equal rows of tables without a key, format by format: rows of one record are many, a redelivery is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
