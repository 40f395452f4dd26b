"""What a run knows of the past when it ends, kept for the next one.

A run must know the newest batch, how far each table has come, which schemas are stored, and whether halves
wait. All of it follows from tables that grow with every batch. So a run notes it beside the checkpoints, with
the newest commit of each of these tables. The next run reads a table again only if it has another commit: a
repair, maintenance or a lost table leads to the same answers as ever. The stream over bronze is not started
where bronze has no other commit than when the last run started it.

The note also tells that bronze, the changes, the schemas or a table that follows from the changes were put
back from an older copy: then they lack a commit that they had when the run ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    ENCODINGS_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
)
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.older_copies import Mark, is_older, is_read_beyond, newest_mark
from framework.lakehouse.small_files import read_note, write_note
from framework.spark.session import is_connect
from silver.batches.run_state import Progress, RunState, tops_before
from silver.batches.source_tops import SourceTops
from silver.stream.checkpoint import Checkpoint

_NOTE = "silver.progress"
_TABLES = (BATCHES_TABLE, CHANGES_TABLE, PENDING_TABLE, SCHEMAS_TABLE)
_DERIVED = (
    BATCHES_TABLE,
    ENCODINGS_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    STATEMENTS_TABLE,
)
MOST_TABLES = 20_000
MOST_SCHEMAS = 20_000
"""A run that knows of more tables, or schemas, than this leaves them to the next run to read."""


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """Up to where the stream has read bronze: all that the newest commit of the table then had.

    `first_batch` identifies the stream's checkpoint.
    """

    commit: str | None
    first_batch: int
    mark: Mark | None = None


def stream_end(spark: SparkSession, state: RunState, checkpoint: Checkpoint) -> StreamEnd:
    """Up to where a stream reads bronze that is started now."""
    lake = state.lake
    mark = newest_mark(spark, lake.location(MESSAGES_TABLE)) if lake.local_root is not None else None
    return StreamEnd(lake.newest_commit(spark, MESSAGES_TABLE), checkpoint.first_batch, mark)


def older_copy(spark: SparkSession, lake: Lakehouse, checkpoint: Checkpoint) -> str | None:
    """Which of bronze, the changes and the schemas lacks a commit that a run has left; or None.

    Of bronze, notes of another checkpoint do not count. Under a new checkpoint messages are read again, but
    halves and counts would stay as newer changes had made them. They are derived again where their counts are
    gone; and schemas are written again where the changes are gone. Outside local disks only a version of
    bronze that is lower counts.
    """
    if not checkpoint.is_new and is_read_beyond(spark, lake, MESSAGES_TABLE, checkpoint.path):
        return MESSAGES_TABLE
    if lake.local_root is None:
        return None
    note = _read_note(spark, lake)
    marks: dict[str, Mark | None] = {}
    if checkpoint.is_new:
        if lake.exists(spark, BATCHES_TABLE):
            marks[CHANGES_TABLE] = note.get("changes")
    elif checkpoint.began is None or note.get("began") != checkpoint.began:
        return None
    else:
        marks = {MESSAGES_TABLE: note["stream"].get("mark"), CHANGES_TABLE: note.get("changes")}
    if lake.exists(spark, CHANGES_TABLE):
        marks[SCHEMAS_TABLE] = note.get("schemas_mark")
    return next((name for name, mark in marks.items() if is_older(spark, lake.location(name), mark)), None)


def lacks_changes(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether the changes lack a commit that a run has left, whatever checkpoint reads them next."""
    mark = _read_note(spark, lake).get("changes") if lake.local_root is not None else None
    return is_older(spark, lake.location(CHANGES_TABLE), mark)


def older_derived(spark: SparkSession, lake: Lakehouse) -> frozenset[str]:
    """The tables that follow from the changes, or from messages, and lack a commit that a run has left."""
    if lake.local_root is None or not lake.exists(spark, CHANGES_TABLE):
        return frozenset()
    marks = _read_note(spark, lake).get("derived", {})
    return frozenset(name for name, mark in marks.items() if is_older(spark, lake.location(name), mark))


def has_read(spark: SparkSession, state: RunState, end: StreamEnd) -> bool:
    """Whether the last run has read bronze up to there."""
    return end.commit is not None and _read_note(spark, state.lake).get("stream") == asdict(end)


