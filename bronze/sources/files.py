"""Messages in files: every complete file below a landing folder is read once, line by line.

What a run finds is first recorded in the source's log (`ops/files/<source>`), in one commit; a stream over that log then
lands it. The log decides what is new, so an old modification time hides nothing. A file may be deleted once it was read.
A file whose size or time changes after it was read stops the source (FILE_CHANGED), one that is gone before it was read
too (FILE_VANISHED). A file that has not given a message yet, because the run was stopped or the file was empty or
corrupt, may be replaced: the log's newest entry of a file counts.

Folders that Python's `open` reaches are read in chunks, files of any size. In others (object stores) Spark reads the
files whole, so they may have 256 MiB at most. On Databricks Auto Loader tells what is new in those.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.arrivals import has_auto_loader, list_arrived
from bronze.checkpoint import has_checkpoint, lost
from bronze.contents import Reading, content_reader, path_reader
from bronze.file_log import LoggedFile, append_log, landed_files, log_name, logged_files, read_log, superseded
from bronze.listing import Clock, FoundFile, Listing, digest, list_complete, list_folder, list_these
from bronze.source import STATEMENTS_PER_BATCH, Discovery, Feed, Part, SourceKind, Waiting
from bronze.stops import moving, rewritten, too_large, vanished
from framework.contracts.tables import MESSAGES
from framework.crash import crash_point
from framework.notes import is_local, without_glob

PART_BYTES = 4 * 1024**3
TASK_BYTES = 64 * 1024**2
LARGEST_REMOTE = 256 * 1024**2

_GZIP_WEIGHT = 8
_FILE_WEIGHT = 64 * 1024


def discover(spark: SparkSession, feed: Feed, memory: str, clock: Clock | None = None) -> Discovery:
    """Record the new complete files; raises MainstemError when a file stops the source."""
    clock = clock or Clock()
    look = _look(spark, feed, memory, clock, lambda: _arrived(spark, feed))
    if look is None:
        return Discovery(is_idle=True, memory=memory)
    if look.new:
        crash_point("bronze.before_log")
        append_log(spark, feed, _entries(look.new, look.log, clock.now()))
        crash_point("bronze.after_log")
    landed = max((entry.sequence for entry in look.log.values()), default=0) + len(look.new)
    next_memory = {"digest": None if look.listing.waiting else digest(look.listing.complete), "landed": landed}
    return Discovery(landed == look.landed, look.listing.waiting, json.dumps(next_memory))


def peek(spark: SparkSession, feed: Feed, memory: str, clock: Clock | None = None) -> Waiting:
    """The complete files that have not landed, and their messages; raises MainstemError as `discover` does."""
    clock = clock or Clock()
    look = _look(spark, feed, memory, clock, lambda: list_folder(spark, _folder(feed)))
    if look is None:
        return Waiting()
    logged = [entry.found for entry in look.log.values() if entry.sequence > look.landed]
    landed = landed_files(spark, feed, [found.file for found in logged])
    files = [found for found in logged if found.file not in landed and found not in look.new] + look.new
    reading = Reading(feed.name, str(feed.source.layout), clock.now())
    messages = read_messages(spark, _folder(feed), files, reading) if files else None
    return Waiting(messages, tuple(found.file for found in files), look.listing.waiting)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a listing shows beside the log, whose entries up to `landed` have landed."""

    listing: Listing
    log: dict[str, LoggedFile]
    new: list[FoundFile]
    landed: int


def _look(spark: SparkSession, feed: Feed, memory: str, clock: Clock, there: Callable[[], Sequence[FoundFile]]) -> _Look | None:
    """What is new in the folder; None where it is as the last look left it."""
    last = json.loads(memory or "{}")
    has_log = feed.lake.exists(spark, log_name(feed.name))
    if has_log and last.get("digest") == digest(there()):
        return None
    if not has_log and has_checkpoint(spark, feed):
        raise lost(feed, f"the log {feed.lake.place(log_name(feed.name))} of the files that were read is gone")
    log = read_log(spark, feed) if has_log else {}
    known = {file: entry.found for file, entry in log.items()}
    listing = _readable(list_complete(there, known, clock))
    new = _new_files(spark, feed, listing, log)
    landed = int(last.get("landed", 0))
    _check_missing(spark, feed, listing, [entry for entry in log.values() if entry.sequence > landed])
    return _Look(listing, log, new, landed)


def read_stream(spark: SparkSession, feed: Feed) -> DataFrame:
    """The log as a stream.

    It begins with the log's first commit where that is still told: what a table holds as a whole costs four jobs more.
    """
    name = log_name(feed.name)
    return feed.lake.read_stream(spark, name, {"startingVersion": "0"} if feed.lake.tells_first_version(name) else None)


def parts(batch: DataFrame, feed: Feed, is_reset: bool) -> Iterator[Part]:
    """The messages of a batch's files, in commits of bounded size that are the same however often they are asked for.

    A file that was read may be gone when its batch is run again: what has landed is not asked for.
    """
    spark = batch.sparkSession
    entries = logged_files(batch)
    if not entries:
        return
    left_out = superseded(spark, feed, entries)
    wanted = [entry.found for entry in entries if entry.sequence not in left_out]
    there = {found.file: found for found in _still_there(spark, feed, wanted)}
    is_intact = all(_is_same(found, there) for found in wanted)
    landed = landed_files(spark, feed, [found.file for found in wanted]) if is_reset or not is_intact else frozenset()
    reading = Reading(feed.name, str(feed.source.layout), max(entry.discovered_at for entry in entries))
    for number, portion in enumerate(_portions(entries)):
        files = [entry.found for entry in portion if entry.sequence not in left_out]
        missing = [found for found in files if found.file not in landed]
        if missing and (is_reset or len(missing) == len(files)):
            _check_there(missing, there, feed.name)
            yield Part(number, len(missing), read_messages(spark, _folder(feed), missing, reading))


