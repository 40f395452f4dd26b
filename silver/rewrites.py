"""Commits that took messages of bronze away or changed them: the stream over bronze does not pass them, unless they are `forget`'s own."""

from __future__ import annotations

import json
import re

from pyspark.sql import SparkSession

from framework.contracts.erasure import FORGOTTEN
from framework.errors import MainstemError
from framework.notes import is_there, read_note
from framework.tables import ALL_COMMITS, Lakehouse

_HARMLESS = frozenset(
    {
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "CHANGE COLUMN",
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
"""Operations, in Delta's words, that leave all messages as they are; what is not known to is refused."""

_REFUSALS = ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE")
"""What Delta's stream says of a commit that changed or deleted rows."""


def past_erasures(spark: SparkSession, lake: Lakehouse, messages: str) -> dict[str, str]:
    """How the stream passes commits in which `forget` emptied messages; raises MainstemError where others rewrote any.

    Commits from before the checkpoint began do not count: a new checkpoint begins with what the table then holds.
    """
    if not is_there(spark, f"{lake.checkpoints}/silver.forgotten"):
        return {}
    begun_at = json.loads(read_note(spark, f"{lake.checkpoints}/silver.generation") or "{}").get("begun_at", -1)
    history = lake.history(spark, messages, ALL_COMMITS).where(f"version > {int(begun_at)}")
    told = history.select("version", "operation", "operationParameters", "userMetadata").orderBy("version").collect()
    for version, operation, parameters, note in told:
        if is_rewrite(operation, dict(parameters or {}), note):
            raise rewritten(lake, messages, version)
    return {"skipChangeCommits": "true"}


def is_rewrite(operation: str, parameters: dict[str, str], note: str | None) -> bool:
    """Whether a commit may have changed or taken away messages without being one of `forget`'s."""
    if operation == "WRITE":
        return parameters.get("mode") != "Append"
    if operation == "MERGE" and FORGOTTEN in (note or ""):
        return False
    return operation not in _HARMLESS


def rewrite_in(error: Exception, lake: Lakehouse, messages: str) -> MainstemError | None:
    """The error of a stream that met a rewritten commit, in three parts; None for any other error."""
    text = str(error)
    if not any(refusal in text for refusal in _REFUSALS):
        return None
    found = re.search(r"at version (\d+)", text)
    return rewritten(lake, messages, int(found[1]) if found else None)


def rewritten(lake: Lakehouse, messages: str, version: int | None) -> MainstemError:
    """The error for a version of bronze that changed or deleted messages."""
    commit, before = "a commit", "the version before it"
    if version is not None:
        commit, before = f"version {version}", f"version {version - 1}: RESTORE TABLE … TO VERSION AS OF {version - 1}"
    checkpoints = f"{lake.checkpoints}/bronze/<source>, {lake.checkpoints}/silver"
    return MainstemError(
        "BRONZE_REWRITTEN",
        found=f"{commit} of {messages} changed or deleted messages, and was not made by `forget`",
        where=lake.place(messages),
        action=f"restore {before}. What has landed since then is to land again: delete the checkpoints {checkpoints}, create the empty file"
        " <checkpoint>.reset for each, and run again; what has landed, or has a fate, is left out",
    )