def recall(spark: SparkSession, state: RunState) -> bool:
    """Set what the last run knew, as far as the tables are unchanged.

    Returns whether neither the changes nor their counts have changed: then the last run left nothing undone.
    """
    if is_connect(spark):  # its batches run in another process, whose state is not this one
        return False
    note = _read_note(spark, state.lake)
    commits = note.get("commits", {})
    now = {name: state.lake.newest_commit(spark, name) for name in _TABLES if name in commits}
    same = {name for name, commit in now.items() if commit is not None and commit == commits[name]}
    if CHANGES_TABLE in same:
        state.newest = note["newest"]
    if BATCHES_TABLE in same and note["tables"] is not None and note["counted_from"] == state.counted_from:
        state.tables = {tuple(table): _progress(cells) for table, cells in note["tables"]}
        kept = note.get("tops")  # notes of older releases lack them
        state.tops = (
            tops_before(state.tables) if kept is None else {name: _tops(*of) for name, of in kept.items()}
        )
    if PENDING_TABLE in same:
        state.has_waiting = note["has_waiting"]
    if SCHEMAS_TABLE in same:
        state.schemas = set(note["schemas"])
    return {CHANGES_TABLE, BATCHES_TABLE} <= same and note["newest"] is not None


def remember(spark: SparkSession, state: RunState, end: StreamEnd, checkpoint: Checkpoint) -> None:
    """Note what this run knows, and up to where its stream has read bronze.

    A run that fails notes nothing: then the tables have other commits.
    """
    if is_connect(spark):
        return
    lake = state.lake
    tables = state.tables if state.tables is not None and len(state.tables) <= MOST_TABLES else None
    note = {
        "commits": {name: lake.newest_commit(spark, name) for name in _TABLES},
        "stream": asdict(end),
        "began": checkpoint.began,
        "changes": None if lake.local_root is None else newest_mark(spark, lake.location(CHANGES_TABLE)),
        "schemas_mark": None if lake.local_root is None else newest_mark(spark, lake.location(SCHEMAS_TABLE)),
        "derived": _derived_marks(spark, lake),
        "newest": state.newest,
        "counted_from": state.counted_from,
        "tables": None if tables is None else [[table, _cells(shown)] for table, shown in tables.items()],
        "tops": {name: [tops.before, tops.batches] for name, tops in state.tops.items()},
        "has_waiting": state.has_waiting,
        "schemas": sorted(state.schemas) if len(state.schemas) <= MOST_SCHEMAS else [],
    }
    _write_note(spark, lake, note)


def mark_repaired(spark: SparkSession, lake: Lakehouse) -> None:
    """Note the commits that a repair or an erasure has left, so that an older copy is noticed from now on.

    What else the last run has noted stays: the next run reads again what has changed since. A table that is
    an older copy already keeps the mark that tells it.
    """
    note = _read_note(spark, lake)
    if not note or is_connect(spark) or lake.local_root is None:
        return

    def moved(name: str, mark: Mark | None) -> Mark | None:
        location = lake.location(name)
        return mark if is_older(spark, location, mark) else newest_mark(spark, location)

    note["stream"]["mark"] = moved(MESSAGES_TABLE, note["stream"].get("mark"))
    note["changes"] = moved(CHANGES_TABLE, note.get("changes"))
    note["schemas_mark"] = moved(SCHEMAS_TABLE, note.get("schemas_mark"))
    note["derived"] = _derived_marks(spark, lake)  # these were derived again where they were older
    _write_note(spark, lake, note)


def _derived_marks(spark: SparkSession, lake: Lakehouse) -> Mapping[str, Mark | None]:
    if lake.local_root is None:
        return {}
    return {name: newest_mark(spark, lake.location(name)) for name in _DERIVED}


def _read_note(spark: SparkSession, lake: Lakehouse) -> dict[str, Any]:
    note: dict[str, Any] = json.loads(read_note(spark, _path(lake)) or "{}")
    return note


def _write_note(spark: SparkSession, lake: Lakehouse, note: Mapping[str, Any]) -> None:
    write_note(spark, _path(lake), json.dumps(note, ensure_ascii=False))


def _path(lake: Lakehouse) -> str:
    return f"{lake.checkpoints}/{_NOTE}"


def _cells(shown: Progress) -> list[Any]:
    return [
        shown.sequence, _micros(shown.event_time), shown.server, shown.has_unpaired, shown.streamed,
        sorted(shown.servers),
    ]  # fmt: skip


def _progress(cells: list[Any]) -> Progress:
    sequence, time, server, has_unpaired, streamed, servers = cells
    moment = None if time is None else TimestampType().fromInternal(time)
    return Progress(sequence, moment, server, has_unpaired, streamed, frozenset(servers))


def _tops(before: str, batches: list[list[Any]]) -> SourceTops:
    return SourceTops(before, [(batch, top) for batch, top in batches])


def _micros(moment: datetime | None) -> int | None:
    """Microseconds since the Unix epoch: the clock of the machine may be set to another zone in between."""
    return None if moment is None else TimestampType().toInternal(moment)
