"""The commands that keep the lakehouse small and lawful."""

from __future__ import annotations

from typing import Annotated

import typer

from framework.cli.app import UPKEEP, command
from framework.cli.options import CONFIG, Config, Debug, Env, Json, Null, OneTable, TableOrReplica

DAYS = 7
"""As `framework.cli.commands.maintain` has it, which imports Spark."""


@command(UPKEEP, "maintain:run", "mainstem maintain --days 30")
def maintain(
    table: OneTable = None,
    days: Annotated[
        int,
        typer.Option("--days", metavar="N", help="How long files stay that no table uses any more."),
    ] = DAYS,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compact tables, and remove files that nothing reads any more."""


@command(UPKEEP, "forget:run", "mainstem forget crm.customer id=17")
def forget(
    table: TableOrReplica,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COLUMN=VALUE", help="The whole key of the row, as the text that silver holds."
        ),
    ] = None,
    null: Null = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", metavar="", help="Also under its earlier and later keys."),
    ] = False,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Remove a row from all layers: a person who is to be forgotten."""
