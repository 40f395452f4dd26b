"""`mainstem sql QUERY`: prints the first rows of a query over the pipeline's tables."""

from __future__ import annotations

import sys

from framework.cli.options import Options
from framework.cli.terminal import say, say_json
from framework.pipeline.session import open_pipeline, read_config
from framework.sql.query import answer
from framework.sql.result import document, lines

DEFAULT_LIMIT = 100


def run(options: Options) -> int:
    """Run the query and print its rows; `-` reads the query from standard input."""
    query = sys.stdin.read() if options.query == "-" else options.query
    config = read_config(options.config)
    with open_pipeline(config, is_exclusive=False) as (lake, spark):
        result = answer(spark, lake, query, options.limit, config.rules)
    if options.json:
        say_json(document(result))
    else:
        say(lines(result))
    return 0
