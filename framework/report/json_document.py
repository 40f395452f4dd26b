"""The report as JSON: its records and the conclusions, with names that tools can rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from framework.report.model import Report, TableKey
from framework.report.summary import findings, level, source_facts, table_facts, totals

VERSION = 1


def document(report: Report) -> dict[str, Any]:
    """The report as values of JSON: times are ISO 8601 in UTC, durations are seconds, null is unknown."""
    return {
        "report": VERSION,
        "pipeline": report.pipeline,
        "lakehouse": report.lakehouse,
        "version": report.version,
        "generated_at": _plain(report.generated_at),
        "verdict": level(report),
        "findings": _plain(findings(report)),
        "totals": _plain(totals(report)),
        "sources": _plain(source_facts(report)),
        "tables": [{**_without(f.table), **_without(f, "table")} for f in table_facts(report)],
        "quality": None if report.checks is None else _plain(report.checks),
        "quarantine": {
            "reasons": _plain(report.refusals),
            "samples": _plain(report.refused),
            "dismissed": _plain(report.dismissed),
        },
        "schema_changes": [_without(change) for change in report.schema_changes],
        "bad_values": [_without(bad) for bad in report.bad_values],
        "waiting": [_without(waiting) for waiting in report.waiting],
        "runs": [{**_plain(run), "outcome": run.outcome} for run in report.runs],
        "batches": _plain(report.batches),
    }


def json_text(report: Report) -> str:
    """The document as text, one object."""
    return json.dumps(document(report), ensure_ascii=False, indent=1)


def _without(record: Any, *names: str) -> dict[str, Any]:
    """A record's fields without those named; a table key becomes its four names."""
    found: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in names:
            continue
        if isinstance(value, TableKey):
            found |= asdict(value)
        else:
            found[field.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
