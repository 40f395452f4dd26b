"""`ops/batches` as the quality step reads it: what is kept of its old rows, and the new rows in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE
from framework.lakehouse.local_tables import DataFile, Mark, in_micros, parts_of_files
from framework.quality.memory import Memory

APPLIED_KINDS = ("row", "ddl", "truncate")
"""The kinds of rows in `ops/batches` that gold applies."""
_NEWEST = "max_event_time"
_COLUMNS = ("batch", "source", "database", "schema", "table", "kind", "rows", _NEWEST)

Place = tuple[str, TableName | None]
"""A source and one of its tables; None for what concerns none."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far silver has come with one table.

    Attributes:
        newest: The newest event time, in microseconds; None where there is none.
        applied: The batch up to which gold had applied the table.
        behind: How many batches it had not applied.
        last: The newest of these; -1 where there is none.
    """

    newest: int | None = None
    applied: int = -1
    behind: int = 0
    last: int = -1


@dataclass(frozen=True, slots=True)
class BatchLog:
    """The log, without a Spark job.

    Attributes:
        top: The newest batch.
        rows: The number of rows that all batches have.
        new: The rows of the log that are new since the step last ran.
        extents: Of each table, as they were then; None where nothing is kept.
    """

    top: int
    rows: int
    new: Sequence[Mapping[str, Any]]
    extents: Mapping[Place, Extent] | None

    def has_transactions(self, since: int) -> bool:
        """Whether batches after `since`, all of them new, have messages of transactions."""
        return any(row["kind"] == "transaction" and row["batch"] > since for row in self.new)

    def has_counted(self, rows: Mapping[int | None, int], since: int) -> bool:
        """Whether the batches after `since` have as many rows as these: the rows of each batch."""
        counted: Counter[int | None] = Counter()
        for row in self.new:
            if row["batch"] > since:
                counted[row["batch"]] += row["rows"]
        return rows == counted

    def newest_event(self, source: str) -> int | None:
        """The newest event time of a source in microseconds; None where it has none, or nothing is kept."""
        known = [extent.newest for (name, _), extent in (self.extents or {}).items() if name == source]
        known += [row[_NEWEST] for row in self.new if row["source"] == source]
        return max((time for time in known if time is not None), default=None)

    def with_progress(self, applied: Mapping[Place, int]) -> dict[Place, Extent] | None:
        """The extents of today; `applied` has gold's batch of each table.

        None where nothing is kept, or where a table has applied some of the batches that it was behind with.
        """
        if self.extents is None:
            return None
        found = dict(self.extents)
        for place, extent in self.extents.items():
            batch = applied.get(place, -1)
            if batch < extent.applied or extent.applied < batch < extent.last:
                return None
            if batch >= extent.last:
                found[place] = Extent(extent.newest, batch)
        waiting: dict[Place, set[int]] = {}
        for row in self.new:
            place, batch = place_of(row), row["batch"]
            extent = found.get(place, Extent(applied=applied.get(place, -1)))
            newest = max((time for time in (extent.newest, row[_NEWEST]) if time is not None), default=None)
            found[place] = Extent(newest, extent.applied, extent.behind, extent.last)
            if row["kind"] in APPLIED_KINDS and batch > extent.applied:
                waiting.setdefault(place, set()).add(batch)
        for place, batches in waiting.items():
            extent = found[place]
            found[place] = Extent(
                extent.newest, extent.applied, extent.behind + len(batches), max(extent.last, *batches)
            )
        return found


def batch_log(memory: Memory) -> BatchLog | None:
    """The log; None where nothing of its old rows is kept, so that Spark must read it."""
    kept = memory.kept_batches
    if not kept:
        return None
    new = memory.new_rows(BATCHES_TABLE, Mark(*kept["mark"]), _COLUMNS)
    if new is None:
        return None
    rows = in_micros(new, [_NEWEST]).to_pylist()
    extents = None
    if kept["extents"] is not None:
        extents = {
            (source, None if table is None else TableName(database, schema, table)): Extent(*values)
            for source, database, schema, table, *values in kept["extents"]
        }
    return BatchLog(
        max([kept["top"], *(row["batch"] for row in rows)]),
        kept["rows"] + sum(row["rows"] for row in rows),
        rows,
        extents,
    )


def new_changes(memory: Memory, log: BatchLog | None) -> tuple[DataFile, ...] | None:
    """The files of the changes that came since the step last ran.

    None where Spark must read the changes: they are too many, or others than the log has counted.
    """
    files = memory.new_files(CHANGES_TABLE, memory.marks.get(CHANGES_TABLE))
    if files is None or log is None:
        return None
    rows = Counter[int | None]()
    for part in parts_of_files(files, ["batch"]):
        counted = pc.value_counts(part["batch"])
        rows.update(dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True)))
    return files if log.has_counted(rows, memory.batch) else None


def keep_batches(memory: Memory, top: int, rows: int, extents: Mapping[Place, Extent] | None = None) -> None:
    """Lets the memory keep these numbers of the log as it is now."""
    table = memory.table(BATCHES_TABLE)
    if table is None:
        return
    listed = None
    if extents is not None:
        listed = [
            [
                source,
                *((name.database, name.schema, name.table) if name else (None, None, None)),
                extent.newest,
                extent.applied,
                extent.behind,
                extent.last,
            ]
            for (source, name), extent in extents.items()
        ]
    memory.batches = {"mark": table.mark, "top": top, "rows": rows, "extents": listed}


def place_of(row: Mapping[str, Any]) -> Place:
    """The source and table of a row of `ops/batches`."""
    name = None if row["table"] is None else TableName(row["database"], row["schema"], row["table"])
    return row["source"], name


def age(newest: int, now: datetime) -> int:
    """How many seconds ago an event was; both times without their fractions, as Spark counts them."""
    return int(now.timestamp()) - newest // 1_000_000


def moment_text(newest: int) -> str:
    """A time in microseconds as Spark writes it in UTC."""
    seconds, fraction = divmod(newest, 1_000_000)
    text = (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat(sep=" ")
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text
