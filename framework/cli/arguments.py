"""Reads arguments; a misspelt command, option or choice is told with the nearest name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from framework.errors import nearest, suggested


class CommandParser(argparse.ArgumentParser):
    """A parser that names the nearest of the allowed values where a value is not allowed."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is not None and value not in choices:
            hint = suggested(str(value), map(str, choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} ({hint})")


def read_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of one command; None are those of the process.

    Raises SystemExit with code 2 where they are wrong, after printing the reason: an unknown option is named
    with the nearest option of the command.
    """
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        command: argparse.ArgumentParser = options.parser
        hints = [hint for text in unknown if (hint := _hint(text, command))]
        command.error(f"unrecognized arguments: {' '.join(unknown)}{''.join(hints)}")
    return options


def _hint(text: str, command: argparse.ArgumentParser) -> str:
    """What to write instead of an unknown option; empty where no option is similar."""
    name = text.partition("=")[0]
    known = [option for action in command._actions for option in action.option_strings]
    close = nearest(name, known) if name.startswith("--") else None
    return f" (did you mean {close}?)" if close else ""
