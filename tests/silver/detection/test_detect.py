from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bronze.files.peek import peek_messages
from framework.contracts.file_messages import FiledMessage
from framework.contracts.messages import RawMessage
from framework.demo import feeds
from framework.errors import ConfigurationError
from silver.decoding.json_reader import BY_PARTITION
from silver.detection.detect import MOST_TABLES, Detector, detect
from silver.detection.evidence import SHOWN_LINES
from silver.detection.evidence import conclusion as answer_of
from silver.detection.signatures import share_envelope
from silver.formats import FORMATS
from tests.silver.recorded import SCENARIOS, messages_of

SAMPLES = Path(__file__).parents[3] / "framework" / "demo" / "samples"


def filed(values: Iterable[bytes], file: str = "feed.jsonl") -> list[FiledMessage]:
    return [
        FiledMessage(file, n, "lines", RawMessage("", file, 0, n, None, None, value))
        for n, value in enumerate(values, 1)
    ]


def answer(values: Iterable[bytes]) -> dict[str, Any]:
    return detect(filed(values), FORMATS)


def only(found: dict[str, Any]) -> dict[str, Any]:
    (named,) = found["formats"]
    assert isinstance(named, dict)
    return named


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.iterdir()))
def test_every_sample_feed_is_named_with_certainty(name: str) -> None:
    found = detect(peek_messages(SAMPLES / f"{name}.jsonl"), FORMATS)
    named = only(found)
    assert (named["name"], named["or"], named["confidence"], found["unread_count"]) == (name, [], 1.0, 0)
    assert named["evidence"]
    assert all(table["ops"] for table in named["tables"])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_messages_are_named_or_the_doubt_is_said(scenario: str) -> None:
    name = scenario.partition("/")[0]
    messages = [FiledMessage("feed", m.offset + 1, "lines", m) for m in messages_of(scenario)]
    found = detect(messages, FORMATS)
    for named in found["formats"]:
        assert name in {named["name"], *named["or"]}, named
        assert not named["or"] or all(share_envelope(FORMATS, named["name"], other) for other in named["or"])
    assert sum(f["messages"] for f in found["formats"]) + found["unread_count"] + found["tombstones"] == len(
        messages
    )
    assert sum(found["unread_reasons"].values()) == found["unread_count"]


def test_all_recorded_feeds_in_one_folder_are_distinguished() -> None:
    messages = [
        FiledMessage(s.partition("/")[0], n, "lines", m)
        for s in SCENARIOS
        if not s.endswith(("malformed", "control"))
        for n, m in enumerate(messages_of(s), 1)
    ]
    found = detect(messages, FORMATS)
    assert {named["name"] for named in found["formats"]} == set(FORMATS)
    assert found["is_mixed"]
    for file in found["files"]:
        assert set(file["formats"]) <= {file["file"]}


def blob(op: str, version: str) -> bytes:
    return json.dumps(
        {"schema": {}, "payload": {"op": op, "timestamp": {"eventTime": 1605339932000}}, "version": version}
    ).encode()


def test_version_and_words_distinguish_blob_and_dataworks() -> None:
    assert only(answer([blob("MHEARTBEAT", "1.0.0")]))["name"] == "datahub_blob"
    assert only(answer([blob("HEARTBEAT", "2.0")]))["name"] == "oms_dataworks"
    assert only(answer([blob("TRANSACTION_BEGIN", "2.0")]))["name"] == "oms_dataworks"


def flat(**members: Any) -> bytes:
    message = {
        "database": "shop",
        "table": "orders",
        "type": "INSERT",
        "es": 1609344671000,
        "isDdl": False,
        "pkNames": ["id"],
        **members,
    }
    return json.dumps(message).encode()


CANAL = flat(id=7, data=[{"id": "1"}], mysqlType={"id": "int(11)"})
OMS = flat(data=[{"id": 1}], mysqlType={"id": "int"})
EITHER = flat(data=[{"id": "x"}], mysqlType={"id": "varchar"})


def test_marks_distinguish_the_flavours_of_canal() -> None:
    assert only(answer([CANAL]))["evidence"] == ["1 message with the batch number id"]
    assert only(answer([OMS]))["evidence"] == ["1 message with numbers written as JSON numbers"]


def test_messages_without_a_mark_are_in_doubt() -> None:
    named = only(answer([EITHER, EITHER]))
    assert (named["name"], named["or"], named["confidence"], named["messages"]) == (
        "canal",
        ["oms_canal"],
        0.5,
        2,
    )
    assert "nothing in them tells which" in named["evidence"][0]


def test_messages_without_a_mark_go_with_the_proof_beside_them() -> None:
    named = only(answer([EITHER, OMS, EITHER, OMS, OMS]))
    assert (named["name"], named["or"], named["messages"], named["confidence"]) == ("oms_canal", [], 5, 0.96)


