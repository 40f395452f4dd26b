"""Lists the files of a landing folder and decides which of them are complete."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from framework.errors import MainstemError
from framework.lakehouse.small_files import without_glob

SETTLE_MICROS = 1_000_000
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", "._COPYING_")

_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a listing; `file` is its path below the landing folder, `modified_at` is in microseconds."""

    file: str
    path: str
    size: int
    modified_at: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The complete files of a landing folder in order of landing, and the names of the incomplete ones."""

    complete: tuple[ListedFile, ...]
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clock:
    """The time in microseconds since the epoch, and a way to wait; tests replace both."""

    now: Callable[[], int] = lambda: time.time_ns() // 1000
    wait: Callable[[int], None] = lambda micros: time.sleep(micros / 1_000_000)


def list_complete(
    list_files: Callable[[], Sequence[ListedFile]], known: Mapping[str, ListedFile], clock: Clock
) -> Listing:
    """The files that nobody writes any more: size and modification time have not changed for a second.

    If a file was modified within the last second, or has a time in the future, the folder is listed again
    after a second. Files that have changed by then, or are new, wait for the next run. Known files that have
    not changed need no second listing. A writer that pauses for longer than a second must write under another
    name (hidden, `.tmp`, `.part`, ...) or in another folder, and rename the file when it is finished.
    """
    first = list_files()
    horizon = clock.now() - SETTLE_MICROS
    fresh = {file.file for file in first if file.modified_at > horizon and not is_same(file, known)}
    if not fresh:
        return Listing(_in_order(first))
    clock.wait(SETTLE_MICROS)
    before = {file.file: file for file in first}
    second = list_files()
    settled = [file for file in second if is_same(file, before)]
    return Listing(
        _in_order(settled), tuple(sorted(file.file for file in second if not is_same(file, before)))
    )


def is_same(file: ListedFile, known: Mapping[str, ListedFile]) -> bool:
    """Whether a file of another listing has the same size and time there."""
    other = known.get(file.file)
    return other is not None and (other.size, other.modified_at) == (file.size, file.modified_at)


def _in_order(files: Iterable[ListedFile]) -> tuple[ListedFile, ...]:
    return tuple(sorted(files, key=lambda file: (file.modified_at, file.file)))


def utf8_name(name: str) -> str:
    """The name of a file with escapes for bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def digest(files: Iterable[ListedFile]) -> str:
    """A hash of names, sizes and times, which does not depend on the order of the files."""
    lines = sorted(f"{file.file}\0{file.size}\0{file.modified_at}\n" for file in files)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def list_remote(spark: SparkSession, folder: str) -> list[ListedFile]:
    """Lists the files of a folder with Spark, without reading their contents."""
    try:
        return listed_files(folder, _list_with_spark(spark, folder))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise no_folder(folder) from None
        raise


def list_existing(spark: SparkSession, folder: str, paths: Sequence[str]) -> list[ListedFile]:
    """The files at `paths` with their present sizes and times; all files of the folder if one is gone."""
    try:
        return listed_files(folder, _list_with_spark(spark, *paths))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return list_remote(spark, folder)
        raise


def _list_with_spark(spark: SparkSession, *places: str) -> list[Row]:
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    files = reader.load([without_glob(place) for place in places])
    return files.select("path", "length", F.unix_micros("modificationTime").alias("modified_at")).collect()


def listed_files(folder: str, rows: Iterable[Row]) -> list[ListedFile]:
    """Rows of `path`, `length` and `modified_at` as files, without hidden and unfinished ones."""
    files = [
        ListedFile(_below(folder, row["path"]), row["path"], row["length"], row["modified_at"])
        for row in rows
    ]
    return [file for file in files if not any(is_ignored(part) for part in file.file.split("/"))]


def _below(folder: str, path: str) -> str:
    """The part of `path` below `folder`; either may have one, two or three slashes after the scheme."""
    scheme, _, rest = folder.partition(":")
    prefix = rest.strip("/") + "/"
    its_scheme, _, its_rest = path.partition(":")
    its_rest = its_rest.lstrip("/")
    if scheme != its_scheme or not its_rest.startswith(prefix):
        raise MainstemError(
            "LANDING_FOLDER_UNREADABLE",
            found=f"the file {path}, which is not below it",
            where=folder,
            action="write the folder as Spark names it",
        )
    return its_rest[len(prefix) :]


def is_ignored(name: str) -> bool:
    """Whether a file or folder of this name is hidden or unfinished."""
    return name.startswith(_HIDDEN) or name.endswith(UNFINISHED)


def no_folder(folder: str, found: str = "no such folder") -> MainstemError:
    """The error of a landing folder that does not exist."""
    action = "create it, or correct `files:` of the source"
    return MainstemError("LANDING_FOLDER_MISSING", found=found, where=folder, action=action)
