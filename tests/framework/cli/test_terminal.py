from __future__ import annotations

import io
import json
import sys

import pytest

from framework.cli.terminal import GREEN, PLAIN, accept_any_text, say, say_error, say_json
from framework.errors import MainstemError
from framework.text.tables import aligned

HOSTILE = "a\x1b[2Jb\nok  shop.orders\x9b1m\u202ec"
SHOWN = "a⟨U+001B⟩[2Jb⏎ok  shop.orders⟨U+009B⟩1m⟨U+202E⟩c"


def test_foreign_text_stays_on_its_line_and_moves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    say(["first", HOSTILE])
    assert capsys.readouterr().out == f"first\n{SHOWN}\n"


def test_our_colours_stay_and_others_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    say([f"{GREEN}ok{PLAIN} \x1b[8mhidden"], is_painted=True)
    assert capsys.readouterr().out == f"{GREEN}ok{PLAIN} ⟨U+001B⟩[8mhidden\n"


def test_an_error_is_five_lines_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    say_error(MainstemError("BAD_KEY", found=HOSTILE, where="here", action="look"))
    shown = f"error: BAD_KEY\n  found: {SHOWN}\n  where: here\n  do:    look\n"
    assert capsys.readouterr().err == f"{shown}  more:  mainstem explain BAD_KEY\n"


def test_json_stays_json_and_has_no_unseen_character(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({HOSTILE: ["数量", "\ud800"]})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {HOSTILE: ["数量", "\ud800"]}
    assert printed.strip("\n").isprintable()
    assert "数量" in printed


def test_cells_of_a_table_keep_their_columns() -> None:
    assert aligned(("name", "n"), [("a\nb", "1"), ("abc", "2")]) == ["name  n", "a⏎b   1", "abc   2"]


def test_a_terminal_without_a_character_gets_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    accept_any_text()
    say(["数 ⏎"])
    assert written.getvalue() == b"\\u6570 \\u23ce\n"
