"""Bronze as the command line sees it: how it runs, and what it adds to `status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bronze.expectations import expectations
from bronze.forget import erase
from bronze.job import SourceResult, run_bronze
from bronze.look import look
from bronze.outlook import outlook
from bronze.seed import seed
from bronze.source import MESSAGES_TABLE
from bronze.verify import verify
from framework.config_sources import Source
from framework.layer import Layer, LayerReport, Run
from framework.words import one_line


def _run(run: Run) -> LayerReport:
    result = run_bronze(run.spark, run.lake, run.config, run.run_id)
    counts = {"landed": result.messages, "files": sum(source.files for source in result.sources)}
    waiting = sum(len(source.waiting) for source in result.sources)
    is_empty = not result.messages and not run.lake.exists(run.spark, MESSAGES_TABLE)
    notes = tuple(notes_of(result.sources, run.config.sources, is_empty=is_empty))
    return LayerReport("bronze", {**counts, "files_waiting": waiting}, errors=result.errors, notes=notes)


def notes_of(results: Sequence[SourceResult], sources: Mapping[str, Source], *, is_empty: bool) -> Iterator[str]:
    """What people should know of sources that did not fail; `is_empty`: no message has ever come from any of them."""
    for result in results:
        source = sources[result.source]
        if result.waiting:
            more = f" and {len(result.waiting) - 1} more" if len(result.waiting) > 1 else ""
            yield f"source {source.name}: {one_line(result.waiting[0])}{more} not complete yet, left for the next run"
        elif is_empty and result.error is None:
            yield f"source {source.name}: nothing has come yet from {one_line(source.told_place)}"


def _status(run: Run) -> dict[str, int]:
    if not run.lake.exists(run.spark, MESSAGES_TABLE):
        return {"messages": 0}
    return {"messages": run.lake.read(run.spark, MESSAGES_TABLE).count()}


LAYER = Layer(
    name="bronze",
    run=_run,
    verify=verify,
    status=_status,
    look=look,
    plan=outlook,
    erase=erase,
    seed=seed,
    expectations=expectations,
)
