"""The commands that bring the tables up to date."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

from framework.cli.app import RUN, command
from framework.cli.options import (
    CONFIG,
    Config,
    Debug,
    Env,
    Json,
    OneTable,
    Verbose,
    WrongValue,
    choice,
    completion,
)

_LAYERS = ("bronze", "silver", "gold", "quality")
_INTERVAL = re.compile(r"([0-9]{1,6})\s*(s|m|h)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}


def interval(text: str | None) -> timedelta | None:
    """The length of time that a text such as `30s`, `5m` or `1h` names; None for None.

    Raises:
        WrongValue: The text names none, or none above zero.
    """
    if text is None:
        return None
    found = _INTERVAL.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise WrongValue(f"{text!r} is no interval", "write seconds, minutes or hours, as 30s, 5m or 1h")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@command(RUN, "plan:run", "mainstem plan --table shop.orders")
def plan(
    table: OneTable = None,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a run would do now; write nothing."""


@command(RUN, "run:run", "mainstem run", "mainstem run --table shop.orders", "mainstem run --continuous 30s")
def run(
    through: Annotated[
        str,
        typer.Option(
            "--through",
            metavar="|".join(_LAYERS),
            callback=choice(_LAYERS),
            autocompletion=completion(_LAYERS),
            help="The last layer to run.",
        ),
    ] = _LAYERS[-1],
    table: OneTable = None,
    without_quality: Annotated[
        bool,
        typer.Option(
            "--without-quality", metavar="", help="Leave the quality rules out: another task judges them."
        ),
    ] = False,
    continuous: Annotated[
        str | None,
        typer.Option(
            "--continuous",
            metavar="INTERVAL",
            callback=interval,
            help="Go on, a round every INTERVAL (30s, 5m, 1h), until SIGTERM or Ctrl-C.",
        ),
    ] = None,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Land, decode and apply all messages that wait."""
