"""Silver as the command line sees it: runs, its part of `status`, and the formats that it knows.

Each function imports what it needs, so that commands which run nothing do not wait for Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from framework.contracts.table_names import PENDING_TABLE
from framework.pipeline.layer import (
    LANDED,
    DecodingRequest,
    Layer,
    LayerReport,
    MaintainedTable,
    Preview,
    ResolvedSeed,
    Run,
    SeedRequest,
    View,
)
from framework.text.formatting import quantity
from silver.operations.status import left_out_note

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from framework.contracts.ddl_actions import TableName
    from framework.contracts.dismissals import Dismissal, DismissalRequest
    from framework.contracts.erasure import Erasure
    from framework.contracts.expectations import CheckTarget, PreviousResults
    from framework.contracts.file_messages import FiledMessage
    from framework.pipeline.checks import Check
    from silver.job import SilverResult
    from silver.operations.redecode import RedecodeResult

_TRIES = "silver.tries"


def _run(run: Run) -> LayerReport:
    from framework.pipeline.failed_tries import FailedTries
    from silver.job import run_silver

    if run.memo.get(LANDED):
        run.progress.expect("messages", run.memo[LANDED])
    tries = run.kept.setdefault(_TRIES, FailedTries())
    return _report(run, run_silver(run.spark, run.lake, run.config, run.progress, tries))


def _replay(run: Run, with_dismissed: bool) -> LayerReport:
    from silver.job import replay_silver

    return _report(run, replay_silver(run.spark, run.lake, run.config, with_dismissed=with_dismissed))


def _redecode(run: Run, table: str) -> LayerReport:
    from silver.job import rebuild_silver

    return _report(run, rebuild_silver(run.spark, run.lake, run.config, table))


def _report(run: Run, result: SilverResult) -> LayerReport:
    from silver.operations.setting_hints import hints

    counts: dict[str, int] = {}
    if result.counts:
        by_kind: Counter[str] = Counter()
        for row in result.counts:
            by_kind[row["kind"]] += row["rows"]
        counts = {
            "changes": by_kind["row"],
            "merged": 2 * sum(row["merged"] or 0 for row in result.counts if row["kind"] == "row"),
            "heartbeats": by_kind["heartbeat"],
            "duplicates": by_kind["duplicate"],
            "quarantined": by_kind["quarantined"],
            "waiting": 0 if result.has_waiting is False else _waiting(run),
        }
    notes = (
        *result.restored,
        *result.redefined,
        *(left_out_note(source) for source in result.left_out),
        *hints(run, result.counts),
        *([result.remaining] if result.remaining else ()),
    )
    notes += tuple(_notes_on_decoded(result.again)) if result.again else ()
    return LayerReport("silver", {"messages": result.messages, **counts}, errors=result.errors, notes=notes)


def _notes_on_decoded(again: RedecodeResult) -> Iterator[str]:
    """What became of messages that were decoded again."""
    if again.kept:
        yield (
            f"{quantity(again.kept, 'message was', 'messages were')} not decoded again, because"
            " `forget` removed rows of the same message: what silver has of it stays as it was read before,"
            " whatever the configuration says of its columns now"
        )
    if again.refused:
        yield (
            f"{quantity(again.refused, 'outcome', 'outcomes')} went to quarantine, of messages that cannot be"
            " read as configured now or by a rule: `mainstem status` has the reasons; if a setting is wrong,"
            " correct it, and rebuild the table from bronze again"
        )
    if again.freed:
        yield f"{quantity(again.freed, 'row', 'rows')} came out of quarantine"


def _waiting(run: Run) -> int:
    return run.tables.count(run.lake.location(PENDING_TABLE))


def _status(view: View) -> Mapping[str, Any]:
    from silver.operations.status import status

    return status(view)


def _formats() -> Sequence[Mapping[str, str]]:
    from silver.formats import format_rows

    return format_rows()


def _options() -> Mapping[str, type[BaseModel]]:
    from silver.formats import FORMATS

    return {name: f.options for name, f in FORMATS.items()}


def _verify(run: Run) -> Sequence[Check]:
    from silver.operations.verify import verify

    return verify(run)


def _kept_out_rows(run: Run, source: str, tables: Collection[TableName]) -> DataFrame:
    from silver.operations.kept_out import kept_out_rows

    return kept_out_rows(run, source, tables)


def _erase(run: Run, erasure: Erasure) -> Mapping[str, int] | None:
    from silver.operations.forget import erase

    return erase(run, erasure)


def _check_copies(run: Run) -> None:
    from silver.stream.opened_state import check_copies

    check_copies(run.spark, run.lake)


def _dismiss(run: Run, request: DismissalRequest) -> Dismissal:
    from silver.operations.dismiss import dismiss

    return dismiss(run, request)


def _resolve_seed(run: Run, request: SeedRequest) -> ResolvedSeed:
    from silver.batches.seed_plans import resolve_seed

    return resolve_seed(run, request)


def _plan(run: Run) -> Preview:
    from silver.operations.preview import preview

    return preview(run)


def _tables_to_maintain(run: Run) -> Iterable[MaintainedTable]:
    from silver.operations.maintain import tables_to_maintain

    return tables_to_maintain(run)


def _detect(messages: Iterable[FiledMessage], source: str) -> Mapping[str, Any]:
    from framework.demo.feeds import sample
    from silver.detection.detect import detect
    from silver.formats import FORMATS

    return detect(messages, FORMATS, source, sample)


def _events(messages: Iterable[FiledMessage], request: DecodingRequest) -> Iterator[Mapping[str, Any]]:
    from silver.operations.events import describe_events

    return describe_events(messages, request)


def _expectations(run: Run, previous: PreviousResults) -> Sequence[CheckTarget]:
    from silver.operations.expectations import expectations

    return expectations(run, previous)


def _logs() -> Mapping[str, StructType | str]:
    from framework.contracts.table_names import BATCHES_TABLE, STATEMENTS_TABLE
    from silver.batches.batch_counts import COUNTS_SCHEMA
    from silver.batches.changes_table import STATEMENTS

    return {BATCHES_TABLE: COUNTS_SCHEMA, STATEMENTS_TABLE: STATEMENTS}


LAYER = Layer(
    name="silver",
    run=_run,
    verify=_verify,
    status=_status,
    replay=_replay,
    redecode=_redecode,
    formats=_formats,
    options=_options,
    kept_out_rows=_kept_out_rows,
    check_copies=_check_copies,
    erase=_erase,
    dismiss=_dismiss,
    resolve_seed=_resolve_seed,
    plan=_plan,
    tables_to_maintain=_tables_to_maintain,
    detect=_detect,
    events=_events,
    expectations=_expectations,
    logs=_logs,
    modules=("silver.job",),
)
