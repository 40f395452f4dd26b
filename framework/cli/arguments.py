"""Explains wrong arguments: what is wrong with them, and the nearest name that is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from framework.errors import ConfigurationError, nearest

_EXAMPLE = re.compile(r"\[bold\](.+?)\[/bold\]")
_WORDS = {
    "Input should be a valid integer, unable to parse string as an integer": "not a whole number",
    "Input should be a valid integer": "not a whole number",
}


def wrong_arguments(error: Any, command: Sequence[str] = ()) -> ConfigurationError:
    """The error WRONG_ARGUMENTS for an error of typer, with the nearest option for one that is unknown.

    `command` is the command, where the error does not tell it.
    """
    context = error.ctx
    path = context.command_path if context is not None else " ".join(("mainstem", *command))
    advice = getattr(error, "advice", None) or f"`{path} --help` shows what it takes"
    if type(error).__name__ == "MissingParameter":
        advice = _with_example(advice, context)
    option = getattr(error, "option_name", None)
    found = _in_our_words(error.format_message())
    if option is not None and type(error).__name__ == "NoSuchOption":
        found = f"no option {option}"
        known = [name for parameter in context.command.params for name in parameter.opts]
        close = nearest(option, [name for name in known if name.startswith("--")])
        advice = f"did you mean {close}? {advice}" if close else advice
        if context.parent is None and _is_of_a_command(option, context.command):
            advice = f"write options behind the command: `{path} COMMAND {option} …`"
    return ConfigurationError("WRONG_ARGUMENTS", found=_as_clause(found), where=path, action=advice)


def _with_example(advice: str, context: Any) -> str:
    """The advice, behind the first example of the command, if it has one."""
    example = _EXAMPLE.search(getattr(context.command, "epilog", None) or "") if context is not None else None
    return advice if example is None else f"for example `{example[1]}`; {advice}"


def _is_of_a_command(option: str, program: Any) -> bool:
    """Whether some command of the program has the option."""
    commands = getattr(program, "commands", {}).values()
    return any(option in parameter.opts for command in commands for parameter in command.params)


def _in_our_words(message: str) -> str:
    """A message without the words of the library that parses values."""
    for text, ours in _WORDS.items():
        message = message.replace(text, ours)
    return message


def _as_clause(message: str) -> str:
    """A message as it follows a colon: without a capital and a full stop."""
    text = " ".join(message.split())
    return f"{text[:1].lower()}{text[1:]}".removesuffix(".")
