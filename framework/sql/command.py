"""`mainstem sql QUERY`: prints the first rows of a query over the pipeline's tables."""

from __future__ import annotations

import argparse
import sys

from framework.commands import opened, print_json, read_config
from framework.errors import ConfigurationError
from framework.sql.answer import document, lines
from framework.sql.query import answer

DEFAULT_LIMIT = 100


def sql(options: argparse.Namespace) -> int:
    """Print the answer; `-` reads the query from standard input."""
    query = sys.stdin.read() if options.query == "-" else options.query
    if options.limit < 1:
        raise ConfigurationError("BAD_LIMIT", found=str(options.limit), where="--limit", action="write a number of rows from 1")
    config = read_config(options)
    with opened(config, is_exclusive=False) as (lake, spark):
        found = answer(spark, lake, query, options.limit)
    if options.json:
        print_json(document(found))
    else:
        print("\n".join(lines(found)))
    return 0
