"""`mainstem sql QUERY`: prints the first rows of a query over the pipeline's tables."""

from __future__ import annotations

import argparse
import sys

from framework.cli.options import Subparsers, add_command
from framework.cli.terminal import say, say_json
from framework.pipeline.session import open_pipeline, read_config
from framework.sql.query import answer
from framework.sql.result import document, lines

DEFAULT_LIMIT = 100


def add_parser(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers, "sql", run, help="query the replicas, histories, silver and ops tables; read-only"
    )
    parser.add_argument(
        "query",
        metavar="QUERY",
        help="one query over tables such as shop.orders, silver.changes, ops.runs; - reads it from input",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        metavar="N",
        help="print so many rows (default %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the query and print its rows; `-` reads the query from standard input."""
    query = sys.stdin.read() if options.query == "-" else options.query
    config = read_config(options.config)
    with open_pipeline(config, is_exclusive=False) as (lake, spark):
        result = answer(spark, lake, query, options.limit)
    if options.json:
        say_json(document(result))
    else:
        say(lines(result))
    return 0
