"""The logs that each run of gold reads, and which of their rows count (`framework.lakehouse.kept_rows`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import BATCHES_TABLE, STATEMENTS_TABLE, TABLES_TABLE
from framework.lakehouse.kept_rows import Log
from framework.lakehouse.table_reader import Row

_PLACE = ("source", "database", "schema", "table")
_REFUSED = "quarantined"
_KINDS = frozenset({"row", "ddl", "truncate", "excluded", _REFUSED})
_STATE = (
    *("revision", *_PLACE, "state", "reason", "replica", "history", "keys", "columns", "lineage", "batch"),
    *("sequence", "event_time", "changes_applied", "late", "bad_values", "profile"),
)
_STATEMENT = (
    *(*_PLACE, "sequence", "change_id", "batch", "actions", "statement", "ordinal"),
    *("topic", "partition", "offset", "event_time"),
)
_COUNT = (*_PLACE, "kind", "reason", "batch", "rows", "min_sequence", "max_sequence")
_Group = tuple[Any, ...]


def _newest_states(rows: Iterable[Row]) -> Sequence[Row]:
    found: dict[_Group, Row] = {}
    for row in rows:
        place = _group(row, _PLACE)
        if place not in found or row["revision"] > found[place]["revision"]:
            found[place] = row
    return list(found.values())


def _of_tables(rows: Iterable[Row]) -> Sequence[Row]:
    return [row for row in rows if row["table"] is not None]


STATES = Log(TABLES_TABLE, _STATE, _newest_states)
"""The newest state of each table."""
STATEMENTS = Log(STATEMENTS_TABLE, _STATEMENT, _of_tables)
"""All statements about tables."""


def counts_log(applied: int) -> Log:
    """The counts of changes by table and kind: a row for all batches up to one, and those of later batches.

    `applied` is that batch: the newest one that gold has applied to any table.
    """
    return Log(BATCHES_TABLE, _COUNT, partial(_counted, applied=applied), applied)


def _counted(rows: Iterable[Row], applied: int) -> Sequence[Row]:
    found: dict[_Group, Row] = {}
    later: list[Row] = []
    for row in _of_tables(rows):
        if row["kind"] not in _KINDS:
            continue
        if row["batch"] > applied:
            later.append(row)
            continue
        row = {**row, "reason": FORGOTTEN if row["reason"] == FORGOTTEN else None}
        group = _group(row, (*_PLACE, "kind", "reason"))
        found[group] = _sum(found[group], row) if group in found else row
    return [*found.values(), *later]


def _sum(one: Row, other: Row) -> Row:
    return {
        **one,
        "batch": max(one["batch"], other["batch"]),
        "rows": one["rows"] + other["rows"],
        "min_sequence": _least(one["min_sequence"], other["min_sequence"]),
        "max_sequence": _greatest(one["max_sequence"], other["max_sequence"]),
    }


def extents_of(counts: Iterable[Row], applied: int) -> Sequence[Row]:
    """How far silver has come with each table and kind, from rows of `counts_log`.

    Without messages that are in quarantine. Those that were forgotten are a kind of their own. A row has the
    last batch, the number of `rows`, their lowest (`oldest`) and greatest `sequence`, how many rows batches
    after `applied` have (`new`), the first of these batches, and the last one up to `applied` (`before`).
    """
    found: dict[_Group, dict[str, Any]] = {}
    for row in counts:
        if row["kind"] == _REFUSED:
            continue
        kind = FORGOTTEN if row["reason"] == FORGOTTEN else row["kind"]
        group, batch = (*_group(row, _PLACE), kind), row["batch"]
        names = dict(zip((*_PLACE, "kind"), group, strict=True))
        nothing = {
            "last": -1,
            "rows": 0,
            "oldest": None,
            "sequence": None,
            "new": 0,
            "first": None,
            "before": None,
        }
        extent = found.setdefault(group, {**names, **nothing})
        extent["last"] = max(extent["last"], batch)
        extent["rows"] += row["rows"]
        extent["oldest"] = _least(extent["oldest"], row["min_sequence"])
        extent["sequence"] = _greatest(extent["sequence"], row["max_sequence"])
        if batch > applied:
            extent["new"] += row["rows"]
            extent["first"] = batch if extent["first"] is None else min(extent["first"], batch)
        else:
            extent["before"] = batch if extent["before"] is None else max(extent["before"], batch)
    return list(found.values())


def _least(one: str | None, other: str | None) -> str | None:
    return min((text for text in (one, other) if text is not None), default=None)


def _greatest(one: str | None, other: str | None) -> str | None:
    return max((text for text in (one, other) if text is not None), default=None)


def _group(row: Mapping[str, Any], names: Iterable[str]) -> _Group:
    return tuple(row[name] for name in names)
