"""`mainstem seed`: starts a replica from a dump of its table, for a feed that lacks its first changes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from framework.cli.options import Options
from framework.cli.output import print_run
from framework.cli.terminal import say_note
from framework.pipeline.layer import LayerReport, Run, SeedRequest, installed_layers
from framework.pipeline.run import new_run_id
from framework.pipeline.run_history import append_run
from framework.pipeline.session import open_pipeline, read_config


def run(options: Options) -> int:
    """Land the rows of a dump at their position, and bring the table up to date."""
    config = read_config(options.config)
    started = time.monotonic()
    with open_pipeline(config, is_exclusive=True, notify=say_note) as (lake, spark):
        work = Run(spark, lake, config, new_run_id(), options.table)
        request = SeedRequest(options.table, options.position, options.source)
        reports = list(_seed_layers(work, request, options.origin))
        seconds = time.monotonic() - started
        append_run(spark, lake, work.run_id, reports, seconds)
    return print_run(reports, seconds, is_json=options.json)


def _seed_layers(work: Run, request: SeedRequest, path: str) -> Iterator[LayerReport]:
    """One layer resolves the seed, one lands the dump, and the later ones process its rows as any message."""
    layers = list(installed_layers())
    seed = next(layer.resolve_seed for layer in layers if layer.resolve_seed is not None)(work, request)
    for layer in layers:
        if layer.seed is not None:
            yield layer.seed(work, seed, path)
        elif layer.name != "quality":
            yield layer.run(work)
