"""`mainstem seed`: start a replica from a dump of its table, when the feed begins mid-way."""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Iterator

from framework.commands import opened, read_config, report_run
from framework.layer import LayerReport, Run, SeedRequest, installed_layers
from framework.runs import append_run


def seed(options: argparse.Namespace) -> int:
    """Land a dump's rows as they stood at a position, and bring the table up to date."""
    config = read_config(options)
    started = time.monotonic()
    with opened(config, is_exclusive=True) as (lake, spark):
        run = Run(spark, lake, config, uuid.uuid4().hex[:12], options.table)
        reports = list(_seeded(run, SeedRequest(options.table, options.position, options.source), options.origin))
        seconds = time.monotonic() - started
        append_run(spark, lake, run.run_id, reports, seconds)
    return report_run(reports, seconds, is_json=options.json)


def _seeded(run: Run, request: SeedRequest, path: str) -> Iterator[LayerReport]:
    """What each layer does: one says where the dump belongs, one lands it, and those behind take it up as they do any message."""
    layers = list(installed_layers())
    placed = next(layer.place for layer in layers if layer.place is not None)(run, request)
    for layer in layers:
        if layer.seed is not None:
            yield layer.seed(run, placed, path)
        elif layer.name != "quality":
            yield layer.run(run)
