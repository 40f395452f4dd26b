"""The only place that prints: foreign text cannot move the cursor, change a colour or forge a line.

Names of tables, keys, files and topics come from whoever writes the feed. Every line passes through here, so
that a command does not have to know which of its words are foreign.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TextIO

from framework.errors import ConfigurationError, MainstemError, brief
from framework.explanations import EXPLANATIONS
from framework.text.formatting import is_unseen, one_line
from framework.text.tables import TextTable

_STYLES = {"ok": "green", "active": "green", "parked": "bold red", "PARKED": "bold red", "PARK": "bold red"}
"""The colours of states, as far as a cell holds nothing else."""


def accept_any_text() -> None:
    """Write characters that the terminal does not have as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def say(lines: Iterable[str | TextTable], *, is_error: bool = False) -> None:
    """Print lines: each stays one line, and invisible characters are replaced by names (`⟨U+001B⟩`).

    A table is printed in the width of a terminal, its states in colours; elsewhere each row is a line.
    """
    stream = sys.stderr if is_error else sys.stdout
    for line in lines:
        if isinstance(line, str):
            print(one_line(line), file=stream)
        elif stream.isatty():
            _print_table(line, stream)
        else:
            for text in line.lines():
                print(text, file=stream)
    stream.flush()


def _print_table(table: TextTable, stream: TextIO) -> None:
    """Print a table on a terminal: cells that are too wide are folded, and nothing in them is markup."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=any(table.heads), pad_edge=False, padding=(0, 2, 0, 0))
    for head in table.heads:
        grid.add_column(Text(one_line(head), style="bold"), overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(one_line(cell), style=_STYLES.get(cell.strip(), "")) for cell in row))
    Console(file=stream, highlight=False).print(Padding(grid, (0, 0, 0, table.indent)))


def say_line(line: str) -> None:
    """Print one line."""
    say((line,))


def say_note(notes: Iterable[str]) -> None:
    """Print notes for people, beside the result."""
    say((f"note: {note}" for note in notes), is_error=True)


def say_error(error: Exception) -> None:
    """Print an error: a MainstemError in its three parts, a line each, and the command that explains it.

    All faults of a configuration are printed.
    """
    faults = error.faults if isinstance(error, ConfigurationError) else (error,)
    say((line for fault in faults for line in error_lines(fault)), is_error=True)


def error_lines(error: Exception) -> list[str]:
    """An error as lines of text."""
    if not isinstance(error, MainstemError):
        return [f"error: {brief(error)}"]
    parts = (("found", error.found), ("where", error.where), ("do", error.action))
    lines = [f"error: {error.condition}", *(f"  {f'{name}:':<7}{one_line(text)}" for name, text in parts)]
    return (
        [*lines, f"  more:  mainstem explain {error.condition}"] if error.condition in EXPLANATIONS else lines
    )


def say_json(value: object) -> None:
    """Print one JSON object; invisible characters are escaped in it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    print(text if text.isprintable() else "".join(_escaped(character) for character in text))


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if is_unseen(character) else character


def say_text(text: str) -> None:
    """Print a text of our own, as it is."""
    print(text, end="")
