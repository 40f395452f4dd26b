from __future__ import annotations

import json

import pytest

from framework.cli import main
from framework.cli.commands.reference.explain import explanation_lines
from framework.explanations import EXPLANATIONS, Explanation


def test_a_reason_of_quarantine_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "key_not_in_image"]) == 0
    assert "A row lacks a column of the key." in capsys.readouterr().out


def test_a_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "LEASE_HELD"]) == 0
    first, means, *rest = capsys.readouterr().out.splitlines()
    assert (first, means) == ("LEASE_HELD", "  means:   Another run of this pipeline is at work.")
    assert [line.split()[0] for line in rest if line[2] != " "] == ["why:", "do:", "example:"]


def test_lower_case_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "lease_held", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["code"] == "LEASE_HELD"
    assert answer["remedy"] == EXPLANATIONS["LEASE_HELD"].remedy


def test_letters_tell_a_reason_from_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for code in ("bad_value", "BAD_VALUE", "server_changed"):
        assert main(["explain", code]) == 0
        assert capsys.readouterr().out.splitlines()[0] == code


def test_a_former_name_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "SOURCE_UNKNOWN"]) == 0
    assert capsys.readouterr().out.startswith("UNKNOWN_SOURCE\n")


def test_a_misspelt_code_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "LEASE_HOLD"]) == 2
    assert capsys.readouterr().err == (
        "error: UNKNOWN_CODE\n  found: no error code 'LEASE_HOLD'\n  where: explain\n"
        "  do:    did you mean LEASE_HELD? `mainstem explain` lists all codes\n"
        "  more:  mainstem explain UNKNOWN_CODE\n"
    )


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert listed == list(EXPLANATIONS)
    assert main(["explain", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["errors"]) == len(EXPLANATIONS)


def test_long_sentences_are_wrapped_below_each_other() -> None:
    entry = Explanation("A_B", "one two three four.", "x.", "y.", "z.")
    assert list(explanation_lines(entry, 22)) == [
        "A_B",
        "  means:   one two",
        "           three four.",
        "  why:     x.",
        "  do:      y.",
        "  example: z.",
    ]
