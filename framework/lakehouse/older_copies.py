"""Tables that were put back from an older copy, while the checkpoints know what came after it.

A stream does not notice that: beyond the newest version of its table Delta finds no files and no error, and
the commits that follow get numbers that the stream has passed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from framework.lakehouse.checkpoint_files import newest_offsets
from framework.lakehouse.commits import commit_infos
from framework.lakehouse.lakehouse import Lakehouse, local_log, table_version
from framework.lakehouse.local_tables import local_table
from framework.lakehouse.log_files import commit_digest
from framework.lakehouse.small_files import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEEPS_ROWS = frozenset(
    {
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "CLUSTER BY",
        "COMPUTE STATS",
        "DROP CONSTRAINT",
        "OPTIMIZE",
        "REORG",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)
"""Delta's names of operations that leave the rows of a table as they are."""

Mark = Mapping[str, Any]
"""A commit of a table in a note: Delta's id of the table, the version, and the digest of the commit's text.

Id and digest are null where Python does not know them.
"""


def newest_mark(spark: SparkSession, location: str) -> Mark | None:
    """The newest commit of a table; None where there is no table. Without a Spark job on local disks."""
    version, log = table_version(spark, location), local_log(location)
    if version is None:
        return None
    commit = None if log is None else commit_digest(log, version)
    return {"table": _table_id(location, version), "version": version, "commit": commit}


def is_older(spark: SparkSession, location: str, mark: Mark | None) -> bool:
    """Whether a table lacks a commit that it had; False where that is not known, and where there is no table.

    The table may have grown past the version again, with other commits. Another one in its place is no copy.
    """
    version = None if mark is None else table_version(spark, location)
    if mark is None or version is None or _differ(mark["table"], _table_id(location, version)):
        return False
    log = local_log(location)
    commit = None if log is None else commit_digest(log, mark["version"])
    return version < mark["version"] or _differ(mark["commit"], commit)


def newest_marks(spark: SparkSession, locations: Sequence[str]) -> tuple[Mark, ...]:
    """The newest commit of each table; empty where one is no table, or would take a query."""
    if any(local_log(location) is None for location in locations):
        return ()
    found = [newest_mark(spark, location) for location in locations]
    return tuple(mark for mark in found if mark is not None) if None not in found else ()


def is_put_back(spark: SparkSession, location: str, mark: Mark) -> bool:
    """Whether a table is an older copy, or was set back to an older version with `RESTORE`, since a commit.

    False where that would take a query. Another table in its place counts as well: nobody knows its rows.
    """
    log, version = local_log(location), table_version(spark, location)
    if log is None or version is None:
        return False
    if is_older(spark, location, mark) or _differ(mark["table"], _table_id(location, version)):
        return True
    later = (told for number in range(mark["version"] + 1, version + 1) for told in commit_infos(log, number))
    return any(commit.get("operation") == "RESTORE" for commit in later)


def has_rows_since(spark: SparkSession, location: str, mark: Mark) -> bool:
    """Whether commits after this one may have changed rows of a table; also where the log has lost some."""
    log, version = local_log(location), table_version(spark, location)
    if log is None or version is None:
        return True
    told = (commit_infos(log, number) for number in range(mark["version"] + 1, version + 1))
    return any(not one or one[0].get("operation") not in _KEEPS_ROWS for one in told)


def is_read_beyond(spark: SparkSession, lake: Lakehouse, name: str, checkpoint: str) -> bool:
    """Whether the stream over a table has read, or is about to read, a later version than the table has.

    False where Python does not reach the checkpoint, where there is no table, and where another one is in its
    place: Delta tells that itself.
    """
    version = lake.version(spark, name) if is_local(checkpoint) else None
    if version is None:
        return False
    table = _table_id(lake.location(name), version)
    read = [_read(text) for text in newest_offsets(spark, checkpoint) if text is not None]
    return any(last > version and not _differ(table, of) for of, last in read)


def _read(offset: str) -> tuple[str | None, int]:
    """The table of a stream of Delta, and the last version that it has begun; before that the index is -1."""
    try:
        found = json.loads(offset)
        return found.get("reservoirId"), int(found["reservoirVersion"]) - (int(found["index"]) < 0)
    except (ValueError, KeyError, TypeError):
        return None, -1


def _table_id(location: str, version: int) -> str | None:
    found = local_table(location, version)
    return None if found is None else found.mark.table


def _differ(first: str | None, second: str | None) -> bool:
    """Whether both are known, and are not the same."""
    return None not in (first, second) and first != second
