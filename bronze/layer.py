"""Bronze as a layer of the pipeline: what it does in each command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bronze.files.peek import peek_messages
from bronze.job import SourceResult, run_bronze
from bronze.operations.expectations import expectations
from bronze.operations.forget import erase
from bronze.operations.preview import preview
from bronze.operations.verify import verify
from bronze.seed import seed
from bronze.sources.topic_sample import sample_topics
from framework.config.sources import Source
from framework.contracts.table_names import MESSAGES_TABLE
from framework.pipeline.layer import LANDED, Layer, LayerReport, Run
from framework.text.formatting import one_line


def _run(run: Run) -> LayerReport:
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
        if result.skipped:
            yield f"source {source.name}: not read: {one_line(result.skipped[0])}{_and_more(result.skipped)}"
        if result.waiting:
            names = f"{one_line(result.waiting[0])}{_and_more(result.waiting)}"
            yield f"source {source.name}: {names} not complete yet, left for the next run"
        elif is_empty and result.error is None:
            yield f"source {source.name}: nothing has come yet from {one_line(source.place_text)}"


def _and_more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _status(run: Run) -> dict[str, int]:
    if not run.lake.exists(run.spark, MESSAGES_TABLE):
        return {"messages": 0}
    return {"messages": run.lake.read(run.spark, MESSAGES_TABLE).count()}


LAYER = Layer(
    name="bronze",
    run=_run,
    verify=verify,
    status=_status,
    read_messages=peek_messages,
    read_topics=sample_topics,
    plan=preview,
    erase=erase,
    seed=seed,
    expectations=expectations,
)
