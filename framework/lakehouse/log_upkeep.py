"""Keeps the log folder of a table on a local disk short: whoever opens the table lists it, file by file.

Delta leaves each commit there for thirty days, with a checksum beside it. In a table that gets a commit every
few minutes these are thousands of files, and a run opens some tables several times.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from framework.lakehouse.lakehouse import local_log
from framework.lakehouse.log_files import newest_checkpoint

_KEPT = 20
"""How many versions before the last checkpoint keep all their files: other processes may just open them."""
_CHECKSUM, _COMMIT, _CHECKPOINT = ".crc", ".json", ".checkpoint.parquet"


def remove_old_checksums(location: str) -> None:
    """Remove the checksums of versions that nobody opens as the newest one; older versions need none.

    It looks at the names of versions downwards until one is missing, so that it does no more work than the
    commits since it was last called.
    """
    _remove(location, _CHECKSUM)


def remove_read_commits(location: str) -> None:
    """Remove the commits before the last checkpoint of a table that only this pipeline reads, to the end.

    Without them the table cannot be read as it was before, and no new stream can read how it came to be.
    """
    _remove(location, _COMMIT, _CHECKPOINT, _CHECKSUM)


def _remove(location: str, *endings: str) -> None:
    log = local_log(location)
    checkpoint = None if log is None else newest_checkpoint(log)
    if log is None or checkpoint is None:
        return
    for version in count(checkpoint - _KEPT - 1, -1):
        removed = [_is_removed(log, version, ending) for ending in endings]
        if version <= 0 or not removed[0]:
            return


def _is_removed(log: Path, version: int, ending: str) -> bool:
    try:
        (log / f"{version:020d}{ending}").unlink()
    except OSError:  # it is gone, or this user may not remove it
        return False
    return True
