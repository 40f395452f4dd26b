"""Commits that removed or changed messages of bronze: the stream passes only those of `forget`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Row, SparkSession

from framework.contracts.erasure import ERASED, FORGOTTEN
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import ALL_COMMITS, Lakehouse
from framework.lakehouse.small_files import is_there, read_note, write_note

_HARMLESS = frozenset(
    {
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "CLUSTER BY",
        "COMPUTE STATS",
        "CREATE TABLE",
        "DROP CONSTRAINT",
        "OPTIMIZE",
        "REORG",
        "SET TBLPROPERTIES",
        "STREAMING UPDATE",
        "UNSET TBLPROPERTIES",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)
"""Delta operations that leave all messages unchanged; any other operation is refused."""

_NOTE = "silver.passed"
"""Beside the checkpoints: how far the commits of bronze were looked at. A checkpoint has its own note."""
_MEANWHILE = 100
"""So many commits may come while the log is read."""
_REFUSALS = ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE")
"""What Delta's stream says of a commit that changed or deleted rows."""


def past_erasures(spark: SparkSession, lake: Lakehouse, messages: str) -> dict[str, str]:
    """The stream options that pass commits in which `forget` emptied messages.

    Commits from before the checkpoint do not count: a new checkpoint begins with the messages that the table
    then has.

    Raises:
        MainstemError: Another commit changed or deleted messages.
    """
    if not is_there(spark, f"{lake.checkpoints}/silver.forgotten"):
        return {}
    generation = read_note(spark, f"{lake.checkpoints}/silver.generation") or "{}"
    newest = lake.version(spark, messages) or 0
    last = seen = _seen(spark, lake, generation, newest)
    for version, operation, found, note in _commits_since(spark, lake, messages, seen.version, newest):
        parameters = dict(found or {})
        is_erasure = last.is_announced and operation == "MERGE"
        if not is_erasure and is_rewrite(operation, parameters, note):
            raise rewritten(lake, messages, version)
        last = _Seen(version, announces_erasure(operation, parameters))
    if last != seen:
        text = json.dumps({"of": generation, "version": last.version, "is_announced": last.is_announced})
        write_note(spark, f"{lake.checkpoints}/{_NOTE}", text)
    return {"skipChangeCommits": "true"}


class _Seen(NamedTuple):
    """The last commit that was looked at, and whether it announces an erasure."""

    version: int
    is_announced: bool = False


def _seen(spark: SparkSession, lake: Lakehouse, generation: str, newest: int) -> _Seen:
    """How far earlier runs with this checkpoint have looked, or else where the checkpoint begins."""
    noted = json.loads(read_note(spark, f"{lake.checkpoints}/{_NOTE}") or "{}")
    if noted and noted["of"] == generation and noted["version"] <= newest:
        return _Seen(noted["version"], noted["is_announced"])
    return _Seen(int(json.loads(generation).get("begun_at", -1)))


def _commits_since(spark: SparkSession, lake: Lakehouse, messages: str, seen: int, newest: int) -> list[Row]:
    """The commits of the table after a version; without a job where the newest one is not later."""
    if newest <= seen:
        return []
    for limit in (newest - seen + _MEANWHILE, ALL_COMMITS):
        rows = lake.history(spark, messages, limit).where(f"version > {seen}")
        found = rows.select("version", "operation", "operationParameters", "userMetadata").collect()
        if len(found) < limit:
            break
    return sorted(found, key=lambda row: int(row[0]))


def announces_erasure(operation: str, parameters: Mapping[str, str]) -> bool:
    """Whether the commit lets `forget` empty messages in the next one, which may have no note of its own."""
    properties = parameters.get("properties", "")
    return operation == "SET TBLPROPERTIES" and ERASED in properties and FORGOTTEN in properties


def is_rewrite(operation: str, parameters: dict[str, str], note: str | None) -> bool:
    """Whether a commit may have changed or removed messages and is not one of `forget`."""
    if operation == "WRITE":
        return parameters.get("mode") != "Append"
    if operation == "MERGE" and FORGOTTEN in (note or ""):
        return False
    return operation not in _HARMLESS


def rewrite_in(error: Exception, lake: Lakehouse, messages: str) -> MainstemError | None:
    """The error for a stream that met such a commit; None for any other error."""
    text = str(error)
    if not any(refusal in text for refusal in _REFUSALS):
        return None
    found = re.search(r"at version (\d+)", text)
    return rewritten(lake, messages, int(found[1]) if found else None)


def rewritten(lake: Lakehouse, messages: str, version: int | None) -> MainstemError:
    """The error for a version of bronze that changed or deleted messages."""
    commit, before = "a commit", "the version before it"
    if version is not None:
        commit, before = (
            f"version {version}",
            f"version {version - 1}: RESTORE TABLE … TO VERSION AS OF {version - 1}",
        )
    silver, source = f"{lake.checkpoints}/silver", f"{lake.checkpoints}/bronze/<source>"
    return MainstemError(
        "BRONZE_REWRITTEN",
        found=f"{commit} of {messages} changed or deleted messages, and was not made by `forget`",
        where=lake.location(messages),
        action=f"1. Restore {before}. 2. Always delete {silver} and create the empty file {silver}.reset:"
        f" the stream cannot pass these commits. 3. Only for sources whose messages landed since: delete"
        f" {source} and create the empty file {source}.reset. Then run; what has landed, or has an outcome,"
        " is left out",
    )
