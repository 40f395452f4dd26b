"""Bronze as a layer of the pipeline: what it does in each command.

Each function imports what it needs, so that commands which run nothing do not wait for Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from framework.contracts.table_names import MESSAGES_TABLE
from framework.pipeline.layer import (
    LANDED,
    Layer,
    LayerReport,
    MaintainedTable,
    Preview,
    ResolvedSeed,
    Run,
    View,
)
from framework.text.formatting import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bronze.job import SourceResult
    from framework.config.sources import Kafka, Source
    from framework.contracts.erasure import Erasure
    from framework.contracts.expectations import CheckTarget, PreviousResults
    from framework.contracts.file_messages import FiledMessage, Sample
    from framework.pipeline.checks import Check


def _run(run: Run) -> LayerReport:
    from bronze.job import run_bronze

    result = run_bronze(run.spark, run.lake, run.config, run.run_id, run.progress)
    run.memo[LANDED] = result.messages
    counts = {"landed": result.messages, "files": sum(source.files for source in result.sources)}
    waiting = sum(len(source.waiting) for source in result.sources)
    is_empty = not result.messages and not run.lake.exists(run.spark, MESSAGES_TABLE)
    notes = tuple(notes_of(result.sources, run.config.sources, is_empty=is_empty))
    return LayerReport("bronze", {**counts, "files_waiting": waiting}, errors=result.errors, notes=notes)


def notes_of(
    results: Sequence[SourceResult], sources: Mapping[str, Source], *, is_empty: bool
) -> Iterator[str]:
    """Notes about the sources of a run; `is_empty` says that bronze has no message of any source."""
    for result in results:
        source = sources[result.source]
        if result.read_again:
            yield f"source {source.name}: all files were looked up again: {result.read_again}"
        if result.skipped:
            yield f"source {source.name}: not read: {one_line(result.skipped[0])}{_and_more(result.skipped)}"
        if result.waiting:
            names = f"{one_line(result.waiting[0])}{_and_more(result.waiting)}"
            yield f"source {source.name}: {names} not complete yet, left for the next run"
        elif is_empty and result.error is None:
            yield f"source {source.name}: nothing has come yet from {one_line(source.place_text)}"


def _and_more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _status(view: View) -> dict[str, int]:
    return {"messages": view.tables.count(view.lake.location(MESSAGES_TABLE))}


def _verify(run: Run) -> Sequence[Check]:
    from bronze.operations.verify import verify

    return verify(run)


def _read_messages(path: Path, sample: Sample) -> Iterator[FiledMessage]:
    from bronze.files.peek import peek_messages

    return peek_messages(path, sample)


def _read_topics(spark: SparkSession, kafka: Kafka, sample: Sample) -> Iterator[FiledMessage]:
    from bronze.sources.topic_sample import sample_topics

    return sample_topics(spark, kafka, sample)


def _plan(run: Run) -> Preview:
    from bronze.operations.preview import preview

    return preview(run)


def _tables_to_maintain(run: Run) -> Iterable[MaintainedTable]:
    from bronze.operations.maintain import tables_to_maintain

    return tables_to_maintain(run)


def _erase(run: Run, erasure: Erasure) -> Mapping[str, int]:
    from bronze.operations.forget import erase

    return erase(run, erasure)


def _seed(run: Run, seed: ResolvedSeed, path: str) -> LayerReport:
    from bronze.seed import seed as land

    return land(run, seed, path)


def _expectations(run: Run, previous: PreviousResults) -> Sequence[CheckTarget]:
    from bronze.operations.expectations import expectations

    return expectations(run, previous)


LAYER = Layer(
    name="bronze",
    run=_run,
    verify=_verify,
    status=_status,
    read_messages=_read_messages,
    read_topics=_read_topics,
    plan=_plan,
    tables_to_maintain=_tables_to_maintain,
    erase=_erase,
    seed=_seed,
    expectations=_expectations,
    modules=("bronze.job",),
)
