"""Makes complete Parquet files part of a Delta table, in one commit and without another copy of their rows.

Spark's writers can only write rows. Delta's own transaction, which those writers use, also takes files; it is
reached through the JVM, on one machine. Where that is not possible, nothing happens and the caller writes the
rows.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from framework.lakehouse.lakehouse import local_log
from framework.lakehouse.local_tables import DataFile, local_table
from framework.lakehouse.log_files import commit_text, is_newest_commit, newest_checkpoint
from framework.lakehouse.log_upkeep import remove_old_checksums
from framework.spark.session import is_connect

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from framework.lakehouse.lakehouse import Transaction

STATISTICS = "delta.dataSkippingStatsColumns"
_HARMLESS = frozenset(
    {
        STATISTICS,
        "delta.appendOnly",
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.checkpointInterval",
        "delta.deletedFileRetentionDuration",
        "delta.enableDeletionVectors",
        "delta.logRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
    }
)
"""Properties under which a file needs nothing that a writer of rows would add."""
_LISTED = re.compile(r"`((?:[^`]|``)+)`|([^,`]+)")
_INDEXED = 32
"""Of so many columns Delta collects statistics where a table does not name the columns."""
_LONGEST_BOUND = 64
"""Longer texts are cut, so that they do not fill the log of the table."""
_HIGHEST_CHARACTER = "\U0010ffff"
_CERTAIN_YEARS = range(1600, 9999)
"""Times of other years are no bounds: not all readers have the same calendar for them."""
_DELTA = "org.apache.spark.sql.delta"


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says of itself: Delta writes one transaction only once; `note` is its `userMetadata`."""

    transaction: Transaction | None = None
    note: str | None = None


PLAIN = Commit()
"""A commit that says nothing of itself."""


def takes_files(spark: SparkSession, location: str, schema: StructType) -> bool:
    """Whether files with these columns can become files of a table, which exists, without a copy.

    It asks the version of the table that Delta has at hand, which costs no look at the log: `commit_files`
    asks the newest one.
    """
    log = _log_of(spark, location)
    if log is None or is_connect(spark):
        return False
    snapshot = log.unsafeVolatileSnapshot()
    if int(snapshot.version()) < 0:  # this process has created the table since Delta looked
        jvm: Any = spark._jvm
        found = jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, location)
        snapshot = found._2()
    return takes_plain_files(snapshot.metadata(), schema)


def commit_files(
    spark: SparkSession,
    location: str,
    schema: StructType,
    files: Sequence[str],
    commit: Commit,
) -> bool:
    """Move Parquet files into a table's folder and commit them.

    Args:
        spark: The session.
        location: The path of the table, which exists.
        schema: The columns that every file has, with the names and types of the table. Files may have more
            columns, which no reader of the table sees.
        files: The paths of the files, on the disk of the table.
        commit: What the commit says of itself.

    Returns:
        Whether the table has the files now. If not, they are where they were.
    """
    folder, attempt = Path(location), None if is_connect(spark) else transaction_of(spark, location)
    if attempt is None or not files or any(os.stat(file).st_dev != folder.stat().st_dev for file in files):
        return False
    if not takes_plain_files(attempt.metadata(), schema):
        return False
    once = commit.transaction
    if once is not None and _newest_version(spark._jvm, attempt, once.app_id) >= once.version:
        return True
    actions = [] if once is None else [once_of(once)]
    jvm: Any = spark._jvm
    commit_actions(
        jvm, attempt, [*actions, *moved_files(files, attempt, location, schema)], "Append", commit.note
    )
    remove_old_checksums(location)
    return True