def test_proof_in_the_same_file_comes_before_proof_elsewhere() -> None:
    found = detect([*filed([CANAL] * 9, "a"), *filed([OMS, EITHER], "b")], FORMATS)
    assert found["is_mixed"]
    assert {f["file"]: f["formats"] for f in found["files"]} == {"a": {"canal": 9}, "b": {"oms_canal": 2}}
    assert [(f["name"], f["tables"][0]["ops"]) for f in found["formats"]] == [
        ("canal", {"insert": 9}),
        ("oms_canal", {"insert": 2}),
    ]


def test_a_broken_message_with_a_mark_is_not_taken_for_another_format_of_its_envelope() -> None:
    found = answer([CANAL, flat(_tidb={"commitTs": -7}, data=[{"id": "1"}])])
    assert only(found)["messages"] == 1
    assert found["unread"] == [
        {
            "file": "feed.jsonl",
            "line": 2,
            "as": "canal",
            "reason": "bad_position",
            "detail": "_tidb.commitTs is no whole number",
        }
    ]


def test_an_envelope_without_a_connector_is_that_of_an_old_debezium() -> None:
    source = {
        "version": "0.8.3.Final",
        "name": "a",
        "server_id": 1,
        "file": "bin.000003",
        "pos": 4,
        "row": 0,
        "db": "shop",
        "table": "t",
    }
    message = {"before": None, "after": {"id": "1"}, "source": source, "op": "c", "ts_ms": 1486501486308}
    named = only(answer([json.dumps({"schema": {}, "payload": message}).encode()]))
    assert (named["name"], named["or"], named["confidence"]) == ("debezium", [], 1.0)
    assert named["evidence"] == ["1 message with a source without connector, as old releases have it"]
    message["source"] = {**source, "connector": "MYSQL"}
    assert only(answer([json.dumps({"schema": {}, "payload": message}).encode()]))["name"] == "arcion"


def test_a_message_with_a_mark_of_no_known_format_is_of_the_only_format_that_reads_it() -> None:
    change = {
        "table": "SHOP.ORDERS",
        "op_type": "I",
        "op_ts": "2024-02-29 10:00:00",
        "pos": "7",
        "after": {"id": 1},
    }
    found = answer([json.dumps({**change, "source": {"connector": "mysql"}}).encode()])
    assert (only(found)["name"], found["unread_count"]) == ("ogg", 0)


def test_tables_keys_and_changes_are_counted() -> None:
    named = only(detect(peek_messages(SAMPLES / "datahub_tuple.jsonl"), FORMATS))
    (table,) = named["tables"]
    assert (table["database"], table["table"], table["keys"]) == ("feed", "price", [])
    assert "update (before half)" in table["ops"]


def test_lines_that_fit_no_format_are_listed_and_counted() -> None:
    found = answer([OMS, b"<html>", b'{"a": 1}', OMS.replace(b"INSERT", b"MERGE"), b'{"type":'])
    assert found["unread_count"] == 4
    assert found["unread_reasons"] == {"wrong_shape": 1, "not_json": 1, "unknown_op": 1, "truncated": 1}
    assert [(u["line"], u["reason"], u["as"]) for u in found["unread"]] == [
        (2, "not_json", None),
        (3, "wrong_shape", "oms_canal"),
        (4, "unknown_op", "oms_canal"),
        (5, "truncated", None),
    ]


def test_a_feed_of_no_format_has_none() -> None:
    found = answer([b'{"hello": "world"}', b"text"])
    assert found["formats"] == []
    assert found["unread"][0]["as"] is None


def test_memory_does_not_grow_with_the_feed() -> None:
    detector = Detector(FORMATS)
    for message in filed(b'{"a%d": 1}' % n for n in range(3_000)):
        detector.take(message)
    assert len(detector.shapes) <= 1_000
    assert len(answer_of(detector.found)["unread"]) == SHOWN_LINES
    for message in filed(OMS.replace(b"orders", b"t%d" % n) for n in range(MOST_TABLES + 10)):
        detector.take(message)
    assert len(only(answer_of(detector.found))["tables"]) == MOST_TABLES


