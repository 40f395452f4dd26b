from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bronze.look import look
from framework.contracts.lines import FiledMessage
from framework.contracts.raw import RawMessage
from framework.errors import ConfigurationError
from silver.detect import MOST_TABLES, Detector, detect
from silver.findings import SHOWN_LINES
from silver.findings import answer as answer_of
from silver.formats import FORMATS
from tests.silver.recorded import SCENARIOS, messages_of

SAMPLES = Path(__file__).parents[2] / "framework" / "demo" / "samples"
KIN = [{"canal", "oms_canal"}, {"oms_default", "oms_default_extend"}]


def filed(values: Iterable[bytes], file: str = "feed.jsonl") -> list[FiledMessage]:
    return [FiledMessage(file, n, "lines", RawMessage("", file, 0, n, None, None, value)) for n, value in enumerate(values, 1)]


def answer(values: Iterable[bytes]) -> dict[str, Any]:
    return detect(filed(values), FORMATS)


def only(found: dict[str, Any]) -> dict[str, Any]:
    (named,) = found["formats"]
    assert isinstance(named, dict)
    return named


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.iterdir()))
def test_every_sample_feed_is_named_with_certainty(name: str) -> None:
    found = detect(look(SAMPLES / f"{name}.jsonl"), FORMATS)
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
        assert not named["or"] or {named["name"], *named["or"]} in KIN
    assert sum(f["messages"] for f in found["formats"]) + found["unread_count"] + found["tombstones"] == len(messages)
    assert sum(found["unread_reasons"].values()) == found["unread_count"]


def test_all_recorded_feeds_in_one_folder_are_told_apart() -> None:
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
    return json.dumps({"schema": {}, "payload": {"op": op, "timestamp": {"eventTime": 1605339932000}}, "version": version}).encode()


def test_blob_and_dataworks_are_told_by_version_and_words() -> None:
    assert only(answer([blob("MHEARTBEAT", "1.0.0")]))["name"] == "datahub_blob"
    assert only(answer([blob("HEARTBEAT", "2.0")]))["name"] == "oms_dataworks"
    assert only(answer([blob("TRANSACTION_BEGIN", "2.0")]))["name"] == "oms_dataworks"


def flat(**members: Any) -> bytes:
    message = {"database": "shop", "table": "orders", "type": "INSERT", "es": 1609344671000, "isDdl": False, "pkNames": ["id"], **members}
    return json.dumps(message).encode()


CANAL = flat(id=7, data=[{"id": "1"}], mysqlType={"id": "int(11)"})
OMS = flat(data=[{"id": 1}], mysqlType={"id": "int"})
EITHER = flat(data=[{"id": "x"}], mysqlType={"id": "varchar"})


def test_canal_flavours_are_told_by_their_marks() -> None:
    assert only(answer([CANAL]))["evidence"] == ["1 messages with the batch number id"]
    assert only(answer([OMS]))["evidence"] == ["1 messages with numbers written as JSON numbers"]


def test_messages_without_a_mark_are_in_doubt() -> None:
    named = only(answer([EITHER, EITHER]))
    assert (named["name"], named["or"], named["confidence"], named["messages"]) == ("canal", ["oms_canal"], 0.5, 2)
    assert "nothing in them tells which" in named["evidence"][0]


def test_messages_without_a_mark_go_with_the_proof_beside_them() -> None:
    named = only(answer([EITHER, OMS, EITHER, OMS, OMS]))
    assert (named["name"], named["or"], named["messages"], named["confidence"]) == ("oms_canal", [], 5, 0.96)


def test_proof_in_the_same_file_comes_before_proof_elsewhere() -> None:
    found = detect([*filed([CANAL] * 9, "a"), *filed([OMS, EITHER], "b")], FORMATS)
    assert found["is_mixed"]
    assert {f["file"]: f["formats"] for f in found["files"]} == {"a": {"canal": 9}, "b": {"oms_canal": 2}}
    assert [(f["name"], f["tables"][0]["ops"]) for f in found["formats"]] == [("canal", {"insert": 9}), ("oms_canal", {"insert": 2})]


def test_a_broken_message_with_a_mark_is_not_taken_for_its_kin() -> None:
    found = answer([CANAL, flat(id=-7, data=[{"id": "1"}])])
    assert only(found)["messages"] == 1
    assert found["unread"] == [
        {"file": "feed.jsonl", "line": 2, "as": "canal", "reason": "bad_position", "detail": "id is no whole number"}
    ]


def test_a_message_with_a_mark_of_no_kin_is_what_alone_reads_it() -> None:
    change = {"table": "SHOP.ORDERS", "op_type": "I", "op_ts": "2024-02-29 10:00:00", "pos": "7", "after": {"id": 1}}
    found = answer([json.dumps({**change, "source": {"connector": "mysql"}}).encode()])
    assert (only(found)["name"], found["unread_count"]) == ("ogg", 0)


def test_tables_keys_and_changes_are_counted() -> None:
    named = only(detect(look(SAMPLES / "datahub_tuple.jsonl"), FORMATS))
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
    seen = list(look(tmp_path))
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
        list(look(tmp_path / "none"))
    assert (caught.value.condition, caught.value.exit_code) == ("NO_SUCH_PATH", 2)


def test_a_broken_file_is_a_line_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(OMS + b"\n")[:-12])
    found = detect(look(tmp_path), FORMATS)
    assert found["unread_reasons"] == {"unreadable": 1}
    assert found["unread"][0]["reason"] == "unreadable"