def replace_files(
    spark: SparkSession, location: str, schema: StructType, file: str | None, since: str | None = None
) -> bool:
    """Let one Parquet file, or none, take the place of all rows of a small table.

    Args:
        spark: The session.
        location: The path of the table, which exists.
        schema: The columns that the file has, with the names and types of the table.
        file: The path of the file, on the disk of the table; None leaves the table empty.
        since: The commit whose rows are replaced (`log_files.newest_commit`): nothing happens if another is
            the newest one. None replaces the rows of any.

    Returns:
        Whether the table has only the rows of the file now. If not, nothing has happened.
    """
    attempt = None if is_connect(spark) else transaction_of(spark, location)
    if attempt is None or (file is not None and os.stat(file).st_dev != Path(location).stat().st_dev):
        return False
    version = int(attempt.readVersion())
    if since is not None and not _is_commit(location, version, since):
        return False
    former = local_table(location, version)
    if former is None or former.files is None or not takes_plain_files(attempt.metadata(), schema):
        return False
    attempt.readWholeTable()  # a commit of another process between the two would be lost
    removed = [_remove(each, location) for each in former.files]
    added = moved_files([] if file is None else [file], attempt, location, schema)
    jvm: Any = spark._jvm
    commit_actions(jvm, attempt, [*removed, *added], "Overwrite", None)
    remove_old_checksums(location)
    return True


def _is_commit(location: str, version: int, since: str) -> bool:
    try:
        return commit_text(Path(location, "_delta_log"), version) == since
    except OSError:
        return False


def moved_files(
    files: Iterable[str], attempt: Any, location: str, schema: StructType
) -> list[dict[str, Any]]:
    """Move files into the table's folder; returns the actions that add them."""
    listed = attempt.metadata().configuration().get(STATISTICS)
    statistics = _names(listed.get()) if listed.isDefined() else schema.names[:_INDEXED]
    actions = []
    for file in files:
        own = Path(location) / f"part-{uuid.uuid4().hex}.parquet"
        os.replace(file, own)
        actions.append(_add(own, statistics))
    return actions


def commit_actions(
    jvm: Any, attempt: Any, actions: Iterable[dict[str, Any]], mode: str, note: str | None
) -> None:
    """Let Delta commit these actions, as a write of this mode."""
    parsed = [action_of(jvm, each) for each in actions]
    as_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    attempt.commit(as_seq(parsed).toSeq(), _operation(jvm, attempt, mode, note))


def action_of(jvm: Any, action: dict[str, Any]) -> Any:
    """An action of Delta's protocol, as its transactions take it."""
    return jvm.org.apache.spark.sql.delta.actions.Action.fromJson(json.dumps(action))


def takes_plain_files(metadata: Any, schema: StructType) -> bool:
    """Whether a file with these columns needs nothing else to be a file of the table."""
    found = json.loads(metadata.json())["metaData"]  # one call: each property would take two
    properties = [key for key in found.get("configuration", ()) if key.startswith("delta.")]
    if found.get("partitionColumns") or not _HARMLESS.issuperset(properties):
        return False
    return _types(schema.jsonValue()) == _types(json.loads(found["schemaString"]))


def _types(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {column["name"]: column["type"] for column in schema["fields"]}


def _names(listed: str | None) -> tuple[str, ...]:
    """The columns that a table names for statistics."""
    return tuple(
        quoted.replace("``", "`") if quoted else plain.strip()
        for quoted, plain in _LISTED.findall(listed or "")
        if quoted or plain.strip()
    )


def transaction_of(spark: SparkSession, location: str) -> Any:
    """A transaction of Delta's on the newest version of a table; None for one of another machine.

    Delta finds the newest version by listing the log, which has the commits of thirty days. It need not where
    the version at hand is the newest one: its commit is there, as Delta knows it, and no commit follows it.
    It must where there is a newer checkpoint than this version knows: Delta would read all commits behind
    the older one again, and some may be gone.
    """
    log = _log_of(spark, location)
    if log is None or is_connect(spark):
        return None
    options, folder = cast(Any, spark)._jvm.scala.Option, Path(location, "_delta_log")
    snapshot = log.unsafeVolatileSnapshot()
    segment = snapshot.logSegment()
    changed_at, checkpoint = int(segment.lastCommitFileModificationTimestamp()), newest_checkpoint(folder)
    is_newest = is_newest_commit(folder, int(snapshot.version()), changed_at) and (
        checkpoint is None or checkpoint <= int(segment.checkpointProvider().version())
    )
    return log.startTransaction(options.empty(), options.apply(snapshot) if is_newest else options.empty())


def _log_of(spark: SparkSession, location: str) -> Any:
    """Delta's access to a table's log, which it keeps open; None for a table of another machine."""
    if is_connect(spark) or local_log(location) is None:
        return None
    jvm: Any = spark._jvm
    # Delta reads a checkpoint with the session of the thread, which a new thread does not have
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, location)


