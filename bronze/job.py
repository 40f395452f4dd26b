"""One run of bronze: finds what is new in each source and lands it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from bronze.checkpoint import (
    SourcesWithMessages,
    load_state,
    messages_table,
    save_state,
    sources_with_messages,
)
from bronze.files.message_files import write_messages
from bronze.landing import count_landed, land, staging
from bronze.source import Discovery, Feed, SourceKind
from bronze.sources import KINDS
from framework.config.model import Config
from framework.config.sources import Source
from framework.errors import MainstemError, cause_of
from framework.lakehouse.expired_logs import begin_again
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.task_files import counted, is_shared, local_cores
from framework.pipeline.progress import Progress
from framework.spark.python_workers import workers_ahead

THREADS = 4

_MANY_BYTES = 64 * 1024**2
"""Landing files with so many bytes keep the cores busy for longer than Python's workers need to start."""


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What a run did for one source.

    Attributes:
        source: The name of the source.
        files: How many files have landed.
        messages: How many messages have landed.
        waiting: Files that are not complete yet.
        error: Why the source stopped; None where it did not.
        skipped: Entries of the folder that are not read, each with the reason.
        read_again: Why the whole log of files was read again; None where it was not.
    """

    source: str
    files: int = 0
    messages: int = 0
    waiting: tuple[str, ...] = ()
    error: MainstemError | None = None
    skipped: tuple[str, ...] = ()
    read_again: str | None = None


@dataclass(frozen=True, slots=True)
class BronzeResult:
    """What a run of bronze did, by source in the order of the configuration."""

    sources: tuple[SourceResult, ...]

    @property
    def messages(self) -> int:
        """How many messages this run has landed."""
        return sum(result.messages for result in self.sources)

    @property
    def errors(self) -> tuple[MainstemError, ...]:
        """The errors that stopped sources; empty where none did."""
        return tuple(result.error for result in self.sources if result.error)


def run_bronze(
    spark: SparkSession, lake: Lakehouse, config: Config, run_id: str, progress: Progress | None = None
) -> BronzeResult:
    """Lands what is new in all sources, some at a time.

    A source that fails has its error in the result; others continue.
    """
    feeds = [Feed(config.pipeline, lake, source, run_id) for source in config.sources.values()]
    return land_sources(spark, feeds, progress or Progress())


def land_sources(spark: SparkSession, feeds: Sequence[Feed], progress: Progress) -> BronzeResult:
    """Lands what is new in these sources of one run, some at a time.

    `bronze/messages` is queried once for all of them, before one of them may create it.
    """
    table = messages_table(spark, feeds[0].lake) if feeds else None
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        landed_sources = pool.submit(sources_with_messages, spark, feeds)
        source_runs = list(
            pool.map(lambda feed: _land_source(spark, feed, table, landed_sources.result, progress), feeds)
        )
    counts = {} if all(run.is_idle for run in source_runs) else _read_counts(spark, feeds[0])
    return BronzeResult(
        tuple(_with_counts(run.result, *counts.get(run.result.source, (0, 0))) for run in source_runs)
    )


def _with_counts(result: SourceResult, files: int, messages: int) -> SourceResult:
    return replace(result, files=files, messages=messages)


@dataclass(frozen=True, slots=True)
class _SourceRun:
    """The result of a source; `is_idle` guarantees that nothing has landed."""

    result: SourceResult
    is_idle: bool


def _land_source(
    spark: SparkSession,
    feed: Feed,
    table: str | None,
    landed_sources: SourcesWithMessages,
    progress: Progress,
) -> _SourceRun:
    discovery, read_again = Discovery(is_idle=True), None
    try:
        with progress.step("source", feed.name) as facts:
            kind = kind_of(feed.source)
            state = load_state(spark, feed, table)
            discovery = kind.discover(spark, feed, state)
            facts |= {"files": discovery.files, "bytes": discovery.size}
            if not discovery.is_idle:
                if discovery.files:
                    progress.expect("files", discovery.files)
                    progress.expect("bytes", discovery.size)
                    progress.watch("bytes", lambda: (counted(staging(feed)), 0))
                with _workers_for(spark, feed, discovery):
                    topics, read_again = _land(spark, feed, kind, landed_sources, progress)
                facts |= {"topics": ", ".join(topics)} if topics else {}
            if discovery.state != state:
                save_state(spark, feed, discovery.state)
    except Exception as error:
        stopped = SourceResult(
            feed.name,
            waiting=discovery.waiting,
            error=_located(spark, source_error(error, feed), feed),
            skipped=discovery.skipped,
        )
        return _SourceRun(stopped, discovery.is_idle)
    landed = SourceResult(
        feed.name, waiting=discovery.waiting, skipped=discovery.skipped, read_again=read_again
    )
    return _SourceRun(landed, discovery.is_idle)


def _workers_for(spark: SparkSession, feed: Feed, found: Discovery) -> AbstractContextManager[None]:
    """Workers for the tasks that read many bytes of files here, started while the stream starts."""
    if found.size < _MANY_BYTES or not is_shared(spark, staging(feed)):
        return nullcontext()
    return workers_ahead(spark, local_cores(spark), write_messages.__module__)


def _land(
    spark: SparkSession,
    feed: Feed,
    kind: SourceKind,
    landed_sources: SourcesWithMessages,
    progress: Progress,
) -> tuple[tuple[str, ...], str | None]:
    """The topics that were read, and why all files were looked up again; None where they were not.

    They are where commits are gone from their log. The rows of another job's table may have changed since
    they landed: there people decide.
    """
    try:
        return land(spark, feed, kind, landed_sources, progress), None
    except Exception as error:  # Spark and Delta raise many kinds; `source_error` tells them apart
        expired = source_error(error, feed)
        if feed.source.files is None or not begin_again(expired, feed.checkpoint):
            raise
    return land(spark, feed, kind, lambda: frozenset({feed.name}), progress), expired.found


def _located(spark: SparkSession, error: MainstemError, feed: Feed) -> MainstemError:
    """The error, with the place of the message that it is about where the kind of source can find it."""
    try:
        place = kind_of(feed.source).locate(spark, error, feed)
    except Exception:  # the search is an extra: the error itself must not be lost
        place = None
    if place is None:
        return error
    located = MainstemError(
        error.condition, found=error.found, where=f"{error.where}, {place}", action=error.action
    )
    located.__cause__ = error.__cause__
    return located


def _read_counts(spark: SparkSession, feed: Feed) -> dict[str, tuple[int, int]]:
    """Files and messages of each source of the run.

    Empty where they cannot be read, which loses nothing that landed.
    """
    try:
        return count_landed(spark, feed.lake, feed.run_id)
    except Exception:
        return {}


def kind_of(source: Source) -> SourceKind:
    """The kind of the source: files, kafka or table."""
    name = next(name for name in ("files", "kafka", "table") if getattr(source, name) is not None)
    return KINDS[name]


def source_error(error: Exception, feed: Feed) -> MainstemError:
    """The error as a MainstemError: what stopped the source, where, and what to do."""
    if isinstance(error, MainstemError):
        return error
    try:
        explained = kind_of(feed.source).explain(error, feed)
    except Exception:  # the explanation is an extra: other sources must go on
        explained = None
    if explained is not None:
        explained.__cause__ = error
        return explained
    stopped = MainstemError(
        "SOURCE_FAILED",
        found=f"{type(error).__name__}: {cause_of(error)}",
        where=f"source {feed.name}",
        action="run again; if it fails again, run with --debug and report it",
    )
    stopped.__cause__ = error
    return stopped
