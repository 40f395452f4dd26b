"""Creates a Delta table whose first commit may have complete Parquet files already.

On a local disk this process writes the first commit of a plain table itself, with the checksum that Delta
writes beside each commit. Delta's own first commit asks Spark which files the table had before, although it
had none: that is most of what it costs to create a table. Everything that a checksum needs comes from Delta's
transaction; `tests/framework/lakehouse/test_new_tables.py` holds both commits against each other.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from framework.lakehouse.file_commits import (
    PLAIN,
    Commit,
    action_of,
    commit_actions,
    moved_files,
    once_of,
    takes_plain_files,
    transaction_of,
)
from framework.lakehouse.lakehouse import local_log
from framework.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_OLD_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
"""The protocol of a table that uses no feature of which a commit or a checksum would have to say more."""
_STALENESS = "spark.databricks.delta.stalenessLimit"
"""For how long a session takes the version of a table that it knows: here that there is none."""
_HISTOGRAMS = ("fileSizeHistogram", "histogramOpt")
"""What Delta calls the counts of files by their size; the second is the name in earlier releases."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """What a table is from its first commit on: its columns, its comment, and its properties."""

    schema: StructType
    comment: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        """The action of Delta's protocol that says it."""
        return {
            "metaData": {
                "id": str(uuid.uuid4()),
                "description": self.comment,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": self.schema.json(),
                "partitionColumns": [],
                "configuration": dict(self.properties),
                "createdTime": time.time_ns() // 1_000_000,
            }
        }


def create_table(
    spark: SparkSession,
    location: str,
    table: NewTable,
    files: Sequence[str] = (),
    commit: Commit = PLAIN,
) -> bool:
    """Create a table whose first commit has Parquet files, or none.

    Unlike a statement it also takes a folder that a killed process has left, with a log without commits.

    Args:
        spark: The session.
        location: The path of the table, which does not exist.
        table: What the table is.
        files: The paths of files with these columns, on the disk of the lakehouse.
        commit: What the commit says of itself.

    Returns:
        Whether there is a table with the files now. If not, nothing has happened: another process may have
        created the table meanwhile.
    """
    if is_connect(spark) or local_log(location) is None:
        return False
    folder = Path(location)
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
    if any(os.stat(file).st_dev != folder.stat().st_dev for file in files):
        return False
    attempt, jvm = transaction_of(spark, location), cast(Any, spark)._jvm
    if int(attempt.readVersion()) >= 0:
        return False
    attempt.updateMetadataForNewTable(action_of(jvm, table.metadata()))
    if files and not takes_plain_files(attempt.metadata(), table.schema):  # the session may add properties
        return False
    once = [] if commit.transaction is None else [once_of(commit.transaction)]
    added = moved_files(files, attempt, location, table.schema)
    mode = "Append" if files else "ErrorIfExists"
    try:
        is_written = _write_first(jvm, attempt, folder, _First(mode, commit.note, once, added))
    except FileExistsError:
        for file, action in zip(files, added, strict=True):
            os.replace(folder / action["add"]["path"], file)
        return False
    if not is_written:
        commit_actions(jvm, attempt, [*once, *added], mode, commit.note)
    elif spark.conf.get(_STALENESS, None) is not None:
        jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, location)
    return True


@dataclass(frozen=True, slots=True)
class _First:
    """The first commit: how it writes, what it says, its application's version, and its files, as actions."""

    mode: str
    note: str | None
    once: Sequence[Mapping[str, Any]]
    added: Sequence[Mapping[str, Any]]


def _write_first(jvm: Any, attempt: Any, folder: Path, first: _First) -> bool:
    """Write the first commit and its checksum; returns whether that was possible.

    Raises FileExistsError where another process has written a first commit meanwhile.
    """
    protocol = json.loads(attempt.protocol().json())["protocol"]
    if protocol != _OLD_PROTOCOL:
        return False
    metadata = json.loads(attempt.metadata().json())["metaData"]
    as_json = jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString
    before = json.loads(as_json(attempt.snapshot().computeChecksum()))
    transaction_id, log = str(attempt.txnId()), folder / "_delta_log"
    said = _commit_info(first, transaction_id)
    actions = [said, {"metaData": metadata}, {"protocol": protocol}, *first.once, *first.added]
    try:
        _remove_leftovers(log)
        _write_once(log / f"{0:020d}.json", actions)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, as of a mounted object store
        return False
    checksum = before | {
        "txnId": transaction_id,
        **_totals(before, [added["add"] for added in first.added]),
        "setTransactions": [once["txn"] for once in first.once],
        "metadata": metadata,
        "protocol": protocol,
    }
    with suppress(OSError):  # a table without it is complete
        _write_once(log / f"{0:020d}.crc", [checksum])
    return True


def _remove_leftovers(log: Path) -> None:
    """Remove the checksums of a first commit that is gone; raises FileExistsError where there is one.

    Delta would take its checksum for that of the new commit. Hadoop, which may write one beside each file,
    would read neither the new commit nor its checksum.
    """
    commit = f"{0:020d}.json"
    if (log / commit).exists():
        raise FileExistsError(commit)
    for name in (f"{0:020d}.crc", f".{commit}.crc", f".{0:020d}.crc.crc"):
        (log / name).unlink(missing_ok=True)


def _commit_info(first: _First, transaction_id: str) -> dict[str, Any]:
    note = {} if first.note is None else {"userMetadata": first.note}
    return {
        "commitInfo": {
            "timestamp": time.time_ns() // 1_000_000,
            "operation": "WRITE",
            "operationParameters": {"mode": first.mode},
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {},
            **note,
            "engineInfo": "Mainstem",
            "txnId": transaction_id,
        }
    }


def _totals(before: Mapping[str, Any], added: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the checksum of a table says of its files, which are all new."""
    sizes = [file["size"] for file in added]
    totals: dict[str, Any] = {
        "tableSizeBytes": sum(sizes),
        "numFiles": len(sizes),
        "allFiles": [{**file, "dataChange": False} for file in added],
    }
    for name in _HISTOGRAMS:
        if before.get(name) is not None:
            totals[name] = _counted(before[name], sizes)
    return totals


def _counted(empty: Mapping[str, Any], sizes: Iterable[int]) -> dict[str, Any]:
    """How many files and bytes are at or above each boundary, and below the next one."""
    counts, volumes = list(empty["fileCounts"]), list(empty["totalBytes"])
    for size in sizes:
        place = bisect_right(empty["sortedBinBoundaries"], size) - 1
        counts[place] += 1
        volumes[place] += size
    return {**empty, "fileCounts": counts, "totalBytes": volumes}


def _write_once(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a complete file of JSON rows, which nobody sees before; raises FileExistsError if it is there."""
    unseen = file.with_name(f".{file.name}.{uuid.uuid4()}.tmp")
    try:
        unseen.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        os.link(unseen, file)
    except FileExistsError:
        if not file.samefile(unseen):  # NFS may have made the link, and lost its answer
            raise
    finally:
        unseen.unlink(missing_ok=True)
