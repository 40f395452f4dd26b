"""The command line, `mainstem COMMAND`. Every command ends with one of four exit codes.

0: all applied. 1: failed. 2: usage or configuration. 3: ran to the end, but a table is parked or a quality
check failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import typer

from framework.cli import groups
from framework.cli.app import app
from framework.cli.arguments import wrong_arguments
from framework.cli.options import Options
from framework.cli.terminal import accept_any_text, say_error, say_note
from framework.errors import ConfigurationError, MainstemError, brief, place_of

__all__ = ["command_line", "groups", "job", "main", "read_options", "step"]

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for wrong arguments; it has no public name."""
_PARKED = 3
_ENDINGS = {
    1: "failed",
    2: "usage or configuration",
    3: "ran to the end, but a table is parked or a quality check failed",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error is three lines, or a trace with `--debug`."""
    accept_any_text()
    try:
        options = read_options(arguments)
    except ConfigurationError as error:
        say_error(error)
        return error.exit_code
    if isinstance(options, int):
        return options
    os.environ.update(options.env or ())
    try:
        return _function(options.command)(options)
    except MainstemError as error:
        if options.debug:
            raise
        say_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        say_error(_interrupted(arguments))
        return 1
    except BrokenPipeError:
        return 1
    except Exception as error:  # a bug, or the platform
        if options.debug:
            raise
        say_error(_unexpected(error, arguments))
        return 1


def read_options(arguments: Sequence[str] | None = None) -> Options | int:
    """The options of the command that the arguments name, None being those of the process.

    Returns:
        The options; the exit code instead, where the arguments ask for a help or the version, which is
        printed then.

    Raises:
        ConfigurationError: WRONG_ARGUMENTS, with the nearest name for a misspelt command, option or value.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        found: Options | int = command_line().main(words, prog_name="mainstem", standalone_mode=False)
    except _USAGE_ERROR as error:
        if not words:
            typer.echo(str(error))  # the help
            return 2
        named = [word for word in words[:1] if word in command_line().commands]
        raise wrong_arguments(error, named) from None
    return found


@cache
def command_line() -> Any:
    """The command of typer that has all others."""
    return typer.main.get_command(app)


def _function(name: str) -> Callable[[Options], int]:
    """The function `module:function`. Raises MainstemError PYSPARK_MISSING where Spark is not installed."""
    module, _, function = name.partition(":")
    try:
        found: Callable[[Options], int] = getattr(import_module(module), function)
    except ModuleNotFoundError as missing:
        if missing.name != "pyspark":
            raise
        from framework.spark.startup_errors import spark_missing

        raise spark_missing() from None
    return found


def job(arguments: Sequence[str] | None = None) -> None:
    """Run one command as a task of a job; raises MainstemError TASK_FAILED unless all is applied.

    Databricks calls this function and sees only exceptions: with an exit code a failed run would look
    successful.
    """
    _raise_for(main(arguments), arguments)


def step(arguments: Sequence[str] | None = None) -> None:
    """Run one command as a task of a job whose last task says how the run ends.

    It is as `job`, but exit code 3 is no failure: another attempt, as a failed task gets, does not fix a
    parked table or a broken rule.
    """
    code = main(arguments)
    if code == _PARKED:
        say_note([f"{_ENDINGS[code]}; the last task of the job fails for it"])
    else:
        _raise_for(code, arguments)


def _raise_for(code: int, arguments: Sequence[str] | None) -> None:
    if code:
        raise MainstemError(
            "TASK_FAILED",
            found=f"exit code {code}: {_ENDINGS.get(code, 'failed')}",
            where=_as_typed(arguments),
            action="read what was printed before this; fix the cause and run again: "
            "nothing is lost or doubled",
        )


def _interrupted(arguments: Sequence[str] | None) -> MainstemError:
    return MainstemError(
        "INTERRUPTED",
        found="the command was stopped from the keyboard",
        where=_as_typed(arguments),
        action="run again: nothing is lost or doubled",
    )


def _unexpected(error: Exception, arguments: Sequence[str] | None) -> MainstemError:
    place, typed = place_of(error), _as_typed(arguments)
    return MainstemError(
        "UNEXPECTED_ERROR",
        found=brief(error),
        where=typed if place is None else f"{place} ({typed})",
        action="run again with --debug for the whole trace; a run can always be repeated",
    )


def _as_typed(arguments: Sequence[str] | None) -> str:
    return " ".join(("mainstem", *(sys.argv[1:] if arguments is None else arguments)))
