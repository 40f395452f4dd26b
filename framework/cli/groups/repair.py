"""The commands that repair tables from what the lakehouse holds, or from a dump."""

from __future__ import annotations

from typing import Annotated

import typer

from framework.cli.app import REPAIR, command
from framework.cli.options import (
    CONFIG,
    Config,
    Debug,
    Env,
    Json,
    TableName,
    TableOrReplica,
    choice,
    completion,
)
from framework.contracts.quarantine_reasons import Reason

_ORIGINS = ("silver", "bronze")


_REASONS = [str(reason) for reason in Reason]


@command(REPAIR, "repair:replay", "mainstem replay")
def replay(
    dismissed: Annotated[
        bool, typer.Option("--dismissed", metavar="", help="Also the messages that were dismissed.")
    ] = False,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Decode the messages in quarantine again, and apply the result."""


@command(
    REPAIR,
    "dismiss:run",
    "mainstem dismiss --reason not_json",
    'mainstem dismiss --topic part-7.jsonl --because "landed again" --yes',
    "mainstem dismiss --topic part-7.jsonl --undo --yes",
)
def dismiss(
    source: Annotated[str | None, typer.Option("--source", metavar="NAME", help="Of this source.")] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="CODE",
            callback=choice(_REASONS),
            autocompletion=completion(_REASONS),
            help="In quarantine for this reason, as `status` names it.",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="Of this topic, or this file of the landing folder."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", help="Of this partition of the topic.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option("--offset", metavar="N|N-M", help="At this offset or line, or from N to M."),
    ] = None,
    because: Annotated[
        str | None, typer.Option("--because", metavar="TEXT", help="Why; it is kept beside each message.")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", metavar="", help="Open dismissed messages again instead.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", metavar="", help="Do it; otherwise the messages are only listed.")
    ] = False,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Set messages in quarantine aside that nobody will decode."""


@command(
    REPAIR, "repair:rebuild", "mainstem rebuild shop.orders", "mainstem rebuild shop.orders --from bronze"
)
def rebuild(
    table: TableOrReplica,
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
