"""Small text files beside a stream's checkpoint, on any file system."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

from framework.private_files import replace_text
from framework.spark.local_frame import local_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GLOB = frozenset("*?[]{}\\")


def is_local(place: str) -> bool:
    """Whether Python's `open` reaches the path; else Spark lists and reads it."""
    return PurePath(place).is_absolute()


def without_glob(path: str) -> str:
    """The path as Spark's readers take it, without wildcards."""
    return "".join(f"\\{character}" if character in _GLOB else character for character in path)


def read_note(spark: SparkSession | None, path: str) -> str | None:
    """The text at `path`, None where there is none. A local path needs no session."""
    if is_local(path):
        return read_local_note(path)
    if spark is None:
        raise ValueError("a path that is not local is read by a session")
    from pyspark.errors import AnalysisException

    try:
        row = spark.read.text(without_glob(path), wholetext=True).first()
    except AnalysisException:
        return None
    return None if row is None else str(row[0])


def read_local_note(path: str) -> str | None:
    """The text at a path of a local file system, None where there is none."""
    file = Path(path)
    return file.read_text(encoding="utf-8") if file.is_file() else None


def write_note(spark: SparkSession, path: str, text: str) -> None:
    """Replace the text at `path`; on a local file system at once or not at all."""
    if not is_local(path):
        local_frame(spark, [(text,)], "value string").coalesce(1).write.mode("overwrite").text(path)
        return
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, text)


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is a file, also an empty one, at `path`, or a folder with a file."""
    if is_local(path):
        return os.path.exists(path)
    from pyspark.errors import AnalysisException

    try:
        # the list of the files: their rows lack the empty ones
        return bool(spark.read.format("binaryFile").load(without_glob(path)).inputFiles())
    except AnalysisException:
        return False


def remove(spark: SparkSession, path: str) -> None:
    """Remove the file at `path`, if there is one; not on Spark Connect, where nothing reaches other disks."""
    from framework.spark.session import is_connect

    if is_local(path):
        Path(path).unlink(missing_ok=True)
    elif not is_connect(spark):
        jvm: Any = spark._jvm
        place = jvm.org.apache.hadoop.fs.Path(path)
        place.getFileSystem(cast(Any, spark)._jsparkSession.sessionState().newHadoopConf()).delete(
            place, False
        )
