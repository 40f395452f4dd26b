"""`mainstem formats --events`: messages in, what their decoder says of them out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.cli.event_lines import json_lines

INSERT = (
    '{"_operation_type_":"I","_execute_time_":1709200800000,"_before_image_":"N",'
    '"_after_image_":"Y","_sequence_id_":"7","_source_table_":"orders","id":1,"note":"a"}\n'
)
CONFIG = """pipeline: shop
lakehouse: lake
sources:
  erp:
    format: datahub_tuple
    files: landing
tables:
  - match: erp.orders
    keys: [id]
"""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["formats", *arguments]) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    (tmp_path / "mainstem.yml").write_text(CONFIG)
    path = tmp_path / "feed.jsonl"
    path.write_text(INSERT + INSERT.replace('"I"', '"X"'))
    return path


def test_a_message_is_shown_as_its_events(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--events", str(feed), "--format", "datahub_tuple", "--key", "id").splitlines() == [
        f"{feed} as datahub_tuple",
        "feed.jsonl:1",
        "  {",
        '    "op": "insert",',
        '    "database": "feed",',
        '    "schema": null,',
        '    "table": "orders",',
        '    "keys": ["id"],',
        '    "before": null,',
        '    "after": {"id": "1", "note": "a"},',
        '    "columns": {"id": {"token": "number"}, "note": {"token": "text"}},',
        '    "position": [7],',
        '    "event_time": 1709200800000000',
        "  }",
        "feed.jsonl:2  quarantined: unknown_op (X)",
        "messages with events: 1, quarantined: 1",
    ]


def test_json_has_the_form_of_the_fixtures(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(shown(capsys, "--events", str(feed), "--format", "datahub_tuple", "--json"))
    assert answer["format"] == "datahub_tuple"
    first, second = answer["messages"]
    assert (first["file"], first["line"], first["events"][0]["after"]) == (
        "feed.jsonl",
        1,
        {"id": "1", "note": "a"},
    )
    assert second == {"file": "feed.jsonl", "line": 2, "malformed": "unknown_op", "detail": "X"}


def test_a_source_gives_the_format_and_its_settings(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(feed.parent / "mainstem.yml")
    answer = shown(capsys, "-c", config, "--events", str(feed), "--source", "erp", "--json")
    (event,) = json.loads(answer)["messages"][0]["events"]
    assert (event["database"], event["keys"]) == ("erp", ["id"])
    wrong = ("-c", config, "--events", str(feed), "--source")
    assert "did you mean 'erp'?" in shown(capsys, *wrong, "erb", code=2)
    assert "FORMATS_DIFFER" in shown(capsys, *wrong, "erp", "--format", "canal", code=2)


def test_without_a_format_the_detected_one_holds(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{feed} as datahub_tuple" in shown(capsys, "--events", str(feed))
    feed.write_text("nothing known\n")
    assert "FORMAT_NOT_CLEAR" in shown(capsys, "--events", str(feed), code=2)


def test_arguments_that_fit_nothing_are_errors(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = shown(capsys, "--events", str(feed), "--format", "datahub_tupel", code=2)
    assert "did you mean datahub_tuple?" in wrong
    assert "NO_MESSAGES" in shown(capsys, "--format", "canal", code=2)
    assert "NO_SUCH_PATH" in shown(capsys, "--events", str(feed) + "x", "--format", "canal", code=2)


def test_keys_and_null_values_come_from_kcat_lines(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed.write_text('{"topic":"t","partition":0,"offset":3,"key":"{\\"id\\":1}","payload":null}\n')
    answer = json.loads(shown(capsys, "--events", str(feed), "--format", "datahub_tuple", "--json"))
    assert answer["messages"][0]["events"] == [{"kind": "tombstone", "op": "tombstone"}]


def test_a_value_cannot_move_the_cursor(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed.write_text(INSERT.replace('"a"', '"\\u001b[2J\\nx\\u202e"'))
    printed = shown(capsys, "--events", str(feed), "--format", "datahub_tuple")
    assert "\x1b" not in printed
    assert "\u202e" not in printed


def test_a_wide_object_has_a_line_for_each_member_and_long_lines_are_cut() -> None:
    lines = list(json_lines({"after": {"a": "x" * 3_000, "b": None}, "keys": ["a"]}))
    assert lines[:2] == ["{", '  "after": {']
    assert len(lines[2]) == 2_000
    assert lines[3:] == ['    "b": null', "  },", '  "keys": ["a"]', "}"]


def test_no_session_is_started(feed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = SparkSession.getActiveSession()
    assert shown(capsys, "--events", str(feed), "--format", "datahub_tuple")
    assert SparkSession.getActiveSession() is before
