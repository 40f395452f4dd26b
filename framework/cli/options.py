"""The options that several commands have, and what a command receives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Annotated

import typer

from framework.errors import ConfigurationError, suggested

CONFIG = "mainstem.yml"
"""Where the configuration is unless `--config` says otherwise."""

_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED_COLUMN = re.compile(r"`((?:[^`]|``)+)`=(.*)", re.DOTALL)


class Options(SimpleNamespace):
    """What a command receives: each of its options and arguments by name.

    `command` names the function that does the work, `module:function`. Every command has `debug`.
    """

    command: str
    debug: bool
    env: Sequence[tuple[str, str]] | None = None


class WrongValue(typer.BadParameter):
    """The value of an option is wrong; `advice` says what to write instead."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


def assignments(texts: Iterable[str] | None) -> list[tuple[str, str]]:
    """The pairs of texts `NAME=VALUE,NAME=VALUE`; none for None. A part without `=` continues a value.

    Raises:
        WrongValue: A text has another form.
    """
    return [pair for text in texts or () for pair in _assigned(text)]


def _assigned(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if part and not sign and pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]},{part}")
        elif sign and _VARIABLE.fullmatch(name):
            pairs.append((name, value))
        else:
            raise WrongValue(
                f"{name + sign!r} has no name and value",
                "write NAME=VALUE, or several of them with commas between them",
            )
    return pairs


def choice(allowed: Sequence[str]) -> Callable[[str | None], str | None]:
    """A check that a value is one of those allowed; it raises WrongValue with the nearest of them."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in allowed:
            raise WrongValue(f"{value!r} is unknown", suggested(value, allowed))
        return value

    return check


def completion(names: Sequence[str]) -> Callable[[str], list[str]]:
    """The completion of a shell: those of the names that begin as the user has typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def row_key(texts: Sequence[str] | None, nulls: Sequence[str] | None = None) -> dict[str, str | None]:
    """The key of a row from arguments `COLUMN=VALUE` and the columns that are null.

    A column whose name has a `=` stands in backticks.

    Raises:
        ConfigurationError: BAD_KEY where an argument has another form, a column comes twice, or none comes.
    """
    pairs = [_column_and_value(text) for text in texts or ()]
    if not pairs and not nulls:
        raise ConfigurationError(
            "BAD_KEY",
            found="no column of the row",
            where="COLUMN=VALUE",
            action="write the row as id=17, several columns apart",
        )
    for name, sign, _ in pairs:
        if not sign or not name:
            raise ConfigurationError(
                "BAD_KEY",
                found=f"{name!r}",
                where="COLUMN=VALUE",
                action="write the row as id=17, several columns apart",
            )
    values: list[tuple[str, str | None]] = [(name, value) for name, _, value in pairs]
    values += [(name, None) for name in nulls or ()]
    names = [name for name, _ in values]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                "BAD_KEY",
                found=f"the column {name!r} twice",
                where="COLUMN=VALUE",
                action="name each column once: a command is about one row, so repeat it for another one",
            )
    return dict(values)


def _column_and_value(text: str) -> tuple[str, str, str]:
    found = _QUOTED_COLUMN.fullmatch(text)
    return text.partition("=") if found is None else (found[1].replace("``", "`"), "=", found[2])


Config = Annotated[str, typer.Option("--config", "-c", metavar="FILE", help="The configuration file.")]
UnusedConfig = Annotated[str, typer.Option("--config", "-c", hidden=True)]
"""Of a command that reads no configuration: every command accepts the option."""
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME=VALUE",
        callback=assignments,
        help="A value of ${env:NAME} in the configuration, where no environment can be set; several with"
        " commas between them. No secrets.",
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print the result as one JSON object.")]
Debug = Annotated[bool, typer.Option("--debug", metavar="", help="Show the whole stack trace of an error.")]
Verbose = Annotated[bool, typer.Option("--verbose", metavar="", help="Log each step to standard error.")]
Null = Annotated[
    list[str] | None,
    typer.Option("--null", metavar="COLUMN", help="A column of the key that is null; again for another one."),
]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="The table as the feed names it: database.table or database.schema.table."
    ),
]
TableOrReplica = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table as the feed names it: database.table or database.schema.table, or its name in gold.",
    ),
]
OneTable = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="Only this table (database.table).")
]
