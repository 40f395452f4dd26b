"""What the arguments of all commands have in common."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from framework.errors import ConfigurationError

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where each command adds its parser."""
Command = Callable[[argparse.Namespace], int]
"""A command: it returns its exit code."""

_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def add_command(subparsers: Subparsers, name: str, run: Command, *, help: str) -> argparse.ArgumentParser:
    """Add a command with the common options; returns its parser, for the options of its own."""
    parser = subparsers.add_parser(name, parents=[_common_options()], help=help)
    parser.set_defaults(command=run, parser=parser)
    return parser


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "-c", "--config", default="mainstem.yml", help="the configuration file (default ./mainstem.yml)"
    )
    common.add_argument(
        "--env",
        action="extend",
        default=[],
        type=_assignments,
        metavar="NAME=VALUE[,NAME=VALUE]",
        help="values of ${env:NAME} in the configuration, where no environment can be set; no secrets",
    )
    common.add_argument("--json", action="store_true", help="print the result as one JSON object")
    common.add_argument("--debug", action="store_true", help="show whole stack traces")
    common.add_argument("--verbose", action="store_true", help="log each step to standard error")
    return common


def _assignments(text: str) -> list[tuple[str, str]]:
    """The pairs of `NAME=VALUE,NAME=VALUE`. Raises ArgumentTypeError for a text that has not this form."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(sign and _VARIABLE.fullmatch(name) for name, sign, _ in pairs):
        raise argparse.ArgumentTypeError("write NAME=VALUE, or several of them with commas between them")
    return [(name, value) for name, _, value in pairs]


def row_key(texts: Sequence[str]) -> dict[str, str]:
    """The key of a row from arguments `COLUMN=VALUE`. Raises ConfigurationError BAD_KEY otherwise."""
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise ConfigurationError(
                "BAD_KEY",
                found=f"{name!r}",
                where="COLUMN=VALUE",
                action="write the row as id=17, several columns apart",
            )
    return {name: value for name, _, value in pairs}
