"""The command line, `mainstem COMMAND`. Every command ends with one of four exit codes.

0: all applied. 1: failed. 2: usage or configuration. 3: ran to the end, but a table is parked or a quality
check failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from framework.spark.startup_errors import spark_missing

try:
    from framework.cli.commands import (
        demo,
        detect,
        doctor,
        forget,
        init,
        maintain,
        plan,
        repair,
        report,
        run,
        seed,
        sql,
        status,
        trace,
        validate,
    )
    from framework.cli.commands.reference import explain, formats
except ModuleNotFoundError as missing:
    if missing.name != "pyspark":
        raise
    sys.exit(f"error: {spark_missing()}")
from framework.cli.arguments import CommandParser, read_arguments
from framework.cli.options import Command
from framework.cli.terminal import accept_any_text, say_error, say_note
from framework.errors import MainstemError, brief

_COMMANDS = (
    run,
    plan,
    status,
    repair,
    seed,
    trace,
    forget,
    report,
    sql,
    maintain,
    validate,
    formats,
    detect,
    init,
    explain,
    doctor,
    demo,
)
"""In the order of the help."""
_PARKED = 3
_ENDINGS = {
    1: "failed",
    2: "usage or configuration",
    3: "ran to the end, but a table is parked or a quality check failed",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error is three lines, or a trace with `--debug`."""
    accept_any_text()
    options = read_arguments(command_line(), arguments)
    command: Command = options.command
    os.environ.update(options.env)
    try:
        return command(options)
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


def job(arguments: Sequence[str] | None = None) -> None:
    """Run one command as a task of a job; raises MainstemError TASK_FAILED unless all is applied.

    Databricks calls this function and sees only exceptions: with an exit code a failed run would look
    successful.
    """
    _raise_for(_code_of(arguments), arguments)


def step(arguments: Sequence[str] | None = None) -> None:
    """Run one command as a task of a job whose last task says how the run ends.

    It is as `job`, but exit code 3 is no failure: another attempt, as a failed task gets, does not fix a
    parked table or a broken rule.
    """
    code = _code_of(arguments)
    if code == _PARKED:
        say_note([f"{_ENDINGS[code]}; the last task of the job fails for it"])
    else:
        _raise_for(code, arguments)


def _code_of(arguments: Sequence[str] | None) -> int:
    try:
        return main(arguments)
    except SystemExit as end:  # argparse has shown the help, or does not understand the arguments
        return end.code if isinstance(end.code, int) else int(end.code is not None)


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
    return MainstemError(
        "UNEXPECTED_ERROR",
        found=brief(error),
        where=_as_typed(arguments),
        action="run again with --debug for the whole trace; a run can always be repeated",
    )


def _as_typed(arguments: Sequence[str] | None) -> str:
    return " ".join(("mainstem", *(sys.argv[1:] if arguments is None else arguments)))


def command_line() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = CommandParser(
        prog="mainstem", description="Change feeds to correct, typed, current Delta tables."
    )
    parser.add_argument("--version", action="version", version=f"mainstem {version('mainstem')}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser
