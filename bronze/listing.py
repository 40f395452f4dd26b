"""What lies in a landing folder, and which of it is complete."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from framework.errors import MainstemError
from framework.notes import is_local, without_glob

SETTLE_MICROS = 1_000_000
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", "._COPYING_")

_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as a listing shows it: `file` is its path below the landing folder, `modified_at` is in microseconds."""

    file: str
    path: str
    size: int
    modified_at: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a landing folder: the complete ones in the order in which they land, and the names of the others."""

    complete: tuple[FoundFile, ...]
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clock:
    """The time in microseconds of the epoch, and a way to let it pass; tests bring their own."""

    now: Callable[[], int] = lambda: time.time_ns() // 1000
    wait: Callable[[int], None] = lambda micros: time.sleep(micros / 1_000_000)


def list_complete(look: Callable[[], Sequence[FoundFile]], known: Mapping[str, FoundFile], clock: Clock) -> Listing:
    """The files that nobody is writing any more: size and modification time have stood still for a second.

    A file that was modified within the last second, or has a time in the future, is looked at again after a second, once
    for all of them; what has moved by then, or has appeared meanwhile, waits for the next run. Known files that are as
    they were need no second look. A writer that pauses for longer than a second must write under another name (hidden,
    `.tmp`, `.part`, ...) or in another folder and rename when it is done.
    """
    first = look()
    horizon = clock.now() - SETTLE_MICROS
    fresh = {found.file for found in first if found.modified_at > horizon and not _is_same(found, known)}
    if not fresh:
        return Listing(_in_order(first))
    clock.wait(SETTLE_MICROS)
    before = {found.file: found for found in first}
    second = look()
    settled = [found for found in second if _is_same(found, before)]
    return Listing(_in_order(settled), tuple(sorted(found.file for found in second if not _is_same(found, before))))


def _is_same(found: FoundFile, known: Mapping[str, FoundFile]) -> bool:
    other = known.get(found.file)
    return other is not None and (other.size, other.modified_at) == (found.size, found.modified_at)


def _in_order(files: Iterable[FoundFile]) -> tuple[FoundFile, ...]:
    return tuple(sorted(files, key=lambda found: (found.modified_at, found.file)))


def digest(files: Iterable[FoundFile]) -> str:
    """A hash of names, sizes and times: equal for equal listings, in whatever order."""
    lines = sorted(f"{found.file}\0{found.size}\0{found.modified_at}\n" for found in files)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def list_folder(spark: SparkSession, folder: str) -> list[FoundFile]:
    """All files below a landing folder but hidden and unfinished ones; raises MainstemError when it cannot be listed."""
    return list_local(folder) if is_local(folder) else list_remote(spark, folder)


def list_local(folder: str) -> list[FoundFile]:
    """The files of a folder that Python reaches, links followed. Sockets, pipes and links to nothing are no files."""
    try:
        return list(_walk(folder, "", frozenset()))
    except FileNotFoundError:
        raise _no_folder(folder) from None
    except NotADirectoryError:
        raise MainstemError(
            "LANDING_FOLDER_MISSING",
            found="a file, where a folder of files is needed",
            where=folder,
            action="write the folder that it is in",
        ) from None
    except PermissionError as error:
        raise MainstemError(
            "LANDING_FOLDER_UNREADABLE",
            found="a folder that may not be listed",
            where=str(error.filename),
            action="give the user of this run the right to read it",
        ) from None


def _walk(folder: str, below: str, parents: frozenset[str]) -> Iterator[FoundFile]:
    real = os.path.realpath(folder)
    if real in parents:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_skipped(entry.name):
                continue
            name = f"{below}{entry.name}"
            try:
                status = entry.stat()
                if stat.S_ISDIR(status.st_mode):
                    yield from _walk(entry.path, f"{name}/", parents | {real})
                elif stat.S_ISREG(status.st_mode):
                    yield FoundFile(name, entry.path, status.st_size, status.st_mtime_ns // 1000)
            except FileNotFoundError:
                continue


def list_remote(spark: SparkSession, folder: str) -> list[FoundFile]:
    """The files of a folder that Spark reaches; their contents are not read."""
    try:
        return found_files(folder, _told(spark, folder))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise _no_folder(folder) from None
        raise


def list_these(spark: SparkSession, folder: str, paths: Sequence[str]) -> list[FoundFile]:
    """Those of the files of a folder that Spark reaches that are still there; the folder is listed only where one is not."""
    try:
        return found_files(folder, _told(spark, *paths))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return list_remote(spark, folder)
        raise


def _told(spark: SparkSession, *places: str) -> list[Row]:
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    files = reader.load([without_glob(place) for place in places])
    return files.select("path", "length", F.unix_micros("modificationTime").alias("modified_at")).collect()


def found_files(folder: str, rows: Iterable[Row]) -> list[FoundFile]:
    """Rows of path, length and modified_at as files below the folder, but for hidden and unfinished ones."""
    found = [FoundFile(_below(folder, row["path"]), row["path"], row["length"], row["modified_at"]) for row in rows]
    return [each for each in found if not any(_is_skipped(part) for part in each.file.split("/"))]


def _below(folder: str, path: str) -> str:
    """The part of `path` below `folder`; the two may write the scheme with one, two or three slashes."""
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


def _is_skipped(name: str) -> bool:
    return name.startswith(_HIDDEN) or name.endswith(UNFINISHED)


def _no_folder(folder: str, found: str = "no such folder") -> MainstemError:
    action = "create it, or correct `files:` of the source"
    return MainstemError("LANDING_FOLDER_MISSING", found=found, where=folder, action=action)
