"""Opens files in Spark tasks and returns their messages as Arrow batches, parsed by `line_parser`."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import BinaryIO

import pyarrow as pa

from bronze.files.errors import (
    file_changing,
    file_corrupt,
    file_crowded,
    file_inflated,
    file_sparse,
    file_unreadable,
    file_vanished,
)
from bronze.files.gzip_members import InflatedError, unpacked
from bronze.files.line_parser import LAYOUTS, Messages, group_lines, split_lines
from bronze.files.listing import ListedFile
from bronze.files.local_files import open_file
from bronze.files.sections import Section
from bronze.files.zeros import MOST_ZEROS, ZerosError, check_holes, without_long_zeros
from framework.text.times import EPOCH

CHUNK = 4 * 1024 * 1024

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_COLUMNS: dict[str, pa.DataType] = {
    "source": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _TIMESTAMP,
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    "file": pa.string(),
    "line": pa.int64(),
    "ingested_at": _TIMESTAMP,
}
ARROW_MESSAGES = pa.schema(_COLUMNS)

Reader = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings with which all files of a batch are read.

    Attributes:
        source: The name of the source.
        layout: The name of a layout of `LAYOUTS`.
        ingested_at: Microseconds since the epoch.
        folder: The landing folder.
        follow_links: Whether links may lead out of the folder.
        max_gzip_ratio: How many times its size a gzip file may hold.
        max_file_messages: How many messages a file may hold.
        places: The position of each file in the order of landing. It is added to the file's `ingested_at`, in
            microseconds, so that the time shows which of two messages with the same coordinates landed first.
    """

    source: str
    layout: str
    ingested_at: int
    folder: str
    follow_links: bool = False
    max_gzip_ratio: int = 200
    max_file_messages: int = 50_000_000
    places: Mapping[str, int] = field(default_factory=dict)


def read_section(section: Section, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The messages of a section of a file.

    Raises MainstemError where the file is gone, unreadable or not as it was listed.
    """
    listed = section.listed
    try:
        with open_file(listed.path, reading.folder, follow_links=reading.follow_links) as file:
            _check_same(file, listed, reading)
            check_holes(file.fileno())
            file.seek(section.start)
            yield from read_stream(file, listed, reading, section)
            _check_same(file, listed, reading)
    except ZerosError:
        raise file_sparse(listed, reading.source, MOST_ZEROS) from None
    except FileNotFoundError:
        raise file_vanished(listed, reading.source) from None
    except OSError as error:
        raise file_unreadable(listed, reading.source, error.strerror or type(error).__name__) from None


def read_stream(
    file: BinaryIO | io.FileIO, listed: ListedFile, reading: Reading, section: Section | None = None
) -> Iterator[pa.RecordBatch]:
    """The messages of an open file in batches of bounded size; decompresses it if its name ends in `.gz`.

    With a `section`, those of the section, which begins at the file's position.

    Raises:
        MainstemError: FILE_CROWDED or FILE_INFLATED for a file beyond the limits, FILE_SPARSE for a long
            run of zero bytes, FILE_CORRUPT for broken gzip.
    """
    section = section or Section(listed)
    chunks = (
        unpacked(file, reading.max_gzip_ratio, CHUNK)
        if listed.file.endswith(".gz")
        else _chunks(file, section.size)
    )
    parse, count = LAYOUTS[reading.layout], 0
    try:
        for block in group_lines(split_lines(without_long_zeros(chunks), lines_before=section.lines)):
            count += len(block.numbers)
            if count > reading.max_file_messages:
                raise file_crowded(listed, reading.source, reading.max_file_messages)
            yield _batch(parse(block, listed.file), listed.file, reading)
    except ZerosError:
        raise file_sparse(listed, reading.source, MOST_ZEROS) from None
    except InflatedError:
        raise file_inflated(listed, reading.source, reading.max_gzip_ratio) from None
    except (EOFError, zlib.error) as error:
        is_gzip = _begins_as_gzip(file)
        raise file_corrupt(listed, reading.source, str(error), is_gzip=is_gzip) from None


def _begins_as_gzip(file: BinaryIO | io.FileIO) -> bool:
    try:
        file.seek(0)
        return file.read(2) == b"\x1f\x8b"
    except OSError:  # a stream that cannot go back
        return True


def _chunks(file: BinaryIO | io.FileIO, size: int | None) -> Iterator[bytes]:
    """The next `size` bytes of a file in chunks; all that follow where it is None."""
    while chunk := file.read(CHUNK if size is None else min(CHUNK, size)):
        yield chunk
        if size is not None:
            size -= len(chunk)


def _check_same(file: io.FileIO, listed: ListedFile, reading: Reading) -> None:
    status = os.fstat(file.fileno())
    if (status.st_size, status.st_mtime_ns // 1000) != (listed.size, listed.modified_at):
        raise file_changing(listed, reading.source)


def _batch(messages: Messages, file: str, reading: Reading) -> pa.RecordBatch:
    count = len(messages.value)
    headers = [
        None if pairs is None else [{"key": key, "value": value} for key, value in pairs]
        for pairs in messages.headers
    ]
    ingested_at = EPOCH + timedelta(microseconds=reading.ingested_at + reading.places.get(file, 0))
    columns: list[Sequence[object]] = [
        [reading.source] * count,
        messages.topic,
        messages.partition,
        messages.offset,
        messages.timestamp,
        messages.key,
        messages.value,
        headers,
        [file] * count,
        messages.line,
        [ingested_at] * count,
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, ARROW_MESSAGES, strict=True)],
        schema=ARROW_MESSAGES,
    )