def _newest_version(jvm: Any, attempt: Any, app_id: str) -> int:
    """The newest version of an application in a table, which the attempt checks again when it commits.

    Delta looks it up in all that the table's log says, with jobs of several tenths of a second. The checksum
    of a version usually has all applications.
    """
    checksum = attempt.snapshot().checksumOpt()
    known = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not known.isDefined():
        return int(attempt.txnVersion(app_id))
    attempt.readTxn().append(app_id)
    # one text: to ask one after the other takes three calls for each, and there is one for each source
    found = json.loads(jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString(known.get()))
    return next((int(each["version"]) for each in found if each["appId"] == app_id), -1)


def once_of(transaction: Transaction) -> dict[str, Any]:
    """The action that says which version of an application a commit has."""
    return {"txn": {"appId": transaction.app_id, "version": transaction.version}}


def _add(file: Path, statistics: Iterable[str]) -> dict[str, Any]:
    """The action of Delta's protocol that adds a file."""
    from pyarrow import parquet

    found = file.stat()
    return {
        "add": {
            "path": file.name,
            "partitionValues": {},
            "size": found.st_size,
            "modificationTime": found.st_mtime_ns // 1_000_000,
            "dataChange": True,
            "stats": json.dumps(_statistics(parquet.read_metadata(file), frozenset(statistics))),
        }
    }


def _statistics(metadata: FileMetaData, names: frozenset[str]) -> dict[str, Any]:
    """The number of rows, and of these columns the bounds and the nulls, from a file's footer.

    Numbers, texts and times have bounds. A column of which a row group does not tell enough has none.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for place in range(metadata.num_columns):
        chunks = [group.column(place) for group in groups]
        name = chunks[0].path_in_schema if chunks else ""
        told: list[Any] = [chunk.statistics for chunk in chunks]
        if name not in names or not all(each is not None and each.has_null_count for each in told):
            continue
        nulls[name] = sum(each.null_count for each in told)
        filled = [each for each in told if each.num_values]
        if filled and all(each.has_min_max for each in filled):
            ends = _bounds([each.min for each in filled], [each.max for each in filled])
            if ends is not None:
                low[name], high[name] = ends
    return {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _bounds(lows: Sequence[Any], highs: Sequence[Any]) -> tuple[int, int] | tuple[str, str] | None:
    """The bounds as Delta's log writes them, perhaps wider than the values; None where there are none."""
    low, high = min(lows), max(highs)
    if isinstance(low, int):
        return low, high
    if isinstance(low, str):
        is_long = len(high) > _LONGEST_BOUND
        return low[:_LONGEST_BOUND], high[:_LONGEST_BOUND] + _HIGHEST_CHARACTER if is_long else high
    is_moment = isinstance(low, datetime) and low.tzinfo is not None
    if not is_moment or low.year not in _CERTAIN_YEARS or high.year not in _CERTAIN_YEARS:
        return None
    # the log has milliseconds
    high += timedelta(microseconds=-high.microsecond % 1000)
    first, last = (each.astimezone(UTC).isoformat(timespec="milliseconds") for each in (low, high))
    return first.replace("+00:00", "Z"), last.replace("+00:00", "Z")


def _remove(file: DataFile, location: str) -> dict[str, Any]:
    """The action of Delta's protocol that takes a file out of a table."""
    return {
        "remove": {
            "path": quote(file.path.relative_to(location).as_posix()),
            "deletionTimestamp": time.time_ns() // 1_000_000,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file.size,
        }
    }


def _operation(jvm: Any, attempt: Any, mode: str, note: str | None) -> Any:
    """The operation of a commit that writes, as Delta's log names it; releases add parameters at its end."""
    loader = attempt.getClass().getClassLoader()
    (build,) = loader.loadClass(f"{_DELTA}.DeltaOperations$Write").getConstructors()
    none = jvm.scala.Option.empty()
    said = none if note is None else jvm.scala.Option.apply(note)
    given = [jvm.org.apache.spark.sql.SaveMode.valueOf(mode), none, none, said]
    rest = [none] * (build.getParameterCount() - len(given))
    return jvm.org.apache.spark.sql.delta.DeltaOperations.Write(*given, *rest)
