"""Opens a pipeline: its lakehouse, a Spark session, and for commands that write, its lease."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from framework.config.model import Catalog, Config, load_config
from framework.contracts.table_names import MESSAGES_TABLE, RUNS_TABLE
from framework.lakehouse.lakehouse import Lakehouse, lakehouse_of
from framework.lakehouse.lease import hold_lease
from framework.lakehouse.newest_tables import is_read_locally
from framework.lakehouse.owner import check_owner, claim
from framework.lakehouse.spark_reader import SparkReader
from framework.lakehouse.table_reader import TableReader
from framework.pipeline.erasure import finish
from framework.pipeline.layer import Reading, Run, installed_layers
from framework.pipeline.lost_logs import describe_losses, note_histories
from framework.pipeline.run_history import RUNS_SCHEMA
from framework.spark.startup_errors import spark_missing

if TYPE_CHECKING:  # slow to import, and the tables of a local lakehouse are read without it
    from pydantic import BaseModel
    from pyspark.sql import SparkSession

Notify = Callable[[Iterable[str]], None]
"""Receives notes for people."""


def option_models() -> dict[str, type[BaseModel]]:
    """The models of the formats' options, by format."""
    return {name: model for layer in installed_layers() for name, model in layer.options().items()}


def read_config(path: str | Path) -> Config:
    """The configuration in a file, with the options of its formats checked."""
    return load_config(path, formats=option_models())


def ignore_notes(notes: Iterable[str]) -> None:
    """Receives notes and does nothing with them."""


@contextmanager
def open_pipeline(
    config: Config,
    *,
    is_exclusive: bool,
    finishes: bool = True,
    notify: Notify = ignore_notes,
    ahead: Sequence[str] = (),
) -> Iterator[tuple[Lakehouse, SparkSession]]:
    """Open the lakehouse and a session for a command.

    Args:
        config: The pipeline.
        is_exclusive: The command writes: it holds the lease of the pipeline meanwhile.
        finishes: An exclusive command first finishes a `forget` that was interrupted.
        notify: Receives a note for each log of the pipeline that is lost.
        ahead: Modules to import while a session starts.
    """
    from framework.lakehouse.catalog import prepare_catalog
    from framework.spark.session import close_session, jvm_process, open_session

    lake = lakehouse_of(config)
    if not is_exclusive:
        spark = open_session(config, ahead=ahead)
        try:
            check_owner(spark, lake, config.pipeline)
            yield lake, spark
        finally:
            close_session(spark)
        return
    with hold_lease(lake, config.pipeline) as lease:
        spark = open_session(config, ahead=ahead)
        process = jvm_process(spark)
        if process is not None:
            lease.watch(process)
        try:
            if isinstance(config.lakehouse, Catalog):
                prepare_catalog(spark, lake, config.lakehouse)
                _prepare_logs(spark, lake)
            claim(spark, lake, config.pipeline, config.sources)
            if finishes:
                finish(Run(spark, lake, config, "forget"))
            work = Run(spark, lake, config, "histories")
            notify(describe_losses(work))
            yield lake, spark
            note_histories(work)
        finally:
            close_session(spark)


def _prepare_logs(spark: SparkSession, lake: Lakehouse) -> None:
    """Create the tables that a dashboard reads, empty, as long as nothing has landed.

    Later, a table that is missing is one that was lost.
    """
    if not lake.exists(spark, MESSAGES_TABLE):
        logs = {
            RUNS_TABLE: RUNS_SCHEMA,
            **{k: v for layer in installed_layers() for k, v in layer.logs().items()},
        }
        for name, schema in logs.items():
            lake.create(spark, name, schema)


@contextmanager
def open_tables(config: Config) -> Iterator[Reading]:
    """Open the tables of a pipeline for reading. A session starts only when a table cannot be read without.

    The tables of a local lakehouse are read in this process. Those of a catalog, of an object store and of
    Spark Connect are read by Spark.

    Raises:
        MainstemError: LAKEHOUSE_TAKEN, where another pipeline owns the lakehouse.
    """
    lake = lakehouse_of(config)
    with ExitStack() as opened:

        def open_spark() -> TableReader:
            if find_spec("pyspark") is None:
                raise spark_missing()
            _, spark = opened.enter_context(open_pipeline(config, is_exclusive=False))
            return SparkReader(spark, lake)

        if not is_read_locally(lake):
            yield Reading(lake, config, open_spark())
            return
        from framework.lakehouse.local_reader import LocalFirst, LocalReader

        check_owner(None, lake, config.pipeline)
        yield Reading(lake, config, LocalFirst(LocalReader(lake), open_spark))