def test_files_lines_kcat_and_compressed_are_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jsonl").write_bytes(OMS + b"\r\n\n" + OMS)
    kcat = {
        "topic": "t",
        "partition": 3,
        "offset": 9,
        "key": "k",
        "payload": OMS.decode(),
        "headers": ["h", "v"],
        "ts": 1,
        "tstype": "create",
    }
    (tmp_path / "sub" / "b.gz").write_bytes(
        gzip.compress(json.dumps(kcat).encode() + b"\n" + json.dumps({**kcat, "payload": None}).encode())
    )
    (tmp_path / "_hidden").write_bytes(b"x")
    (tmp_path / ".hidden").write_bytes(b"x")
    seen = list(peek_messages(tmp_path))
    assert [(f.file, f.line, f.layout) for f in seen] == [
        ("a.jsonl", 1, "lines"),
        ("a.jsonl", 3, "lines"),
        ("sub/b.gz", 1, "kcat"),
        ("sub/b.gz", 2, "kcat"),
    ]
    assert seen[2].message == RawMessage("", "t", 3, 9, 1000, b"k", OMS, (("h", b"v"),))
    found = detect(seen, FORMATS)
    assert (only(found)["messages"], found["tombstones"], found["layouts"]) == (3, 1, {"lines": 2, "kcat": 2})


def test_a_path_that_is_not_there_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        list(peek_messages(tmp_path / "none"))
    assert (caught.value.condition, caught.value.exit_code) == ("NO_SUCH_PATH", 2)


def test_a_broken_file_is_a_line_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(OMS + b"\n")[:-12])
    found = detect(peek_messages(tmp_path), FORMATS)
    assert found["unread_reasons"] == {"unreadable": 1}
    assert found["unread"][0]["reason"] == "unreadable"


def near(values: Iterable[bytes]) -> dict[str, Any]:
    return detect(filed(values), FORMATS, samples=feeds.sample)


def test_a_feed_that_lacks_something_is_named_by_what_it_looks_like_and_lacks() -> None:
    lacking = flat(id=7, data=[{"id": "1"}], mysqlType={"id": "int(11)"}, es=None)
    found = near([lacking] * 3)
    assert found["formats"] == []
    detail = f"es is missing: {BY_PARTITION}"
    assert found["nearest"] == [
        {"name": "canal", "or": [], "lines": 3, "reason": "missing_position", "detail": detail}
    ]
    assert {(u["as"], u["detail"]) for u in found["unread"]} == {("canal", detail)}
    assert found["unread_reasons"] == {"missing_position": 3}


LACKING = [
    (name, json.dumps({member: value for member, value in document.items() if member != lost}).encode(), lost)
    for name, lost in [
        ("canal", "type"),
        ("maxwell", "database"),
        ("debezium", "op"),
        ("debezium", "source"),
        ("ogg", "op_type"),
        ("oms_default", "recordType"),
        ("oms_dataworks", "version"),
        ("datahub_blob", "payload"),
        ("datahub_tuple", "_operation_type_"),
        ("datahub_tuple", "_source_table_"),
        ("oms_shareplex", "data"),
        ("dms", "metadata"),
    ]
    for document in [json.loads((SAMPLES / f"{name}.jsonl").read_text().splitlines()[0])]
    if lost in document
]


@pytest.mark.parametrize(("name", "value", "lost"), LACKING)
def test_a_message_without_one_member_looks_like_its_format(name: str, value: bytes, lost: str) -> None:
    found = near([value])
    assert (
        found["formats"]
        or not found["nearest"]
        or name in {found["nearest"][0]["name"], *found["nearest"][0]["or"]}
    )
    assert (found["formats"] or found["nearest"]) or lost in ("payload", "metadata"), (
        "what is left of these is nobody's"
    )


def test_a_message_of_nobody_looks_like_nothing() -> None:
    found = near([b'{"hello": "world"}', b'{"id": 1, "name": "Ann", "data": 2}'])
    assert found["nearest"] == []
    assert found["unread"][0]["detail"] == "no format has such members"


def test_lines_that_fit_no_format_speak_against_the_format() -> None:
    assert only(answer([OMS, OMS, OMS, b"<html>"]))["confidence"] == 0.75
    assert only(answer([*[OMS] * 299, b"<html>"]))["confidence"] == 0.99
    assert only(answer([EITHER, b"<html>"]))["confidence"] == 0.25


