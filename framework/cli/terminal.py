"""The only place that prints: foreign text cannot move the cursor, change a colour or forge a line.

Names of tables, keys, files and topics come from whoever writes the feed. Every line passes through here, so
that a command does not have to know which of its words are foreign.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable

from framework.errors import ConfigurationError, MainstemError, brief
from framework.explanations import EXPLANATIONS
from framework.text.formatting import is_unseen, one_line

GREEN, RED, PLAIN = "\x1b[32m", "\x1b[1;31m", "\x1b[0m"
_COLOURS = re.compile("(" + "|".join(map(re.escape, (GREEN, RED, PLAIN))) + ")")


def accept_any_text() -> None:
    """Write characters that the terminal does not have as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def say(lines: Iterable[str], *, is_painted: bool = False, is_error: bool = False) -> None:
    """Print lines: each stays one line, and invisible characters are replaced by names (`⟨U+001B⟩`).

    With `is_painted` the colours of this module stay: foreign text in the lines has passed `one_line` before.
    """
    stream = sys.stderr if is_error else sys.stdout
    for line in lines:
        parts = _COLOURS.split(line) if is_painted else [line]
        print(
            "".join(part if is_painted and _COLOURS.fullmatch(part) else one_line(part) for part in parts),
            file=stream,
        )
    stream.flush()


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
