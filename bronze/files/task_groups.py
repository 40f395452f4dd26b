"""What each Spark task reads: some sections of files, packed for it alone.

Spark hands the whole command of a job to each of its tasks. So a command has no list of all files that each
task would load once more.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from bronze.files import sections
from bronze.files.arrow_reader import Reader, Reading, read_section, read_stream
from bronze.files.errors import file_changing
from bronze.files.listing import ListedFile
from bronze.files.sections import Section, sections_of

FILE_OVERHEAD = 64 * 1024
"""What a file costs besides its bytes, as so many more bytes."""

_GZIP_RATIO = 8  # an estimate, which only balances tasks
_FAST = 1
_BUCKET_FILES = 16


def grouped(files: Sequence[ListedFile], reading: Reading) -> list[list[Section]]:
    """What each task reads: small files share a task, a section of a large file has its own."""
    limits = (reading.folder, reading.max_file_messages)
    known = sections_of(files, *limits, follow_links=reading.follow_links)
    return list(_by_weight(section for file in files for section in known[file]))


def _by_weight(found: Iterable[Section]) -> Iterator[list[Section]]:
    group: list[Section] = []
    total_size = 0
    for section in found:
        size = section.size or section.listed.size - section.start
        weight = size * _ratio(section.listed) + FILE_OVERHEAD
        if group and total_size + weight > sections.SECTION_BYTES:
            yield group
            group, total_size = [], 0
        group.append(section)
        total_size += weight
    yield group


def unpacked_size(file: ListedFile) -> int:
    """About how many bytes a file has when it is not compressed."""
    return file.size * _ratio(file)


def _ratio(file: ListedFile) -> int:
    return _GZIP_RATIO if file.file.endswith(".gz") else 1


def pack(group: Sequence[Section], reading: Reading) -> bytes:
    """The sections of a group and the places of their files, for `unpack` in another process."""
    rows = []
    for section in group:
        file = section.listed
        place = reading.places.get(file.file, 0)
        listed = (file.file, file.path, file.size, file.modified_at)
        rows.append((*listed, section.start, section.size, section.lines, place))
    return zlib.compress(json.dumps(rows).encode(), _FAST)


def unpack(packed: bytes, reading: Reading) -> tuple[list[Section], Reading]:
    """The sections of a group, and the settings with the places of their files."""
    group, places = [], {}
    for file, path, size, modified_at, start, section_size, lines, place in json.loads(
        zlib.decompress(packed)
    ):
        group.append(Section(ListedFile(file, path, size, modified_at), start, section_size, lines))
        places[file] = place
    return group, replace(reading, places=places)


def path_reader(reading: Reading, groups: Sequence[Sequence[Section]]) -> Reader:
    """A function for mapInArrow over group numbers (`id`): gives the messages of each group's sections.

    A task unpacks its own groups alone; those of others are a few bytes a file.
    """
    packed, settings = [pack(group, reading) for group in groups], replace(reading, places={})

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column("id"):
                group, its_reading = unpack(packed[number.as_py()], settings)
                for section in group:
                    yield from read_section(section, its_reading)

    return read


def content_reader(reading: Reading, files: Sequence[ListedFile]) -> Reader:
    """A function for mapInArrow: gives the messages of `files` out of their contents.

    Needs the columns `path`, `length`, `modified_at` and `content`. Spark decides which task gets which file,
    so a task finds what is known of it among the few files whose paths have the same hash.
    """
    count = len(files) // _BUCKET_FILES + 1
    buckets: list[list[Section]] = [[] for _ in range(count)]
    for file in files:
        buckets[_hash(file.path) % count].append(Section(file))
    packed, settings = [pack(bucket, reading) for bucket in buckets], replace(reading, places={})

    def read(contents: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in contents:
            paths, lengths, times, values = (
                batch.column(name) for name in ("path", "length", "modified_at", "content")
            )
            for row in range(batch.num_rows):
                path = paths[row].as_py()
                bucket, its_reading = unpack(packed[_hash(path) % count], settings)
                [listed] = [section.listed for section in bucket if section.listed.path == path]
                if (lengths[row].as_py(), times[row].as_py()) != (listed.size, listed.modified_at):
                    raise file_changing(listed, settings.source)
                yield from read_stream(io.BytesIO(values[row].as_buffer()), listed, its_reading)

    return read


def _hash(path: str) -> int:
    return zlib.crc32(path.encode("utf-8", "surrogatepass"))


class GroupFiles:
    """The groups of a job as files of a folder that its tasks see: nothing here grows with their number."""

    def __init__(self, folder: str, reading: Reading) -> None:
        self._folder, self._reading = folder, replace(reading, places={})

    def write(self, groups: Sequence[Sequence[Section]], reading: Reading) -> None:
        """Writes a file for each group, with the places that `reading` has for it."""
        for number, group in enumerate(groups):
            self._path(number).write_bytes(pack(group, reading))

    def read(self, number: int) -> tuple[list[Section], Reading]:
        """The sections of a group, and the settings with the places of their files."""
        return unpack(self._path(number).read_bytes(), self._reading)

    def _path(self, number: int) -> Path:
        return Path(self._folder, f"{number}.group")