MESSAGE = json.dumps({"hello": {"world": [1, {"a": "b"}]}, "more": [], "text": "a", "none": None})
REST = {"topic": "t", "partition": 0, "offset": 4, "key": None, "value": json.loads(OMS)}
CAUSES = [
    ("several_lines", json.dumps(json.loads(OMS), indent=2).encode(), "jq -c ."),
    (
        "several_lines",
        b"\n".join(json.dumps(json.loads(m), indent=4).encode() for m in (OMS, MESSAGE.encode(), OMS)),
        "jq -c .",
    ),
    ("array", b"[" + OMS + b"," + OMS + b"]", "jq -c '.[]'"),
    ("array", b"[\n" + OMS + b",\n" + OMS + b",\n" + OMS + b"]", "jq -c '.[]'"),
    ("array", json.dumps([json.loads(OMS)] * 9, indent=2).encode(), "jq -c '.[]'"),
    ("key_before", b"\n".join(b'{"id":1}\t' + OMS for _ in range(30)), "kcat -J"),
    ("key_before", b"1\t" + OMS + b"\n2\tnull", "kcat -J"),
    ("key_before", b"CreateTime:1709200800000\tkey\t" + OMS, "kcat -J"),
    ("envelope", b"\n".join(json.dumps({**REST, "offset": n}).encode() for n in range(30)), "jq -c '.value'"),
    ("envelope", json.dumps([REST, REST]).encode(), "jq -c '.[].value'"),
    ("envelope", json.dumps({"records": [{"value": json.loads(OMS)}]}).encode(), "jq -c '.records[].value'"),
    (
        "envelope",
        json.dumps({"value": {"type": "JSON", "data": json.loads(OMS)}}).encode(),
        "jq -c '.value.data'",
    ),
    ("utf16", (OMS.decode() + "\n" + OMS.decode()).encode("utf-16"), "iconv"),
    ("utf16", OMS.decode().encode("utf-16-be"), "iconv"),
]


@pytest.mark.parametrize(("cause", "content", "words"), CAUSES)
def test_a_file_that_is_written_in_another_way_gets_one_line_of_advice(
    tmp_path: Path, cause: str, content: bytes, words: str
) -> None:
    (tmp_path / "feed.json").write_bytes(content)
    found = detect(peek_messages(tmp_path), FORMATS, samples=feeds.sample)
    ((advised, files, text),) = [(each["cause"], each["files"], each["advice"]) for each in found["advice"]]
    assert (advised, files, found["unread"]) == (cause, ["feed.json"], [])
    assert words in text
    assert found["unread_reasons"] == {cause: found["unread_count"]}
    assert sum(each["messages"] for each in found["formats"]) <= 1, (
        "the last line of an array can be a message"
    )


@pytest.mark.parametrize(
    ("cause", "content", "words"),
    [
        ("zip", b"PK\x03\x04\x14\x00" + OMS, "unzip feed.json"),
        ("parquet", b"PAR1\x15\x04" + b"\n" * 9 + b"PAR1", "mainstem seed"),
        ("avro", b"Obj\x01\x04" + OMS, "JsonConverter"),
        ("packed", b"\x28\xb5\x2f\xfd" + OMS, "by gzip"),
        ("packed", bz2.compress(OMS), "by gzip"),
        ("packed", lzma.compress(OMS), "by gzip"),
    ],
)
def test_a_file_that_holds_no_lines_is_named_and_not_read(
    tmp_path: Path, cause: str, content: bytes, words: str
) -> None:
    (tmp_path / "feed.json").write_bytes(content)
    found = detect(peek_messages(tmp_path), FORMATS)
    ((advised, text),) = [(each["cause"], each["advice"]) for each in found["advice"]]
    assert (advised, found["messages"], found["unread_reasons"]) == (cause, 0, {cause: 1})
    assert words in text


def test_rows_with_separators_are_told_as_such_by_the_name_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "rows.CSV").write_bytes(b"id,name\n1,a\n2,b\n")
    (tmp_path / "feed.jsonl").write_bytes(OMS + b"\n1,a\n")
    found = detect(peek_messages(tmp_path), FORMATS)
    assert [(each["cause"], each["files"], each["lines"]) for each in found["advice"]] == [
        ("csv", ["rows.CSV"], 3)
    ]
    assert (only(found)["messages"], found["unread_count"], len(found["unread"])) == (1, 4, 1)


def test_gzip_under_a_wrong_name_is_read_and_reported_once(tmp_path: Path) -> None:
    (tmp_path / "feed.json").write_bytes(gzip.compress(b"\n".join([OMS] * 9)))
    (tmp_path / "other.gz").write_bytes(b"\n".join([OMS] * 9))
    found = detect(peek_messages(tmp_path), FORMATS)
    assert [(each["cause"], each["files"], each["lines"]) for each in found["advice"]] == [
        ("gzip", ["feed.json"], 1),
        ("no_gzip", ["other.gz"], 1),
    ]
    assert "mv feed.json feed.json.gz" in found["advice"][0]["advice"]
    assert (only(found)["messages"], found["unread_count"]) == (18, 2)


@pytest.mark.parametrize(
    "line",
    [
        b"<html>",
        b'{"type":',
        b"a\tb",
        b'"text"',
        b"7",
        b'{"value": 1, "other": 2}',
        b"null",
        b'{"records": [1]}',
    ],
)
def test_other_lines_are_shown_as_they_were(line: bytes) -> None:
    found = answer([OMS, line])
    assert (found["advice"], len(found["unread"])) == ([], 1)
