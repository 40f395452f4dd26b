"""The owner of a lakehouse: one pipeline, whose tables, checkpoints and batch numbers are its own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.small_files import read_note, write_note
from framework.private_files import open_lock_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def claim(spark: SparkSession, lake: Lakehouse, pipeline: str) -> None:
    """Make this pipeline the owner for good; raises MainstemError LAKEHOUSE_TAKEN if another one is."""
    path = _path(lake)
    with _one_at_a_time(lake):
        check_owner(spark, lake, pipeline)
        if not (read_note(spark, path) or "").strip():
            write_note(spark, path, pipeline)


@contextmanager
def _one_at_a_time(lake: Lakehouse) -> Iterator[None]:
    """Prevent that two pipelines claim a lakehouse at once; an object store or a volume has no lock for it.

    The lock is on a private file: other users can lock the folder if they can read it.
    """
    if lake.local_root is None:
        yield
        return
    lock = Path(f"{_path(lake)}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock_file(lock)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def check_owner(spark: SparkSession | None, lake: Lakehouse, pipeline: str) -> None:
    """Raises MainstemError LAKEHOUSE_TAKEN where another pipeline owns the lakehouse.

    A lakehouse on a local file system needs no session.
    """
    path = _path(lake)
    owner = read_note(spark, path)
    if owner is not None and owner.strip() not in ("", pipeline):
        raise MainstemError(
            "LAKEHOUSE_TAKEN",
            found=f"the lakehouse of the pipeline '{owner.strip()}', "
            f"and the configuration is that of '{pipeline}'",
            where=path,
            action=f"give '{pipeline}' a lakehouse of its own; "
            "if it is the same pipeline under a new name, write the name into that file"
            " after a run under the old name has ended well",
        )


def _path(lake: Lakehouse) -> str:
    return f"{lake.checkpoints}/pipeline"
