"""The repairs of silver, in `ops/repairs`: tables whose messages were decoded again.

A repair is recorded before its first write, so that the next command finishes an interrupted one, and gold
rebuilds the tables whose newest repair it has not seen. No other table has this information: a copy is kept
beside the checkpoints, and the table is restored from it if it is lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import REPAIRS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.log_rows import append_rows
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.small_files import is_there, read_note, write_note
from framework.lakehouse.table_reader import Query

_SCHEMA = (
    "number bigint, repair string, state string, source string, database string, schema string, "
    "`table` string, recorded_at timestamp"
)
_BEGUN, _DONE = "begun", "done"
_EVERY = Query(
    REPAIRS_TABLE,
    "SELECT `number`, `repair`, `state`, `source`, `database`, `schema`, `table` FROM {rows}",
)
_NEWEST = Query(
    REPAIRS_TABLE,
    "SELECT `source`, `state`, max(`number`) AS `number` FROM {rows} GROUP BY `source`, `state`",
)
_Row = tuple[int, str | None, str, str, str | None, str | None, str | None]


def begin(spark: SparkSession, lake: Lakehouse, source: str, tables: Iterable[TableName]) -> str:
    """Record that messages of these tables are about to be decoded again. Returns the repair's id."""
    known, repair = _rows(spark, lake), uuid.uuid4().hex[:12]
    number = _last(known) + 1
    rows: list[_Row] = [(number, repair, _BEGUN, source, t.database, t.schema, t.table) for t in tables]
    _record(spark, lake, known, rows or [(number, repair, _BEGUN, source, None, None, None)])
    return repair


def end(spark: SparkSession, lake: Lakehouse, source: str) -> None:
    """Record that everything that follows from the repairs of a source is derived."""
    known = _rows(spark, lake)
    _record(spark, lake, known, [(_last(known), None, _DONE, source, None, None, None)])


def unfinished(spark: SparkSession, lake: Lakehouse) -> list[str]:
    """The sources with repairs of which something may not be derived yet."""
    newest: dict[str, dict[str, int]] = {}
    for row in newest_tables(spark, lake).rows(_NEWEST):
        newest.setdefault(row["source"], {})[row["state"]] = row["number"]
    return sorted(name for name, last in newest.items() if last.get(_DONE, -1) < last.get(_BEGUN, -1))


def is_lost(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether the table is gone, and has a copy."""
    return is_there(spark, _copy(lake)) and not lake.exists(spark, REPAIRS_TABLE)


def restore(spark: SparkSession, lake: Lakehouse) -> bool:
    """Write the table again from its copy; False if there is none."""
    note = read_note(spark, _copy(lake))
    if note is None:
        return False
    _append(
        spark, lake, [(row[0], row[1], row[2], row[3], row[4], row[5], row[6]) for row in json.loads(note)]
    )
    return True


def _rows(spark: SparkSession, lake: Lakehouse) -> list[_Row]:
    """The rows that still count: for each source and table the newest row of either state."""
    newest: dict[tuple[str | None, ...], _Row] = {}
    for found in newest_tables(spark, lake).rows(_EVERY):
        names = (found["database"], found["schema"], found["table"])
        row: _Row = (found["number"], found["repair"], found["state"], found["source"], *names)
        newest[row[2:]] = max(row, newest.get(row[2:], row), key=lambda r: r[0])
    return list(newest.values())


def _last(rows: Iterable[_Row]) -> int:
    return max((row[0] for row in rows), default=0)


def _record(spark: SparkSession, lake: Lakehouse, known: list[_Row], rows: list[_Row]) -> None:
    """Record rows, the copy first: a repair that only the copy has did not begin, but is finished too."""
    write_note(spark, _copy(lake), json.dumps([*known, *rows], ensure_ascii=False))
    _append(spark, lake, rows)


def _append(spark: SparkSession, lake: Lakehouse, rows: list[_Row]) -> None:
    now = datetime.now(UTC)
    append_rows(spark, (lake, REPAIRS_TABLE), [(*row, now) for row in rows], _SCHEMA)


def _copy(lake: Lakehouse) -> str:
    return f"{lake.checkpoints}/silver.repairs"
