"""Maps the rows of a report's queries to its records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from framework.contracts.ddl_actions import actions_of
from framework.contracts.quality import QualityResult
from framework.errors import in_a_line
from framework.lakehouse.table_reader import Row
from framework.pipeline.message_counts import SourceCounts
from framework.report.excerpts import excerpt
from framework.report.model import (
    Account,
    BadValues,
    Batch,
    Column,
    Dismissed,
    OutcomeCount,
    PastRun,
    Refusal,
    Refused,
    SchemaChange,
    Stop,
    Table,
    TableKey,
    TableResult,
    Verdict,
    Waiting,
)
from framework.report.queries import MAX_TEXT
from framework.report.schema_text import column_difference, describe_actions
from framework.text.positions import position_text

_KEY_COLUMNS = ("source", "database", "schema", "table")


def past_run(row: Row) -> PastRun:
    """A row of `ops/runs`."""
    return PastRun(
        run_id=row["run_id"],
        finished_at=_time(row["finished_at"]) or _EPOCH,
        seconds=row["seconds"],
        steps=json.loads(row["steps"] or "{}"),
        counts=json.loads(row["counts"]),
        tables=tuple(map(_table_result, json.loads(row["tables"]))),
        errors=tuple(json.loads(row["errors"])),
    )


def _table_result(values: list[Any]) -> TableResult:
    name, state, inserted, updated, deleted, late, notes = values
    return TableResult(name, state, inserted, updated, deleted, late, tuple(map(in_a_line, notes)))


def outcomes(rows: Iterable[Row], batches: Iterable[Row]) -> tuple[OutcomeCount, ...]:
    """The rows of each kind in each place, with those of `batches` that hold them, the newest one first."""
    newest: dict[tuple[TableKey, str], list[int]] = {}
    for row in batches:
        newest.setdefault((table_key(row), row["kind"]), []).append(row["batch"])
    return tuple(
        OutcomeCount(
            table_key=table_key(row),
            kind=row["kind"],
            rows=row["rows"],
            merged=row["merged"] or 0,
            newest_event_at=_time(row["event_time"]),
            newest_ingest_at=_time(row["ingested_at"]),
            batches=tuple(sorted(newest.get((table_key(row), row["kind"]), ()), reverse=True)),
        )
        for row in rows
    )


def batch(row: Row) -> Batch:
    """One batch of silver."""
    return Batch(row["batch"], _time(row["ingested_at"]) or _EPOCH, _time(row["event_time"]), row["rows"])


def table(row: Row, format_name: str = "") -> Table:
    """The newest state of one table, whose source has a format."""
    columns = tuple(Column(name, kind) for name, kind, *_ in json.loads(row["columns"] or "[]"))
    return Table(
        table_key=table_key(row),
        state=row["state"],
        reason=row["reason"],
        replica=row["replica"],
        history=row["history"],
        keys=tuple(row["keys"] or ()),
        column_count=len(columns),
        batch=row["batch"],
        event_time=_time(row["event_time"]),
        changes_applied=row["changes_applied"] or 0,
        late=row["late"] or 0,
        columns=columns,
        position=position_text(row["sequence"], format_name) if row["sequence"] else None,
    )


def statement(row: Row) -> SchemaChange:
    """A DDL or truncate of the source."""
    what = "truncated" if row["kind"] == "truncate" else describe_actions(actions_of(row["actions"]))
    return SchemaChange(table_key(row), "statement", _time(row["event_time"]), what, row["statement"])


def column_change(row: Row) -> SchemaChange:
    """What a run changed in the columns of a replica."""
    former, now = ({name: kind for name, kind, *_ in json.loads(row[side])} for side in ("former", "columns"))
    return SchemaChange(table_key(row), "replica", _time(row["recorded_at"]), column_difference(former, now))


def waiting(row: Row) -> Waiting:
    """The halves of one table that wait."""
    return Waiting(table_key(row), row["rows"], _time(row["oldest"]))


def account(counts: SourceCounts) -> Account:
    """Why the messages and the changes of one source differ."""
    return Account(counts.source, counts.key_halves, counts.further)


def open_stops(rows: Iterable[Row]) -> tuple[Stop, ...]:
    """The stops of sources that have neither continued nor been found in order since, in their order."""
    all_rows = list(rows)
    begun: dict[str, int] = {}
    for row in all_rows:
        if row["state"] == "begun":
            begun[row["source"]] = max(row["epoch"], begun.get(row["source"], 0))
    withdrawn = {(row["source"], row["batch"]) for row in all_rows if row["state"] == "withdrawn"}
    still = [
        row
        for row in all_rows
        if row["state"] == "stopped"
        and row["epoch"] >= begun.get(row["source"], 0)
        and (row["source"], row["batch"]) not in withdrawn
    ]
    newest: dict[str, int] = {}
    for row in still:
        newest[row["source"]] = max(row["epoch"], newest.get(row["source"], 0))
    names = ("source", "epoch", "topic", "partition", "offset", "reason", "detail")
    return tuple(
        Stop(*(row[name] for name in names))
        for row in sorted(still, key=lambda r: (r["batch"], r["topic"], r["partition"]))
        if row["epoch"] == newest[row["source"]]
    )


def refusal(row: Row) -> Refusal:
    """Quarantined messages of one source and reason."""
    return Refusal(
        row["source"], row["format"], row["reason"], row["rows"], _time(row["first"]), _time(row["last"])
    )


def refused(row: Row) -> Refused:
    """One quarantined message."""
    return Refused(
        row["source"], row["format"], row["topic"], row["partition"], row["offset"], row["reason"],
        row["detail"], excerpt(row["key"], row["key_bytes"]), excerpt(row["value"], row["value_bytes"]),
        _time(row["first_seen_at"]),
    )  # fmt: skip


def dismissed(row: Row) -> Dismissed:
    """Dismissed messages of one source and reason."""
    return Dismissed(row["source"], row["reason"], row["rows"], row["because"], row["by"], _time(row["at"]))


def bad_values(row: Row) -> BadValues:
    """Bad cells of one column and reason."""
    sample = (row["text"], row["change_id"])
    return BadValues(table_key(row), row["column"], row["reason"], row["rows"], *sample)


def check(row: Row) -> QualityResult:
    """The newest result of one quality rule."""
    found = {field.name: row[field.name] for field in fields(QualityResult)}
    times = {name: _time(found[name]) for name in ("started_at", "checked_at")}
    lists = {"columns": tuple(found["columns"] or ()), "failing_keys": _cut(found["failing_keys"])}
    return QualityResult(**{**found, **times, **lists})


def verdict(row: Row) -> Verdict:
    """The outcome of the quality step of one run."""
    return Verdict(_time(row["started_at"]) or _EPOCH, row["errors"] or 0, row["warnings"] or 0)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table_key(row: Row) -> TableKey:
    """The table that a row is about."""
    return TableKey(*(row[name] for name in _KEY_COLUMNS))


def _cut(texts: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(text[:MAX_TEXT] for text in texts or ())


def _time(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
