"""Finds out without a Spark job whether anything has changed since all rules passed; local files only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version as installed_version

from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    EPOCHS_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUALITY_RESULTS_TABLE,
    QUARANTINE_TABLE,
    TABLES_TABLE,
)
from framework.lakehouse.lakehouse import table_version
from framework.lakehouse.small_files import read_note, write_note
from framework.pipeline.layer import Run

_TABLES = (
    MESSAGES_TABLE,
    CHANGES_TABLE,
    QUARANTINE_TABLE,
    PENDING_TABLE,
    TABLES_TABLE,
    BATCHES_TABLE,
    EPOCHS_TABLE,
)
_BEYOND = ("freshness", "snapshot")
"""Kinds of rules that depend on the clock, or on what is no table of the pipeline."""


def is_unchanged(run: Run) -> bool:
    """Whether every rule passed when the step last ran, and no table and no rule has changed since."""
    if not _can_tell(run):
        return False
    note = json.loads(read_note(run.spark, _note_path(run)) or "{}")
    known = note.get("versions", {})
    return note.get("rules") == _rules(run) and bool(known) and known == _versions(run, known)


def note_unchanged(run: Run, replicas: Iterable[str]) -> None:
    """Record that every rule passes now."""
    if _can_tell(run):
        places = (*(run.lake.location(name) for name in (*_TABLES, QUALITY_RESULTS_TABLE)), *replicas)
        write_note(
            run.spark, _note_path(run), json.dumps({"rules": _rules(run), "versions": _versions(run, places)})
        )


def _can_tell(run: Run) -> bool:
    quality = run.config.quality
    is_local = run.lake.local_root is not None and isinstance(run.config.lakehouse, str)
    return (
        is_local
        and run.table is None
        and not quality.sources
        and not any(rule.kind in _BEYOND for rule in quality.rules)
    )


def _note_path(run: Run) -> str:
    return f"{run.lake.checkpoints}/quality.held"


def _rules(run: Run) -> str:
    return f"{installed_version('mainstem')} {run.config.digest()}"


def _versions(run: Run, places: Iterable[str]) -> dict[str, int | None]:
    return {place: table_version(run.spark, place) for place in places}
