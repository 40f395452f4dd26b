"""Bronze's run: look at each source's place, and land what is new."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from bronze.checkpoint import Held, held_sources, recall, remember
from bronze.land import land, landed_counts
from bronze.source import Discovery, Feed, SourceKind
from bronze.sources import KINDS
from framework.config import Config
from framework.config_sources import Source
from framework.errors import MainstemError, cause_of
from framework.tables import Lakehouse

THREADS = 4


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What a run did for one source: files and messages landed, what it left waiting, and why it stopped, if it did."""

    source: str
    files: int = 0
    messages: int = 0
    waiting: tuple[str, ...] = ()
    error: MainstemError | None = None


@dataclass(frozen=True, slots=True)
class BronzeResult:
    """What a run of bronze did, source by source in the configuration's order."""

    sources: tuple[SourceResult, ...]

    @property
    def messages(self) -> int:
        """How many messages have landed in this run."""
        return sum(result.messages for result in self.sources)

    @property
    def errors(self) -> tuple[MainstemError, ...]:
        """Why sources have stopped; empty when all went well."""
        return tuple(result.error for result in self.sources if result.error)


def run_bronze(spark: SparkSession, lake: Lakehouse, config: Config, run_id: str) -> BronzeResult:
    """Land what is new in every source, some at a time. A source that cannot go on is in the result with its error; the others go on."""
    return land_sources(spark, [Feed(config.pipeline, lake, source, run_id) for source in config.sources.values()])


def run_source(spark: SparkSession, feed: Feed) -> SourceResult:
    """Land what is new in one source; an idle one costs a listing."""
    return land_sources(spark, [feed]).sources[0]


def land_sources(spark: SparkSession, feeds: Sequence[Feed]) -> BronzeResult:
    """Land what is new in these sources of one run, some at a time; what they ask of `bronze/messages` is asked once for all."""
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        held = pool.submit(held_sources, spark, feeds)
        looks = list(pool.map(lambda feed: _land_source(spark, feed, held.result), feeds))
    counts = {} if all(look.is_idle for look in looks) else _landed(spark, feeds[0])
    return BronzeResult(tuple(_counted(look.result, *counts.get(look.result.source, (0, 0))) for look in looks))


def _counted(result: SourceResult, files: int, messages: int) -> SourceResult:
    return replace(result, files=files, messages=messages)


@dataclass(frozen=True, slots=True)
class _Look:
    """What came of a look at a source; `is_idle` promises that nothing has landed."""

    result: SourceResult
    is_idle: bool


def _land_source(spark: SparkSession, feed: Feed, held: Held) -> _Look:
    discovery = Discovery(is_idle=True)
    try:
        kind = kind_of(feed.source)
        memory = recall(spark, feed)
        discovery = kind.discover(spark, feed, memory)
        if not discovery.is_idle:
            land(spark, feed, kind, held)
        if discovery.memory != memory:
            remember(spark, feed, discovery.memory)
    except Exception as error:
        stopped = SourceResult(feed.name, waiting=discovery.waiting, error=stopped_by(error, feed))
        return _Look(stopped, discovery.is_idle)
    return _Look(SourceResult(feed.name, waiting=discovery.waiting), discovery.is_idle)


def _landed(spark: SparkSession, feed: Feed) -> dict[str, tuple[int, int]]:
    """The counts of each source of this feed's run; none where they cannot be read: what has landed is safe without."""
    try:
        return landed_counts(spark, feed.lake, feed.run_id)
    except Exception:
        return {}


def kind_of(source: Source) -> SourceKind:
    """The kind of place that the source's messages come from."""
    name = next(name for name in ("files", "kafka", "table") if getattr(source, name) is not None)
    return KINDS[name]


def stopped_by(error: Exception, feed: Feed) -> MainstemError:
    """The error in three parts: what stopped the source, where, and what to do."""
    if isinstance(error, MainstemError):
        return error
    explained = kind_of(feed.source).explain(error, feed)
    if explained is not None:
        explained.__cause__ = error
        return explained
    stopped = MainstemError(
        "SOURCE_FAILED",
        found=f"{type(error).__name__}: {cause_of(error)}",
        where=f"source {feed.name}",
        action="run again; if it stays, run with --debug and report it",
    )
    stopped.__cause__ = error
    return stopped
