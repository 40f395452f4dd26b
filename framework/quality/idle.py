"""Whether anything has changed since all rules held: where the tables are files of this machine, that takes no Spark job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version as installed_version

from framework.contracts.quality import RESULTS_TABLE
from framework.layer import Run
from framework.notes import read_note, write_note
from framework.tables import table_version

_TABLES = ("bronze/messages", "silver/changes", "silver/quarantine", "silver/pending", "ops/tables", "ops/batches", "ops/epochs")
_BEYOND = ("freshness", "snapshot")
"""Kinds of rules that look at the clock, or at what is no table of the pipeline."""


def is_idle(run: Run) -> bool:
    """Whether every rule held when the step last ran, and still does: no table has another version, nor is a rule another."""
    if not _can_tell(run):
        return False
    told = json.loads(read_note(run.spark, _place(run)) or "{}")
    known = told.get("versions", {})
    return told.get("rules") == _rules(run) and bool(known) and known == _versions(run, known)


def note_idle(run: Run, replicas: Iterable[str]) -> None:
    """Note that every rule holds by now."""
    if _can_tell(run):
        places = (*(run.lake.place(name) for name in (*_TABLES, RESULTS_TABLE)), *replicas)
        write_note(run.spark, _place(run), json.dumps({"rules": _rules(run), "versions": _versions(run, places)}))


def _can_tell(run: Run) -> bool:
    quality = run.config.quality
    is_local = run.lake.local_root is not None and isinstance(run.config.lakehouse, str)
    return is_local and run.table is None and not quality.sources and not any(rule.kind in _BEYOND for rule in quality.rules)


def _place(run: Run) -> str:
    return f"{run.lake.checkpoints}/quality.held"


def _rules(run: Run) -> str:
    return f"{installed_version('mainstem')} {run.config.digest()}"


def _versions(run: Run, places: Iterable[str]) -> dict[str, int | None]:
    return {place: table_version(run.spark, place) for place in places}
