"""A stream over a Delta table that has stood still for longer than the table keeps its log.

Delta removes old commits from a log (`delta.logRetentionDuration`, 30 days by default). The rows stay, but a
stream reads them commit by commit. A new checkpoint reads all of them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from framework.errors import MainstemError
from framework.lakehouse.small_files import is_local

_EXPIRED = ("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE", "DELTA_MISSING_FILES_UNEXPECTED_VERSION")


def log_expired(error: Exception, table: str, checkpoint: str, left_out: str) -> MainstemError | None:
    """The error for such a stream; None for any other error.

    Args:
        error: What ended the stream.
        table: The table, as people know it.
        checkpoint: The checkpoint of the stream.
        left_out: What a new checkpoint leaves out.
    """
    if isinstance(error, MainstemError) or not any(sign in str(error) for sign in _EXPIRED):
        return None
    return MainstemError(
        "LOG_EXPIRED",
        found=f"the log of {table} has lost commits before they were read, because it keeps them for a"
        " limited time",
        where=f"the stream over {table}, checkpoint {checkpoint}",
        action=f"delete {checkpoint}, create the empty file {checkpoint}.reset and run again:"
        f" the whole table is read again, and {left_out} are left out",
    )


def begin_again(error: MainstemError, checkpoint: str) -> bool:
    """Do what this error advises; False for other errors, and where Python does not reach the checkpoint.

    Whatever a process that dies leaves, the next one comes here again, or begins anew.
    """
    if error.condition != "LOG_EXPIRED" or not is_local(checkpoint):
        return False
    aside = f"{checkpoint}.expired"
    shutil.rmtree(aside, ignore_errors=True)
    Path(f"{checkpoint}.reset").touch()
    os.rename(checkpoint, aside)
    shutil.rmtree(aside, ignore_errors=True)
    return True
