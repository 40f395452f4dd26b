"""The quality step as a layer of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from framework.contracts.table_names import ALERTS_TABLE, QUALITY_RESULTS_TABLE, RUNS_TABLE
from framework.errors import MainstemError, brief
from framework.pipeline.layer import Layer, LayerReport, MaintainedTable, Run, View, installed_layers

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from framework.contracts.erasure import Erasure


def _run(run: Run) -> LayerReport:
    from framework.quality.availability import judgeable
    from framework.quality.job import judge
    from framework.quality.unchanged import is_unchanged, note_unchanged

    if not run.config.is_judged or is_unchanged(run):
        return LayerReport("quality")
    try:
        work, notes = judgeable(run)
        outcome = judge(work, list(installed_layers()))
        if outcome.holds:
            note_unchanged(run, outcome.replicas)
    except Exception as error:
        # the reports of the earlier layers must not be lost with this one
        return LayerReport("quality", errors=(_unjudged(error),))
    failed = sum(result.success is False for result in outcome.results)
    return LayerReport(
        "quality",
        {"rules_checked": len(outcome.results), "rules_failed": failed},
        failures=outcome.failures,
        notes=(*notes, *outcome.notes),
    )


def _unjudged(error: Exception) -> MainstemError:
    if isinstance(error, MainstemError):
        return error
    return MainstemError(
        "NOT_JUDGED",
        found=brief(error),
        where="the quality step, behind bronze, silver and gold",
        action="mend what is named above, if anything is, and run again; "
        "`mainstem status --verify` checks the tables without it",
    )


def _status(view: View) -> dict[str, Any]:
    return {}


def _erase(run: Run, erasure: Erasure) -> Mapping[str, int]:
    from framework.quality.erasure import erase

    return erase(run, erasure)


def _tables_to_maintain(run: Run) -> Iterator[MaintainedTable]:
    """The logs of whole runs, which belong to no other layer."""
    for name in (RUNS_TABLE, QUALITY_RESULTS_TABLE, ALERTS_TABLE) if run.table is None else ():
        yield MaintainedTable(name)


def _logs() -> Mapping[str, StructType | str]:
    from framework.contracts.table_schemas import QUALITY_RESULTS

    return {QUALITY_RESULTS_TABLE: QUALITY_RESULTS}


LAYER = Layer(
    name="quality",
    run=_run,
    status=_status,
    tables_to_maintain=_tables_to_maintain,
    erase=_erase,
    logs=_logs,
)
