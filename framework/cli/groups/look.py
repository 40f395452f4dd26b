"""The commands that show what is in the tables, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from framework.cli.app import LOOK, command
from framework.cli.options import (
    CONFIG,
    Config,
    Debug,
    Env,
    Json,
    Null,
    TableOrReplica,
    UnusedConfig,
    completion,
)
from framework.explanations import EXPLANATIONS

_ROWS = 100


@command(LOOK, "status:run", "mainstem status", "mainstem status --verify")
def status(
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            metavar="",
            help="Check what must hold in every table; exit code 1 where something does not.",
        ),
    ] = False,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the tables, the counts that account for all messages, and what waits."""


@command(
    LOOK, "trace:run", "mainstem trace shop.orders id=17", "mainstem trace shop.line order_id=17 --null part"
)
def trace(
    table: TableOrReplica,
    key: Annotated[
        list[str] | None,
        typer.Argument(metavar="COLUMN=VALUE", help="The key of the row, as the text that silver holds."),
    ] = None,
    null: Null = None,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show how a row came to be: its changes, their outcomes, their messages."""


@command(LOOK, "report:run", "mainstem report --output shop.html")
def report(
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="The page, instead of one beside the configuration."),
    ] = None,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the state of the pipeline as one HTML page, and as JSON."""


@command(
    LOOK,
    "exports.metrics:run",
    "mainstem metrics",
    "mainstem metrics --file /var/lib/node_exporter/mainstem.prom",
)
def metrics(
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Write them into this file, at once or not at all."),
    ] = None,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print messages, lag, parked tables and more as metrics for Prometheus."""


@command(LOOK, "exports.dbt_sources:run", "mainstem dbt-sources --file models/sources.yml")
def dbt_sources(
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Write them into this file, at once or not at all."),
    ] = None,
    error_after: Annotated[
        str,
        typer.Option(
            "--error-after",
            metavar="TIME",
            help="How old the newest event of a replica may be, where quality: sources does not say it.",
        ),
    ] = "1 day",
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the replicas as sources of a dbt project, with freshness and tests of keys."""


@command(LOOK, "exports.alerts:run", "mainstem alerts", "mainstem alerts --test")
def alerts(
    test: Annotated[
        bool,
        typer.Option(
            "--test", metavar="", help="Send each of them a test; exit code 1 where one cannot be reached."
        ),
    ] = False,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show who is told of problems, and of which."""


@command(LOOK, "sql:run", 'mainstem sql "SELECT status, count(*) FROM shop.orders GROUP BY status"')
def sql(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="A query over tables such as shop.orders, silver.changes, ops.runs; - reads it from input.",
        ),
    ],
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Print at most so many rows.")] = _ROWS,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Query the replicas, histories, silver and ops tables; read-only."""


@command(LOOK, "reference.explain:run", "mainstem explain LEASE_HELD")
def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            autocompletion=completion(tuple(EXPLANATIONS)),
            help="The code of an error; without it, all codes.",
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", metavar="", help="Print the page of all errors as Markdown.")
    ] = False,
    config: UnusedConfig = CONFIG,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what an error code means, and what to do."""
