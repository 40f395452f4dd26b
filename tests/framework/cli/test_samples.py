"""Commands that look at files read a sample of them, and say so."""

from __future__ import annotations

import gzip
import json
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
