"""Messages in quarantine that nobody will decode are dismissed with a reason, and can be opened again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.archives import unpack
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import broken, command
from tests.end_to_end.test_without_java import ARCHIVE
from tests.end_to_end.test_without_java import command as without_java


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    """Three messages that no decoder reads, in two files."""
    shop = Shop(spark, tmp_path, "quality: {}\n")
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.0)), "no message", "none either"])
    shop.land(["nor this"])
    return shop


def dismiss(shop: Shop, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, found = command(shop, capsys, "dismiss", *words)
    assert code == 0
    return dict(found)


def counts(shop: Shop, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, int], dict[str, int], int]:
    """What `status` says is open, dismissed and without an outcome."""
    found = command(shop, capsys, "status")[1]
    return found["quarantined"], found["dismissed"], found["without_fate"]


@pytest.mark.slow
def test_dismissed_messages_are_counted_apart_and_opened_again_on_demand(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(shop, capsys, "run")[0] == 0
    first, because = ("--topic", "part-001.jsonl"), ("--because", 'it\'s "gone"; landed as part-2')
    listed = dismiss(shop, capsys, *first)
    assert (listed["messages"], listed["is_written"]) == (2, False)
    assert counts(shop, capsys) == ({"not_json": 3}, {}, 0)

    assert dismiss(shop, capsys, *first, *because, "--yes")["messages"] == 2
    version = shop.lake.version(shop.spark, "silver/quarantine")
    assert dismiss(shop, capsys, *first, *because, "--yes")["messages"] == 0
    assert shop.lake.version(shop.spark, "silver/quarantine") == version
    assert counts(shop, capsys) == ({"not_json": 1}, {"not_json": 2}, 0)
    rows = shop.lake.read(shop.spark, "silver/quarantine").where("dismissed_at IS NOT NULL").collect()
    assert {row["dismissed_because"] for row in rows} == {because[1]}
    assert all(row["dismissed_by"] and row["value"] for row in rows)
    assert main(["status", "-c", str(shop.folder / "mainstem.yml")]) == 0
    printed = capsys.readouterr().out
    assert "4 messages: 1 change, 0 control events, 0 duplicates, 1 quarantined, 2 dismissed" in printed
    assert "  dismissed    not_json: 2\n" in printed
    code, verified = command(shop, capsys, "status", "--verify")
    assert (code, broken(verified)) == (0, [])

    replayed = command(shop, capsys, "replay")[1]["counts"]
    assert replayed["messages"] == 1
    assert command(shop, capsys, "run")[0] == 0  # quality: one open message is left
    report = json.loads(without_java(shop.folder, "report", "--json").stdout)
    assert (report["totals"]["quarantined"], report["totals"]["dismissed"]) == (1, 2)
    assert [(d["rows"], d["because"]) for d in report["quarantine"]["dismissed"]] == [(2, because[1])]
    (rule,) = (r for r in report["quality"] if r["rule"] == "nothing_quarantined")
    assert rule["failed_count"] == 1
    metrics = without_java(shop.folder, "metrics").stdout
    assert 'outcome="dismissed"} 2.0' in metrics
    assert 'mainstem_messages_without_outcome{pipeline="shop"} 0.0' in metrics

    assert dismiss(shop, capsys, "--undo", "--offset", "2", "--yes")["messages"] == 1
    assert counts(shop, capsys) == ({"not_json": 2}, {"not_json": 1}, 0)


@pytest.mark.slow
def test_a_lost_quarantine_has_its_messages_open_again(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(shop, capsys, "run")[0] == 0
    dismiss(shop, capsys, "--reason", "not_json", "--because", "x", "--yes")
    shutil.rmtree(shop.folder / "lakehouse/silver/quarantine")
    assert main(["run", "-c", str(shop.folder / "mainstem.yml")]) == 0
    assert "messages that were dismissed are open again" in capsys.readouterr().err
    assert counts(shop, capsys) == ({"not_json": 3}, {}, 0)


@pytest.mark.slow
def test_a_replay_takes_up_dismissed_messages_when_asked_and_then_they_are_resolved(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    file = tmp_path / "mainstem.yml"
    text = (
        "pipeline: shop\nlakehouse: ./lakehouse\n"
        "sources:\n  feed: {format: oms_shareplex, files: ./landing}\n"
        "tables:\n  - {match: shop.line, keys: [KEYS]}\nquality: false\n"
    )
    file.write_text(text.replace("KEYS", "id, line, other"))
    meta = {"op": "ins", "table": "shop.line", "scn": "1", "seq": 1, "time": "2024-03-01T17:02:13"}
    shop.land([{"data": {"id": 7, "line": 1}, "meta": {**meta, "rowid": "shop.line-7\u00011"}}])
    command(shop, capsys, "run")
    assert dismiss(shop, capsys, "--source", "feed", "--because", "no key", "--yes")["messages"] == 1
    file.write_text(text.replace("KEYS", "id, line"))
    assert command(shop, capsys, "replay")[1]["counts"].get("changes", 0) == 0
    for changes in (1, 0):
        assert command(shop, capsys, "replay", "--dismissed")[1]["counts"].get("changes", 0) == changes
    assert counts(shop, capsys) == ({}, {}, 0)
    code, verified = command(shop, capsys, "status", "--verify")
    assert (code, broken(verified)) == (0, [])


@pytest.mark.slow
def test_messages_of_a_lakehouse_of_earlier_code_are_dismissed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    unpack(ARCHIVE, tmp_path)
    words = ["-c", str(tmp_path / "mainstem.yml"), "--json"]
    for yes, is_written in (((), False), (("--yes",), True)):
        capsys.readouterr()
        assert main(["dismiss", "--reason", "truncated", "--because", "cut", *yes, *words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["messages"], found["is_written"]) == (1, is_written)
    status = json.loads(without_java(tmp_path, "status", "--json").stdout)
    assert (status["quarantined"], status["dismissed"]) == ({"unknown_op": 1}, {"truncated": 1})
    assert status["without_fate"] == 0


@pytest.mark.parametrize(
    ("arguments", "found", "action"),
    [
        (["--yes", "--because", "x"], "no option says which messages", "--source, --reason, --topic"),
        (["--reason", "not_json", "--yes"], "no reason is given", '--because "TEXT"'),
        (["--reason", "not_json", "--because", " ", "--yes"], "no reason is given", '--because "TEXT"'),
        (["--offset", "x"], "--offset 'x' is no number", "--offset 17-20"),
        (["--offset", "9-2"], "ends before it begins", "write --offset 2-9"),
        (["--reason", "not_jsn"], "'not_jsn' is unknown", "did you mean 'not_json'?"),
    ],
)
def test_a_dismissal_that_is_not_said_well_is_refused(
    arguments: list[str], found: str, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dismiss", *arguments]) == 2
    error = capsys.readouterr().err
    assert found in error
    assert action in error


@pytest.mark.slow
def test_a_selection_that_fits_nothing_says_what_there_is(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(shop, capsys, "run", "--through", "silver")[0] == 0
    words = ["-c", str(shop.folder / "mainstem.yml")]
    assert main(["dismiss", "--source", "fed", *words]) == 0
    printed = capsys.readouterr()
    assert printed.out == "0 messages would be dismissed\n"
    assert "3 messages are open in quarantine, and none fits: `mainstem dismiss` lists them" in printed.err
    assert main(["dismiss", *words]) == 0
    printed = capsys.readouterr()
    assert "feed    part-001.jsonl  not_json  2         2 to 3\n" in printed.out
    assert 'nothing is written yet: add --because "TEXT" --yes and options that select' in printed.err
