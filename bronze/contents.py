"""The adapter around the pure reader: opens files, in tasks, and gives their messages to Spark as Arrow batches."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import BinaryIO

import pyarrow as pa

from bronze.file_log import EPOCH
from bronze.listing import FoundFile
from bronze.read import LAYOUTS, Messages, blocks, split_lines
from bronze.stops import corrupt, moving, unreadable, vanished

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

_Reader = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What every file of a batch is read with; `ingested_at` is in microseconds of the epoch."""

    source: str
    layout: str
    ingested_at: int


def path_reader(reading: Reading, groups: Sequence[Sequence[FoundFile]]) -> _Reader:
    """For mapInArrow over group numbers `id`: the messages of each group's files, opened by their paths."""

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for group in batch.column("id"):
                for found in groups[group.as_py()]:
                    yield from read_file(found, reading)

    return read


def content_reader(reading: Reading, files: Mapping[str, FoundFile]) -> _Reader:
    """For mapInArrow over `path`, `length`, `modified_at`, `content`: the messages of the files that are in `files`."""

    def read(contents: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in contents:
            paths, lengths, times, values = (batch.column(name) for name in ("path", "length", "modified_at", "content"))
            for row in range(batch.num_rows):
                found = files[paths[row].as_py()]
                if (lengths[row].as_py(), times[row].as_py()) != (found.size, found.modified_at):
                    raise moving(found, reading.source)
                yield from read_stream(io.BytesIO(values[row].as_buffer()), found, reading)

    return read


def read_file(found: FoundFile, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The messages of one file; raises MainstemError when it is not, or does not stay, as it was taken up."""
    try:
        with open(found.path, "rb", buffering=0) as file:
            _check_same(file, found, reading)
            yield from read_stream(file, found, reading)
            _check_same(file, found, reading)
    except FileNotFoundError:
        raise vanished(found, reading.source) from None
    except OSError as error:
        raise unreadable(found, reading.source, error.strerror or type(error).__name__) from None


def read_stream(file: BinaryIO | io.FileIO, found: FoundFile, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The messages of an open file, decompressed when its name ends in `.gz`, in batches of bounded size."""
    unpacked = gzip.GzipFile(fileobj=file, mode="rb") if found.file.endswith(".gz") else file
    parse = LAYOUTS[reading.layout]
    try:
        for block in blocks(split_lines(iter(lambda: unpacked.read(CHUNK), b""))):
            yield _batch(parse(block, found.file), found.file, reading)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise corrupt(found, reading.source, str(error)) from None


def _check_same(file: io.FileIO, found: FoundFile, reading: Reading) -> None:
    status = os.fstat(file.fileno())
    if (status.st_size, status.st_mtime_ns // 1000) != (found.size, found.modified_at):
        raise moving(found, reading.source)


def _batch(messages: Messages, file: str, reading: Reading) -> pa.RecordBatch:
    count = len(messages.value)
    headers = [None if pairs is None else [{"key": key, "value": value} for key, value in pairs] for pairs in messages.headers]
    ingested_at = EPOCH + timedelta(microseconds=reading.ingested_at)
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
        [pa.array(column, type=field.type) for column, field in zip(columns, ARROW_MESSAGES, strict=True)], schema=ARROW_MESSAGES
    )
