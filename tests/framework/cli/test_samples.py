"""Commands that look at files read a sample of them, and say so."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from framework.cli import main

MESSAGES = 2_000_000


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    file = tmp_path / "landing" / "a.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress(b"{}\n" * MESSAGES))
    return file


def test_detect_reads_a_sample(endless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.process_time()
    main(["detect", str(endless), "--json"])
    assert time.process_time() - begun < 5
    answer = json.loads(capsys.readouterr().out)
    assert (answer["messages"], answer["is_sample"]) == (20_000, True)


def test_detect_says_that_it_read_a_sample(endless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["detect", str(endless)])
    assert "this is a sample: there are more messages" in capsys.readouterr().out


def test_detect_says_what_a_run_would_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(12):
        (tmp_path / os.fsdecode(b"b\xe4%d.json" % number)).write_bytes(b"{}\n")
    assert main(["detect", str(tmp_path)]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not read: ")]
    assert len(lines) == 11
    assert lines[0].startswith("not read: b\\xe40.json: a name that is not UTF-8")
    assert lines[-1] == "not read: 2 more entries"
    assert main(["detect", str(tmp_path), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["skipped"]) == 12


def test_init_says_why_no_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / os.fsdecode(b"b\xe4.json")).write_bytes(b"{}\n")
    main(["init", "--from", str(tmp_path), "--config", str(tmp_path / "mainstem.yml")])
    assert "not UTF-8" in capsys.readouterr().err


def test_events_end_at_the_limit(endless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["formats", "--events", str(endless), "--format", "debezium", "--limit", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines[1:4]] == ["a.gz:1", "a.gz:2", "a.gz:3"]
    assert lines[4:] == [
        "messages with events: 0, quarantined: 3",
        "there are more messages: --limit sets how many are decoded",
    ]


def test_events_have_a_limit_without_the_option(endless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["formats", "--events", str(endless), "--format", "debezium", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["messages"]), answer["is_sample"]) == (10_000, True)
