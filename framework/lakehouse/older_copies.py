"""Tables that were put back from an older copy, while the checkpoints know what came after it.

A stream does not notice that: beyond the newest version of its table Delta finds no files and no error, and
the commits that follow get numbers that the stream has passed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from framework.lakehouse.checkpoint_files import newest_offsets
from framework.lakehouse.lakehouse import Lakehouse, local_log, table_version
from framework.lakehouse.log_files import commit_digest
from framework.lakehouse.small_files import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Mark = Mapping[str, Any]
"""A commit of a table in a note: its version, and the digest of its text, null where Python reads no log."""


def newest_mark(spark: SparkSession, location: str) -> Mark | None:
    """The newest commit of a table; None where there is no table. Without a Spark job on local disks."""
    version, log = table_version(spark, location), local_log(location)
    if version is None:
        return None
    return {"version": version, "commit": None if log is None else commit_digest(log, version)}


def is_older(spark: SparkSession, location: str, mark: Mark | None) -> bool:
    """Whether a table lacks a commit that it had; False where that is not known, and where there is no table.

    The table may have grown past the version again, with other commits.
    """
    version = None if mark is None else table_version(spark, location)
    if mark is None or version is None:
        return False
    log = local_log(location)
    commit = None if log is None else commit_digest(log, mark["version"])
    is_other = None not in (commit, mark["commit"]) and commit != mark["commit"]
    return version < mark["version"] or is_other


def is_read_beyond(spark: SparkSession, lake: Lakehouse, name: str, checkpoint: str) -> bool:
    """Whether the stream over a table has read, or is about to read, a later version than the table has.

    False where Python does not reach the checkpoint, or there is no table.
    """
    if not is_local(checkpoint):
        return False
    version = lake.version(spark, name)
    read = [_read_version(text) for text in newest_offsets(spark, checkpoint) if text is not None]
    return version is not None and max(read, default=-1) > version


def _read_version(offset: str) -> int:
    """The last version of which a stream of Delta has read something; a new version begins at index -1."""
    try:
        found = json.loads(offset)
        return int(found["reservoirVersion"]) - (int(found["index"]) < 0)
    except (ValueError, KeyError, TypeError):
        return -1
