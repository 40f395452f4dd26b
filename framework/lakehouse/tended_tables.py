"""Tables that `maintain` need not visit: no commit came since it was there, and no file has become old since.

Only of tables whose logs Python reads: elsewhere each look would cost as much as the visit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.lakehouse.lakehouse import Lakehouse, local_log
from framework.lakehouse.log_files import commit_time, newest_commit
from framework.lakehouse.small_files import read_note, write_note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE = "tended.tables"
_DAY = 24 * 60 * 60


class TendedTables:
    """The tables that `maintain` has left in order; its note is beside the checkpoints.

    A table is in order once its old files were removed when its newest commit was older than the time for
    which they stay: all that the commits before it had replaced was old enough then.
    """

    def __init__(self, spark: SparkSession, lake: Lakehouse) -> None:
        self._spark, self._lake, self._began = spark, lake, time.time()
        self._noted: dict[str, Any] = json.loads(read_note(spark, self._path) or "{}")

    @property
    def _path(self) -> str:
        return f"{self._lake.checkpoints}/{_NOTE}"

    def size_of(self, name: str) -> tuple[int, int] | None:
        """The files and bytes of a table that is in order; None for one that must be visited."""
        noted, log = self._noted.get(name), local_log(self._lake.location(name))
        if noted is None or log is None or newest_commit(log) != noted["commit"]:
            return None
        written = commit_time(log)
        # a write that was killed leaves files without a commit
        if written is None or _has_files_since(log.parent, written):
            return None
        return noted["files"], noted["size"]

    def note(self, name: str, files: int, size: int, days: int) -> None:
        """The old files of a table were removed, except those of the last days."""
        self._noted.pop(name, None)
        log = local_log(self._lake.location(name))
        written = None if log is None else commit_time(log)
        if log is not None and written is not None and written <= self._began - days * _DAY:
            self._noted[name] = {"commit": newest_commit(log), "files": files, "size": size}

    def write(self, tables: Collection[str] | None) -> None:
        """Keep the notes; of these tables alone where all tables are known."""
        kept = self._noted if tables is None else {n: self._noted[n] for n in tables if n in self._noted}
        write_note(self._spark, self._path, json.dumps(kept))


def _has_files_since(table: Path, moment: float) -> bool:
    """Whether the folder of a table has a file that is younger than a time, apart from its log."""
    for folder, folders, files in os.walk(table):
        if "_delta_log" in folders:
            folders.remove("_delta_log")
        if any((Path(folder) / name).stat().st_mtime > moment for name in files):
            return True
    return False
