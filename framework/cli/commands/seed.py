"""`mainstem seed`: starts a replica from a dump of its table, for a feed that lacks its first changes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from framework.cli.options import Options
from framework.cli.output import print_run
from framework.cli.progress import show_progress
from framework.cli.terminal import say_note
from framework.config.model import Config
from framework.errors import ConfigurationError, located
from framework.lakehouse.lakehouse import lakehouse_of
from framework.lakehouse.newest_tables import is_read_locally
from framework.pipeline.layer import LayerReport, Run, SeedRequest, installed_layers
from framework.pipeline.run import new_run_id
from framework.pipeline.run_history import append_run
from framework.pipeline.session import open_pipeline, read_config
from framework.spark.running_tasks import running_tasks


def run(options: Options) -> int:
    """Land the rows of a dump at their position, and bring the table up to date."""
    config = read_config(options.config)
    _check_is_there(config, options.origin)
    started = time.monotonic()
    with (
        show_progress(is_shown=not options.json) as progress,
        open_pipeline(config, is_exclusive=True, notify=say_note) as (lake, spark),
    ):
        work = Run(spark, lake, config, new_run_id(), options.table, progress=progress)
        progress.watch_tasks(partial(running_tasks, spark))
        request = SeedRequest(options.table, options.position, options.source)
        reports = list(_seed_layers(work, request, options.origin))
        seconds = time.monotonic() - started
        append_run(work, reports, seconds)
    return print_run(reports, seconds, is_json=options.json)


def _check_is_there(config: Config, path: str) -> None:
    """Refuse a dump that does not exist, before anything starts; elsewhere Spark looks for it.

    Raises:
        ConfigurationError: NO_SUCH_PATH.
    """
    if is_read_locally(lakehouse_of(config)) and ":/" not in path and not os.path.exists(path):
        raise ConfigurationError(
            "NO_SUCH_PATH",
            found="neither a file nor a folder",
            where=f"--from {path}",
            action="name the dump: CSV, Parquet, a folder of such files, or a Delta table",
        )


def _seed_layers(work: Run, request: SeedRequest, path: str) -> Iterator[LayerReport]:
    """One layer resolves the seed, one lands the dump, and the later ones process its rows as any message."""
    layers = list(installed_layers())
    seed = next(layer.resolve_seed for layer in layers if layer.resolve_seed is not None)(work, request)
    for layer in layers:
        if layer.name == "quality":
            continue
        work.progress.begin(layer.name)
        with located(f"layer {layer.name}"):
            report = layer.run(work) if layer.seed is None else layer.seed(work, seed, path)
        work.progress.end()
        yield report
