from __future__ import annotations

import io
import json
import re
import sys

import pytest

from framework.cli.terminal import accept_any_text, say, say_error, say_json
from framework.errors import MainstemError
from framework.text.tables import TextTable, aligned

HOSTILE = "a\x1b[2Jb\nok  shop.orders\x9b1m\u202ec"
SHOWN = "a⟨U+001B⟩[2Jb⏎ok  shop.orders⟨U+009B⟩1m⟨U+202E⟩c"


def test_foreign_text_stays_on_its_line_and_moves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    say(["first", HOSTILE])
    assert capsys.readouterr().out == f"first\n{SHOWN}\n"


class Terminal(io.StringIO):
    """A terminal of 40 columns."""

    def isatty(self) -> bool:
        return True


def opened_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard output as a terminal; not a fixture, as pytest sets it again before a test."""
    found = Terminal()
    monkeypatch.setattr("sys.stdout", found)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return found


def test_a_table_fits_the_terminal_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened_terminal(monkeypatch)
    text = " ".join(f"word{number}" for number in range(20))
    say([TextTable(("table", "state", "reason"), [("shop.orders", "parked", text)], indent=1)])
    lines = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert "".join("".join(line[22:] for line in lines[1:]).split()) == text.replace(" ", "")


def test_states_have_colours_and_foreign_text_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened_terminal(monkeypatch)
    table = TextTable(("", ""), [("ok", "[red]a[/red] \x1b[8mhidden"), ("PARKED", HOSTILE)])
    monkeypatch.setenv("COLUMNS", "200")
    say([table])
    shown = terminal.getvalue()
    assert "\x1b[32mok" in shown
    assert "\x1b[1;31mPARKED" in shown
    assert "[red]a[/red] ⟨U+001B⟩[8mhidden" in shown
    assert SHOWN in shown
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.truncate(0)
    say([table])
    assert "\x1b[32m" not in terminal.getvalue()


def test_elsewhere_each_row_of_a_table_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    say([TextTable(("name", "n"), [("a" * 200, "1"), ("b", HOSTILE)], indent=1)])
    assert capsys.readouterr().out.splitlines() == [
        " name" + " " * 198 + "n",
        " " + "a" * 200 + "  1",
        " b" + " " * 201 + SHOWN,
    ]


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


def test_a_table_without_heads_has_its_rows_alone() -> None:
    assert TextTable(("", ""), [("a", "1"), ("bc", "2")], indent=2).lines() == ["  a   1", "  bc  2"]


def test_a_terminal_without_a_character_gets_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    accept_any_text()
    say(["数 ⏎"])
    assert written.getvalue() == b"\\u6570 \\u23ce\n"
