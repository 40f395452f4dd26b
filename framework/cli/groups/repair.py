"""The commands that repair tables from what the lakehouse holds, or from a dump."""

from __future__ import annotations

from typing import Annotated

import typer

from framework.cli.app import REPAIR, command
from framework.cli.options import CONFIG, Config, Debug, Env, Json, TableName, choice, completion

_ORIGINS = ("silver", "bronze")


@command(REPAIR, "repair:replay", "mainstem replay")
def replay(config: Config = CONFIG, env: Env = None, json: Json = False, debug: Debug = False) -> None:
    """Decode the messages in quarantine again, and apply the result."""


@command(
    REPAIR, "repair:rebuild", "mainstem rebuild shop.orders", "mainstem rebuild shop.orders --from bronze"
)
def rebuild(
    table: TableName,
    origin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="|".join(_ORIGINS),
            callback=choice(_ORIGINS),
            autocompletion=completion(_ORIGINS),
            help="bronze: decode the messages of the table again first.",
        ),
    ] = _ORIGINS[0],
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Build one table again from all its changes."""


@command(REPAIR, "seed:run", "mainstem seed shop.orders --from orders.csv --position binlog.000003:1547")
def seed(
    table: TableName,
    origin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE",
            help="The dump: CSV, Parquet, a folder of such files, a Delta table.",
        ),
    ],
    position: Annotated[
        str,
        typer.Option(
            "--position",
            metavar="P",
            help="The last position whose change the dump holds (4711, binlog.000003:1547, 16/B374D848).",
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="NAME", help="The source of the table, where several are possible."),
    ] = None,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Start a replica from a dump of its table, where the feed lacks its first changes."""
