"""Messages in files: every complete file below a landing folder is read once, line by line.

A run first records the files that it finds in the source's log (`ops/files/<source>`), in one commit; a
stream over that log then lands them. The log decides what is new, so a file with an old modification time is
not missed. A file may be deleted once it was read. A file whose size or time changes after it was read stops
the source (FILE_CHANGED); so does a file that is deleted before it was read (FILE_VANISHED). A file that has
not given a message yet, because the run was stopped or the file was empty or corrupt, may be replaced: the
newest entry of a file in the log counts.

In folders that Python's `open` reaches, files of any size are read in chunks. In others (object stores) Spark
reads files whole, so they may have at most 256 MiB; on Databricks, Auto Loader lists the files of those
folders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.checkpoint import checkpoint_lost, has_checkpoint, older_copy, save_state
from bronze.files.arrow_reader import Reading
from bronze.files.auto_loader import has_auto_loader, list_with_auto_loader
from bronze.files.errors import (
    file_changing,
    file_relined,
    file_rewritten,
    file_too_large,
    file_vanished,
)
from bronze.files.file_log import (
    LoggedFile,
    append_log,
    files_with_messages,
    log_table,
    read_entries,
    read_log,
    superseded_sequences,
)
from bronze.files.listing import (
    Clock,
    ListedFile,
    Listing,
    digest,
    is_same,
    list_complete,
    list_existing,
    list_remote,
    utf8_name,
)
from bronze.files.local_files import SkippedEntry, list_local
from bronze.files.lost_logs import last_lines, with_other_lines
from bronze.files.message_files import write_messages
from bronze.files.sections import Section
from bronze.files.task_groups import FILE_OVERHEAD, content_reader, grouped, path_reader, unpacked_size
from bronze.restarts import is_later, note_sequence
from bronze.source import COMMITS_PER_BATCH, Discovery, Feed, Part, SourceKind, Waiting
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.expired_logs import log_expired
from framework.lakehouse.older_copies import is_read_beyond
from framework.lakehouse.small_files import is_local, without_glob
from framework.pipeline.fault_injection import crash_point
from framework.spark.no_session import require_session
from framework.spark.required_settings import EVERY_FILE

PART_BYTES = 4 * 1024**3
LARGEST_REMOTE = 256 * 1024**2

_MESSAGE_BYTES = 500  # an estimate, which only chooses Spark's settings
_FEW_BYTES = 8 * 1024**2
"""Files with so few bytes in all are read in this process."""


def discover(spark: SparkSession, feed: Feed, state: str, clock: Clock | None = None) -> Discovery:
    """Records the new complete files in the log; raises MainstemError where a file stops the source."""
    clock = clock or Clock()
    folder = _Folder(spark, feed)
    scan = _scan_folder(spark, feed, state, clock, folder.list_with_deleted)
    if scan is None:
        return Discovery(is_idle=True, state=state, skipped=folder.skipped)
    if scan.new:
        # until they land, a folder without them is not the one that was read
        save_state(spark, feed, json.dumps({"digest": None, "landed": scan.landed}))
        crash_point("bronze.before_log")
        append_log(spark, feed, _entries(scan.new, scan.log, clock.now()))
        crash_point("bronze.after_log")
    landed = max((entry.sequence for entry in scan.log.values()), default=0) + len(scan.new)
    next_state = {
        "digest": None if scan.listing.waiting else digest(scan.listing.complete),
        "landed": landed,
    }
    logged = [entry.listed for entry in scan.log.values() if entry.sequence > scan.landed]
    return Discovery(
        landed == scan.landed,
        scan.listing.waiting,
        json.dumps(next_state),
        folder.skipped,
        files=len(logged) + len(scan.new),
        size=sum(file.size for file in (*logged, *scan.new)),
    )


def peek(spark: SparkSession, feed: Feed, state: str, clock: Clock | None = None) -> Waiting:
    """The complete files that have not landed and their messages; raises MainstemError as `discover` does."""
    clock = clock or Clock()
    folder = _Folder(spark, feed)
    scan = _scan_folder(spark, feed, state, clock, folder.list_now)
    if scan is None:
        return Waiting(skipped=folder.skipped)
    logged = [entry.listed for entry in scan.log.values() if entry.sequence > scan.landed]
    there = {file.file: file for file in scan.listing.complete}
    logged = [there.get(file.file, file) for file in logged]
    landed = files_with_messages(spark, feed, [file.file for file in logged])
    files = [file for file in logged if file.file not in landed and file not in scan.new] + scan.new
    reading = _reading(feed, clock.now())
    messages = read_messages(spark, _place(feed), files, reading) if files else None
    return Waiting(messages, tuple(file.file for file in files), scan.listing.waiting, folder.skipped)


@dataclass(frozen=True, slots=True)
class _Scan:
    """A listing compared with the log; the entries of the log up to the sequence `landed` have landed."""

    listing: Listing
    log: dict[str, LoggedFile]
    new: list[ListedFile]
    landed: int


def _scan_folder(
    spark: SparkSession, feed: Feed, state: str, clock: Clock, list_files: Callable[[], Sequence[ListedFile]]
) -> _Scan | None:
    """Compares the folder with the log; None where nothing has changed since the last scan, or ever came."""
    last = json.loads(state or "{}")
    has_log = feed.lake.exists(spark, log_table(feed.name))
    has_begun = has_log or has_checkpoint(spark, feed)
    if has_log and last.get("digest") == digest(list_files()):
        return None
    if not has_begun and is_local(_place(feed)) and not list_files():
        return None
    require_session(spark)
    if not has_log and has_begun:
        raise checkpoint_lost(
            feed, f"the log {feed.lake.location(log_table(feed.name))} of the files that were read is gone"
        )
    log = read_log(spark, feed) if has_log else {}
    landed, newest = int(last.get("landed", 0)), max((entry.sequence for entry in log.values()), default=0)
    if newest < landed or is_read_beyond(spark, feed.lake, log_table(feed.name), feed.checkpoint):
        raise older_copy(feed, log_table(feed.name))
    known = {file: entry.listed for file, entry in log.items()}
    listing = list_complete(list_files, known, clock)
    new = _new_files(spark, feed, listing, log)
    _check_missing(spark, feed, listing, [entry for entry in log.values() if entry.sequence > landed])
    return _Scan(listing, log, new, landed)


def read_stream(spark: SparkSession, feed: Feed, is_reset: bool) -> DataFrame:
    """The log as a stream.

    It begins with the log's first commit where there is no other one: an initial snapshot would cost four
    more jobs. The files of earlier commits may be gone, because `maintain` compacts them.
    """
    if is_reset:
        note_sequence(spark, feed)
    name = log_table(feed.name)
    is_young = feed.lake.local_root is not None and feed.lake.version(spark, name) == 0
    return feed.lake.read_stream(spark, name, {"startingVersion": "0"} if is_young else None)


def parts(batch: DataFrame, feed: Feed, is_reset: bool) -> Iterator[Part]:
    """The messages of a batch's files in commits of bounded size, the same ones each time the batch runs.

    If a file of the batch was changed or deleted since, the files that have landed are not read again.
    """
    spark = batch.sparkSession
    entries = read_entries(batch)
    if not entries:
        return
    is_reset = is_reset and not is_later(spark, feed, entries[0].sequence)
    left_out = superseded_sequences(spark, feed, entries)
    wanted = [entry.listed for entry in entries if entry.sequence not in left_out]
    there = {file.file: file for file in _list_wanted(spark, feed, wanted)}
    wanted = [file for file in wanted if file.size or file.file in there]  # of others, nothing is missing
    is_intact = all(is_same(file, there) for file in wanted)
    landed = (
        files_with_messages(spark, feed, [file.file for file in wanted])
        if is_reset or not is_intact
        else frozenset()
    )
    places = {entry.listed.file: place for place, entry in enumerate(entries)}
    reading = replace(_reading(feed, max(entry.discovered_at for entry in entries)), places=places)
    if is_reset:
        left = [entry for entry in entries if entry.listed.file in landed and entry.sequence not in left_out]
        _check_lines(spark, feed, [entry for entry in left if is_same(entry.listed, there)])
    read = frozenset(file.file for file in wanted)
    for number, portion in enumerate(_portions(entries)):
        files = [e.listed for e in portion if e.sequence not in left_out and e.listed.file in read]
        missing = [file for file in files if file.file not in landed]
        if missing and (is_reset or len(missing) == len(files)):
            _check_there(missing, there, feed.name)
            # they are where the folder is now; the log has where it was when they were found
            yield _part(spark, feed, number, [there[file.file] for file in missing], reading)


def _part(
    spark: SparkSession, feed: Feed, number: int, files: Sequence[ListedFile], reading: Reading
) -> Part:
    size, unpacked = sum(file.size for file in files), sum(map(unpacked_size, files))
    if not is_local(_place(feed)):
        rows, write = partial(_read_remote, spark, files, reading), None
    else:
        groups = grouped(files, reading)
        are_few = unpacked + len(files) * FILE_OVERHEAD <= _FEW_BYTES
        rows = partial(_read_groups, spark, groups, reading)
        write = partial(write_messages, spark, groups=groups, reading=reading, are_few=are_few)
    return Part(spark, number, len(files), rows, size, unpacked // _MESSAGE_BYTES, write)


def read_messages(
    spark: SparkSession, folder: str, files: Sequence[ListedFile], reading: Reading
) -> DataFrame:
    """The messages of these files as rows of MESSAGES."""
    if not is_local(folder):
        return _read_remote(spark, files, reading)
    return _read_groups(spark, grouped(files, reading), reading)


def _read_groups(spark: SparkSession, groups: Sequence[Sequence[Section]], reading: Reading) -> DataFrame:
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(path_reader(reading, groups), MESSAGES)


class _Folder:
    """The landing folder of a feed, and the entries that its last listing skipped."""

    def __init__(self, spark: SparkSession, feed: Feed) -> None:
        self.spark = spark
        self.feed = feed
        self.skipped: tuple[str, ...] = ()

    def list_with_deleted(self) -> list[ListedFile]:
        """The files of the folder; with Auto Loader also files that were deleted since."""
        return list_with_auto_loader(self.spark, self.feed) if has_auto_loader(self.feed) else self.list_now()

    def list_now(self) -> list[ListedFile]:
        """The files that are in the folder now."""
        place = _place(self.feed)
        if not is_local(place):
            return list_remote(self.spark, place)
        entries = list(list_local(place, follow_links=self.feed.source.follow_links))
        self.skipped = tuple(utf8_name(str(entry)) for entry in entries if isinstance(entry, SkippedEntry))
        return [entry for entry in entries if isinstance(entry, ListedFile)]


def _list_wanted(spark: SparkSession, feed: Feed, wanted: Sequence[ListedFile]) -> list[ListedFile]:
    """Lists at least those of the wanted files that still exist."""
    if wanted and has_auto_loader(feed):
        return list_existing(spark, _place(feed), [file.path for file in wanted])
    return _Folder(spark, feed).list_now()


def _place(feed: Feed) -> str:
    assert feed.source.files is not None
    return feed.source.files


def _reading(feed: Feed, ingested_at: int) -> Reading:
    source = feed.source
    limits = (source.max_gzip_ratio, source.max_file_messages)
    return Reading(feed.name, str(source.layout), ingested_at, _place(feed), source.follow_links, *limits)


def _new_files(
    spark: SparkSession, feed: Feed, listing: Listing, log: dict[str, LoggedFile]
) -> list[ListedFile]:
    """The files that are not in the log, and those that were replaced before they were read."""
    replaced = [f for f in listing.complete if f.file in log and _differs(f, log[f.file].listed)]
    landed = files_with_messages(spark, feed, [file.file for file in replaced])
    changed = [file for file in replaced if file.file in landed]
    if changed and has_auto_loader(feed):  # it also tells of files that are gone, and of earlier changes
        there = [file for file in _list_wanted(spark, feed, changed) if file.file in landed]
        changed = [file for file in there if _differs(file, log[file.file].listed)]
    if changed:
        has_size = all(file.size == log[file.file].listed.size for file in changed)
        raise file_rewritten(changed[0], feed.name, len(changed) - 1, has_size=has_size)
    unread = {file for file in replaced if file.file not in landed}
    return [file for file in listing.complete if file.file not in log or file in unread]


def _differs(file: ListedFile, logged: ListedFile) -> bool:
    return (file.size, file.modified_at) != (logged.size, logged.modified_at)


def _check_missing(spark: SparkSession, feed: Feed, listing: Listing, pending: Iterable[LoggedFile]) -> None:
    """Raises FILE_VANISHED where a file that may not have landed is neither in the folder nor in bronze."""
    there = {file.file for file in listing.complete} | set(listing.waiting)
    missing = [entry.listed for entry in pending if entry.listed.file not in there and entry.listed.size]
    landed = files_with_messages(spark, feed, [file.file for file in missing])
    vanished = [file for file in missing if file.file not in landed]
    if vanished:
        raise file_vanished(vanished[0], feed.name, len(vanished) - 1)


def _entries(new: Sequence[ListedFile], log: dict[str, LoggedFile], now: int) -> list[LoggedFile]:
    first = max((entry.sequence for entry in log.values()), default=0) + 1
    # later than the time of any earlier file
    discovered_at = max((entry.discovered_at + len(log) for entry in log.values()), default=0)
    return [LoggedFile(file, max(now, discovered_at), first + number) for number, file in enumerate(new)]


def _portions(entries: Sequence[LoggedFile]) -> Iterator[list[LoggedFile]]:
    """The entries in order, one portion for each commit; never more than a batch may have commits."""
    total = sum(entry.listed.size for entry in entries)
    limit = max(PART_BYTES, 2 * total // (COMMITS_PER_BATCH - 1))
    portion: list[LoggedFile] = []
    total_size = 0
    for entry in entries:
        if portion and total_size + entry.listed.size > limit:
            yield portion
            portion, total_size = [], 0
        portion.append(entry)
        total_size += entry.listed.size
    yield portion


def _check_there(files: Sequence[ListedFile], there: Mapping[str, ListedFile], source: str) -> None:
    for file in files:
        if file.file not in there:
            raise file_vanished(file, source)
        if not is_same(file, there):
            raise file_changing(file, source)


def _check_lines(spark: SparkSession, feed: Feed, landed: Sequence[LoggedFile]) -> None:
    """Raises FILE_CHANGED where a file has other lines than have landed, and the log that said so is gone."""
    last = last_lines(spark, feed, landed)
    if not last:
        return
    files = {entry.listed.file: entry.listed for entry in landed if entry.listed.file in last}
    messages = read_messages(spark, _place(feed), list(files.values()), _reading(feed, 0))
    changed = with_other_lines(messages, last)
    if changed:
        raise file_relined(files[changed[0]], feed.name, len(changed) - 1)


def _read_remote(spark: SparkSession, files: Sequence[ListedFile], reading: Reading) -> DataFrame:
    for file in files:
        if file.size > LARGEST_REMOTE:
            raise file_too_large(file, reading.source, LARGEST_REMOTE)
    paths = [without_glob(file.path) for file in files]
    contents = spark.read.format("binaryFile").options(**EVERY_FILE).load(paths)
    columns = contents.select(
        "path", "length", F.unix_micros("modificationTime").alias("modified_at"), "content"
    )
    return columns.mapInArrow(content_reader(reading, files), MESSAGES)


def explain(error: Exception, feed: Feed) -> MainstemError | None:
    """The error where the log of files has lost commits before they were read; None for another one."""
    return log_expired(error, log_table(feed.name), feed.checkpoint, "messages that have landed")


KIND = SourceKind(
    name="files", discover=discover, read_stream=read_stream, parts=parts, explain=explain, peek=peek
)
