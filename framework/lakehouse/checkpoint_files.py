"""Checks the files of a stream's checkpoint before Spark reads them; tells how far the stream has read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import ALL_COMMITS, Lakehouse
from framework.lakehouse.small_files import is_local, read_note, without_glob

_STILL = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "REORG")
"""Operations that add no row: a stream that has not read them needs none of their files."""
_READ_AT_START = 2
"""The number of the newest files of a log that Spark reads when a stream starts."""


def check_files(checkpoint: str, where: str) -> None:
    """Raises MainstemError CHECKPOINT_DAMAGED when a file that the stream needs is missing or truncated.

    A checkpoint that has not begun has no files. Those in an object store are not checked: writes there are
    atomic.
    """
    fault = _fault(Path(checkpoint)) if is_local(checkpoint) else None
    if fault is not None:
        file, found = fault
        raise MainstemError(
            "CHECKPOINT_DAMAGED",
            found=f"{file} {found}",
            where=where,
            action=f"put it back from a backup; or delete {checkpoint}, "
            f"create the empty file {checkpoint}.reset and run again:"
            " what was read is then left out",
        )


def newest_offsets(spark: SparkSession, checkpoint: str) -> tuple[str | None, str | None]:
    """The offsets of a stream of one source: of its last committed batch, and of its planned one.

    Both are the JSON text of the source, or None where there is no such batch.
    """
    committed, planned = (_newest_number(spark, f"{checkpoint}/{log}") for log in ("commits", "offsets"))
    return _offsets(spark, checkpoint, committed), _offsets(spark, checkpoint, planned)


def has_ended_batch(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a batch of the stream has ended. Spark removes the marks of old batches, never the newest."""
    return _newest_number(spark, f"{checkpoint}/commits") is not None


def is_read_to_end(spark: SparkSession, lake: Lakehouse, name: str, checkpoint: str) -> bool:
    """Whether the stream over a table has read the last commit that added rows; False if that is unknown."""
    version = _next_version(spark, checkpoint)
    if version is None:
        return False
    is_later = (F.col("version") >= version) & ~F.col("operation").isin(*_STILL)
    try:
        return lake.history(spark, name, ALL_COMMITS).where(is_later).isEmpty()
    except Exception:  # a damaged table: whoever works on it says what is wrong
        return False


def _next_version(spark: SparkSession, checkpoint: str) -> int | None:
    """The version of the table that the stream would read next, from the newest batch that has ended."""
    try:
        offset = json.loads(newest_offsets(spark, checkpoint)[0] or "null")
        return int(offset["reservoirVersion"]) if offset["index"] == -1 else None
    except (ValueError, KeyError, TypeError):
        return None


def _offsets(spark: SparkSession, checkpoint: str, number: int | None) -> str | None:
    text = read_note(spark, f"{checkpoint}/offsets/{number}") if number is not None else None
    return text.splitlines()[-1] if text else None


def _newest_number(spark: SparkSession, log: str) -> int | None:
    if is_local(log):
        names = os.listdir(log) if os.path.isdir(log) else []
    else:
        try:
            names = [
                row["path"].rpartition("/")[2]
                for row in spark.read.format("binaryFile").load(without_glob(log)).select("path").collect()
            ]
        except AnalysisException:
            names = []
    return max((int(name) for name in names if name.isdigit()), default=None)


def _fault(checkpoint: Path) -> tuple[Path, str] | None:
    offsets = _newest(checkpoint / "offsets")
    if not offsets:
        return None
    metadata = checkpoint / "metadata"
    if not metadata.is_file():
        return metadata, "is gone"
    if not _is_json(metadata.read_text(encoding="utf-8", errors="replace")):
        return metadata, "is no JSON object: it was cut short"
    for file, lines in [*((f, 3) for f in offsets), *((f, 2) for f in _newest(checkpoint / "commits"))]:
        if not _is_whole(file.read_text(encoding="utf-8", errors="replace"), lines):
            return file, "is not whole: it was cut short"
    return None


def _newest(log: Path) -> list[Path]:
    numbers = (
        sorted((int(name) for name in os.listdir(log) if name.isdigit()), reverse=True)
        if log.is_dir()
        else []
    )
    return [log / str(number) for number in numbers[:_READ_AT_START]]


def _is_whole(text: str, lines: int) -> bool:
    """Whether a log file has its version and enough lines, each a JSON object, a number or a dash."""
    version, *rest = text.splitlines() or [""]
    return (
        version.startswith("v")
        and len(rest) >= lines - 1
        and all(_is_json(line) or line == "-" or line.isdigit() for line in rest)
    )


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
