"""Adds complete Parquet files to a Delta table, in one commit and without another copy of their rows.

Spark's writers can only write rows. Delta's own transaction, which those writers use, also takes files; it is
reached through the JVM, on one machine. Where that is not possible, nothing happens and the caller writes the
rows.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.lakehouse.lakehouse import local_log
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
_INDEXED = 32
"""Of so many columns Delta collects statistics where a table does not name the columns."""
_LONGEST_BOUND = 64
"""Longer texts are no bounds: they would fill the log of the table."""
_DELTA = "org.apache.spark.sql.delta"


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says of itself: Delta writes one transaction only once; `note` is its `userMetadata`."""

    transaction: Transaction | None = None
    note: str | None = None


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
    if is_connect(spark):
        return False
    log, folder = local_log(location), Path(location)
    if log is None or not files or any(os.stat(file).st_dev != folder.stat().st_dev for file in files):
        return False
    jvm: Any = spark._jvm
    delta, option = jvm.org.apache.spark.sql.delta, jvm.scala.Option
    current = delta.DeltaLog.forTable(spark._jsparkSession, location)
    attempt = current.startTransaction(option.empty(), option.empty())
    if not _takes_plain_files(attempt.metadata(), schema):
        return False
    once = commit.transaction
    if once is not None and attempt.txnVersion(once.app_id) >= once.version:
        return True
    actions = [] if once is None else [_transaction(once)]
    listed = attempt.metadata().configuration().get(STATISTICS)
    statistics = _names(listed.get()) if listed.isDefined() else schema.names[:_INDEXED]
    for file in files:
        own = folder / f"part-{uuid.uuid4().hex}.parquet"
        os.replace(file, own)
        actions.append(_add(own, statistics))
    parsed = [delta.actions.Action.fromJson(json.dumps(action)) for action in actions]
    loader = current.getClass().getClassLoader()
    as_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    attempt.commit(as_seq(parsed).toSeq(), _operation(jvm, loader, commit.note))
    return True


def _takes_plain_files(metadata: Any, schema: StructType) -> bool:
    """Whether a file with these columns needs nothing else to be a file of the table."""
    keys = [key for key in _keys(metadata.configuration()) if key.startswith("delta.")]
    if metadata.partitionColumns().nonEmpty() or not _HARMLESS.issuperset(keys):
        return False
    mine, theirs = (_types(found) for found in (schema.jsonValue(), json.loads(metadata.schemaString())))
    return mine == theirs


def _types(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {column["name"]: column["type"] for column in schema["fields"]}


def _keys(scala_map: Any) -> list[str]:
    found, keys = scala_map.keysIterator(), []
    while found.hasNext():
        keys.append(str(found.next()))
    return keys


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",")) if listed else ()


def _transaction(transaction: Transaction) -> dict[str, Any]:
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

    Only numbers and texts have bounds: Delta writes times with fewer digits than they have. A column of which
    a row group does not tell enough has none.
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
        if filled and all(each.has_min_max and isinstance(each.min, (int, str)) for each in filled):
            ends = min(each.min for each in filled), max(each.max for each in filled)
            if not any(isinstance(end, str) and len(end) > _LONGEST_BOUND for end in ends):
                low[name], high[name] = ends
    return {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _operation(jvm: Any, loader: Any, note: str | None) -> Any:
    """The operation of a commit that appends, as Delta's log names it; releases add parameters at its end."""
    (build,) = loader.loadClass(f"{_DELTA}.DeltaOperations$Write").getConstructors()
    none = jvm.scala.Option.empty()
    said = none if note is None else jvm.scala.Option.apply(note)
    given = [jvm.org.apache.spark.sql.SaveMode.Append, none, none, said]
    rest = [none] * (build.getParameterCount() - len(given))
    return jvm.org.apache.spark.sql.delta.DeltaOperations.Write(*given, *rest)
