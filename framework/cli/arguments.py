"""Explains wrong arguments: what is wrong with them, and the nearest name that is right."""

from __future__ import annotations

from typing import Any

from framework.errors import ConfigurationError, nearest


def wrong_arguments(error: Any) -> ConfigurationError:
    """The error WRONG_ARGUMENTS for an error of typer, with the nearest option for one that is unknown."""
    context = error.ctx
    path = context.command_path if context is not None else "mainstem"
    advice = getattr(error, "advice", None) or f"`{path} --help` shows what it takes"
    option = getattr(error, "option_name", None)
    found = error.format_message()
    if option is not None and type(error).__name__ == "NoSuchOption":
        found = f"no option {option}"
        known = [name for parameter in context.command.params for name in parameter.opts]
        close = nearest(option, [name for name in known if name.startswith("--")])
        advice = f"did you mean {close}? {advice}" if close else advice
        if context.parent is None and _is_of_a_command(option, context.command):
            advice = f"write options behind the command: `{path} COMMAND {option} …`"
    return ConfigurationError("WRONG_ARGUMENTS", found=_as_clause(found), where=path, action=advice)


def _is_of_a_command(option: str, program: Any) -> bool:
    """Whether some command of the program has the option."""
    commands = getattr(program, "commands", {}).values()
    return any(option in parameter.opts for command in commands for parameter in command.params)


def _as_clause(message: str) -> str:
    """A message as it follows a colon: without a capital and a full stop."""
    text = " ".join(message.split())
    return f"{text[:1].lower()}{text[1:]}".removesuffix(".")