def read_messages(spark: SparkSession, folder: str, files: Sequence[FoundFile], reading: Reading) -> DataFrame:
    """The messages of these files; small files share a task, a big one has its own."""
    if not is_local(folder):
        return _read_remote(spark, files, reading)
    groups = list(_grouped(files))
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(path_reader(reading, groups), MESSAGES)


def _arrived(spark: SparkSession, feed: Feed) -> list[FoundFile]:
    """The files of the folder; Auto Loader also names those that it was given and that are gone."""
    return list_arrived(spark, feed) if has_auto_loader(feed) else list_folder(spark, _folder(feed))


def _still_there(spark: SparkSession, feed: Feed, wanted: Sequence[FoundFile]) -> list[FoundFile]:
    """What there is of these files, among others perhaps."""
    if wanted and has_auto_loader(feed):
        return list_these(spark, _folder(feed), [found.path for found in wanted])
    return list_folder(spark, _folder(feed))


def _folder(feed: Feed) -> str:
    assert feed.source.files is not None
    return feed.source.files


def _readable(listing: Listing) -> Listing:
    """The listing, where files whose names are not UTF-8 wait: no table could hold such a name."""
    complete, waiting = [], list(listing.waiting)
    for found in listing.complete:
        name = os.fsencode(found.file).decode("utf-8", "backslashreplace")
        if name == found.file:
            complete.append(found)
        else:
            waiting.append(name)
    return Listing(tuple(complete), tuple(waiting))


def _new_files(spark: SparkSession, feed: Feed, listing: Listing, log: dict[str, LoggedFile]) -> list[FoundFile]:
    """The files to take up: those that the log does not have, and those that were replaced before they were read."""
    replaced = [f for f in listing.complete if f.file in log and _differs(f, log[f.file].found)]
    landed = landed_files(spark, feed, [found.file for found in replaced])
    if landed:
        first = next(found for found in replaced if found.file in landed)
        raise rewritten(first, feed.name, len(landed) - 1)
    return [f for f in listing.complete if f.file not in log or _differs(f, log[f.file].found)]


def _differs(found: FoundFile, logged: FoundFile) -> bool:
    return (found.size, found.modified_at) != (logged.size, logged.modified_at)


def _check_missing(spark: SparkSession, feed: Feed, listing: Listing, pending: Iterable[LoggedFile]) -> None:
    """Refuse to go on when a file that may not have landed yet is neither in the folder nor in bronze."""
    there = {found.file for found in listing.complete} | set(listing.waiting)
    missing = [entry.found for entry in pending if entry.found.file not in there and entry.found.size]
    landed = landed_files(spark, feed, [found.file for found in missing])
    lost = [found for found in missing if found.file not in landed]
    if lost:
        raise vanished(lost[0], feed.name, len(lost) - 1)


def _entries(new: Sequence[FoundFile], log: dict[str, LoggedFile], now: int) -> list[LoggedFile]:
    first = max((entry.sequence for entry in log.values()), default=0) + 1
    discovered_at = max((entry.discovered_at for entry in log.values()), default=0)
    return [LoggedFile(found, max(now, discovered_at), first + number) for number, found in enumerate(new)]


def _portions(entries: Sequence[LoggedFile]) -> Iterator[list[LoggedFile]]:
    """The entries in order, a portion for each commit; there are never more than a batch may have."""
    total = sum(entry.found.size for entry in entries)
    limit = max(PART_BYTES, 2 * total // (STATEMENTS_PER_BATCH - 1))
    portion: list[LoggedFile] = []
    held = 0
    for entry in entries:
        if portion and held + entry.found.size > limit:
            yield portion
            portion, held = [], 0
        portion.append(entry)
        held += entry.found.size
    yield portion


def _grouped(files: Sequence[FoundFile]) -> Iterator[list[FoundFile]]:
    group: list[FoundFile] = []
    held = 0
    for found in files:
        weight = found.size * (_GZIP_WEIGHT if found.file.endswith(".gz") else 1) + _FILE_WEIGHT
        if group and held + weight > TASK_BYTES:
            yield group
            group, held = [], 0
        group.append(found)
        held += weight
    yield group


def _check_there(files: Sequence[FoundFile], there: Mapping[str, FoundFile], source: str) -> None:
    for found in files:
        if found.file not in there:
            raise vanished(found, source)
        if not _is_same(found, there):
            raise moving(found, source)


def _is_same(found: FoundFile, others: Mapping[str, FoundFile]) -> bool:
    other = others.get(found.file)
    return other is not None and (other.size, other.modified_at) == (found.size, found.modified_at)


def _read_remote(spark: SparkSession, files: Sequence[FoundFile], reading: Reading) -> DataFrame:
    for found in files:
        if found.size > LARGEST_REMOTE:
            raise too_large(found, reading.source, LARGEST_REMOTE)
    paths = [without_glob(found.path) for found in files]
    contents = spark.read.format("binaryFile").load(paths)
    columns = contents.select("path", "length", F.unix_micros("modificationTime").alias("modified_at"), "content")
    return columns.mapInArrow(content_reader(reading, {found.path: found for found in files}), MESSAGES)


KIND = SourceKind(name="files", discover=discover, read_stream=read_stream, parts=parts, peek=peek)
