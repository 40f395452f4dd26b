"""Why the stream over `bronze/messages` failed, and what to do."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from framework.contracts.table_names import MESSAGES_TABLE
from framework.errors import MainstemError, cause_of
from framework.lakehouse.expired_logs import log_expired
from framework.lakehouse.lakehouse import Lakehouse
from silver.stream.checkpoint import bronze_replaced

_GONE = (
    "FAILED_READ_FILE",
    "FileNotFoundException",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
)


_OTHER_TABLE = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


def is_of_gone_files(error: Exception) -> bool:
    """Whether files of a table are gone that the stream needs, its log included."""
    return not isinstance(error, MainstemError) and any(sign in str(error) for sign in _GONE)


def _gone_file(text: str) -> str:
    """The file that an error names: not `o12.parquet` in "while calling o12.parquet", which is no file."""
    found = re.search(r"(?<!\S)(?<!calling )\S+\.(?:parquet|json)\b", text)
    return found[0] if found else "which, the table's log tells"


def stream_failed(spark: SparkSession, error: Exception, lake: Lakehouse, checkpoint: str) -> MainstemError:
    """The error of a stream that has failed; `checkpoint` is where its checkpoint is."""
    if _OTHER_TABLE in str(error):
        return bronze_replaced(spark, lake)
    expired = log_expired(error, MESSAGES_TABLE, checkpoint, "messages that have an outcome")
    if expired is not None:
        return expired
    if is_of_gone_files(error):
        return MainstemError(
            "BRONZE_INCOMPLETE",
            found=f"files of {MESSAGES_TABLE} that silver has not read are gone: {_gone_file(str(error))}",
            where=f"the stream over {MESSAGES_TABLE}, checkpoint {checkpoint}",
            action="restore the files, or the newest state of the table; nothing was passed over."
            f" If they are lost: set aside {MESSAGES_TABLE} and the checkpoints of bronze,"
            " and land the messages again; the next run then names what to do about silver (BRONZE_REPLACED)",
        )
    return MainstemError(
        "SILVER_FAILED",
        found=cause_of(error),
        where=f"the stream over {MESSAGES_TABLE}, checkpoint {checkpoint}",
        action="run again; if files of the checkpoint are damaged, delete it and create the empty file"
        f" {checkpoint}.reset",
    )
