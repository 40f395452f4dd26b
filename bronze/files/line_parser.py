"""Parses the bytes of a file into messages: exact, without Spark, with at most one block in memory."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import msgspec

from framework.contracts.messages import BAD_COORDINATES, TOO_LONG, foreign_name, topic_of_bad_line

# Spark and Parquet hold about ten copies of a row while they write it: a longer line does not fit a driver of
# 2 GB.
MAX_LINE_BYTES = 64 * 1024 * 1024
BLOCK_ROWS = 5_000
BLOCK_BYTES = 8 * 1024 * 1024

# A line that is not empty. Used where lines are so short on average that most of them may be empty.
_NONEMPTY_LINE = re.compile(rb"(?:[^\r\n]|\r(?!\n))[^\n]*")
_SHORT_LINE_BYTES = 8

# The range of both Spark's timestamps and Python's datetimes: the years 1 to 9999, in milliseconds since the
# epoch.
_EARLIEST_MS = -62_135_596_800_000
_LATEST_MS = 253_402_300_799_999
# The highest offset that has another one behind it: there an epoch can begin.
_LAST_OFFSET = 2**63 - 2

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line of `size` bytes, which is too long for a row; its bytes were counted and dropped."""

    size: int


Line = bytes | LongLine


@dataclass(frozen=True, slots=True)
class Block:
    """Non-empty lines of a file in order: their numbers from 1, and their bytes without line ends."""

    numbers: list[int]
    values: list[Line]


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one block, column by column, as bronze stores them.

    `timestamp` in microseconds since the epoch.
    """

    topic: list[str]
    partition: list[int]
    offset: list[int]
    timestamp: list[int | None]
    key: list[bytes | None]
    value: list[bytes | None]
    headers: list[Headers | None]
    line: list[int]


def split_lines(
    chunks: Iterable[bytes], longest: int = MAX_LINE_BYTES, *, lines_before: int = 0
) -> Iterator[tuple[int, Line]]:
    """Each non-empty line with its number; keeps one chunk and one line in memory.

    Lines are counted from 1, behind `lines_before` others. A line ends at a line feed, and one carriage
    return before it is removed. The last line may lack its line feed. Empty lines are counted but are no
    messages. Of a line that is longer than `longest` only the size is returned.
    """
    number = lines_before
    begun: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, whole, last, count = _pieces(chunk)
        size += len(first)
        _append_piece(begun, first, size <= longest)
        if not count:
            continue
        if size > longest:
            yield number + 1, LongLine(size)
        elif line := b"".join(begun).removesuffix(b"\r"):
            yield number + 1, line
        for place, line in whole:
            if len(line) > longest:
                yield number + place, LongLine(len(line))
            elif line := line.removesuffix(b"\r"):
                yield number + place, line
        number += count
        begun, size = [], len(last)
        _append_piece(begun, last, size <= longest)
    if size:
        yield number + 1, LongLine(size) if size > longest else b"".join(begun)


def _pieces(chunk: bytes) -> tuple[bytes, Iterable[tuple[int, bytes]], bytes, int]:
    """Splits a chunk at its line ends.

    Returns the end of the open line, the whole lines with their numbers, the start of the last line and the
    number of line ends. Where lines are so short on average that most may be empty, the whole lines are only
    those that are not.
    """
    count = chunk.count(b"\n")
    if count * _SHORT_LINE_BYTES < len(chunk):
        first, *whole = chunk.split(b"\n")
        return first, enumerate(whole, 2), whole.pop() if whole else b"", count
    begin, end = chunk.find(b"\n"), chunk.rfind(b"\n") + 1
    return chunk[:begin], _nonempty_lines(chunk, begin + 1, end), chunk[end:], count


def _nonempty_lines(text: bytes, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The non-empty lines between two positions; numbered from 2, as the open line ends before them."""
    number = 2
    for found in _NONEMPTY_LINE.finditer(text, position, end):
        number += text.count(b"\n", position, found.start())
        position = found.start()
        yield number, found[0]


def _append_piece(begun: list[bytes], piece: bytes, is_short: bool) -> None:
    """Appends a piece to the open line; drops the whole line where it has become too long."""
    if is_short:
        begun.append(piece)
    else:
        begun.clear()


def group_lines(
    lines: Iterable[tuple[int, Line]], rows: int = BLOCK_ROWS, size: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Groups lines into blocks of at most `rows` lines and `size` bytes.

    A longer line is a block of its own.
    """
    numbers: list[int] = []
    values: list[Line] = []
    block_size = 0
    for number, value in lines:
        length = 0 if isinstance(value, LongLine) else len(value)
        if values and (len(values) >= rows or block_size + length > size):
            yield Block(numbers, values)
            numbers, values, block_size = [], [], 0
        numbers.append(number)
        values.append(value)
        block_size += length
    if values:
        yield Block(numbers, values)


def from_lines(block: Block, file: str) -> Messages:
    """Layout `lines`: each line is the value of a message whose coordinates are the file and the line number.

    A line that is too long for a row becomes a message without bytes; its header `mainstem.too_long` has the
    size.
    """
    count = len(block.values)
    return Messages(
        topic=[file] * count,
        partition=[0] * count,
        offset=block.numbers,
        timestamp=[None] * count,
        key=[None] * count,
        value=[None if isinstance(value, LongLine) else value for value in block.values],
        headers=[_too_long(value) if isinstance(value, LongLine) else None for value in block.values],
        line=block.numbers,
    )


def from_kcat(block: Block, file: str) -> Messages:
    """Layout `kcat`: each line is a JSON object as `kcat -J` prints it, with the message's coordinates.

    Strings become their UTF-8 bytes; `null` and a missing key become null. Where kcat has decoded Avro
    (`-s`), key or payload are objects or numbers: their JSON text is kept unchanged. A header that begins
    with Mainstem's prefix is renamed (`foreign_name`). A byte order mark before the object is no part of it.
    Any other line keeps its bytes under the coordinates of the file (`topic_of_bad_line`), and its header
    `mainstem.bad_coordinates` says why. A line that is too long for a row is treated as in layout `lines`.
    """
    messages = Messages([], [], [], [], [], [], [], block.numbers)
    for number, line in zip(block.numbers, block.values, strict=True):
        if isinstance(line, LongLine):
            _append_at_line(messages, file, number, None, _too_long(line))
            continue
        try:
            _append_kcat(messages, line)
        except (ValueError, RecursionError) as error:
            _append_at_line(messages, file, number, line, [(BAD_COORDINATES, _reason(error).encode())])
    return messages


Layout = Callable[[Block, str], Messages]
LAYOUTS: Mapping[str, Layout] = MappingProxyType({"lines": from_lines, "kcat": from_kcat})


class _Kcat(msgspec.Struct, frozen=True):
    topic: Annotated[str, msgspec.Meta(min_length=1)]
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    offset: Annotated[int, msgspec.Meta(ge=0)]
    tstype: str | None = None
    ts: int | None = None
    key: msgspec.Raw = msgspec.Raw(b"null")
    headers: list[str | None] | None = None
    payload: msgspec.Raw = msgspec.Raw(b"null")


_KCAT = msgspec.json.Decoder(_Kcat)
_TEXT = msgspec.json.Decoder(str)


def _append_kcat(messages: Messages, line: bytes) -> None:
    line = line.removeprefix(BOM_UTF8)
    line.decode("utf-8")
    message = _KCAT.decode(line)
    if message.offset > _LAST_OFFSET:
        raise ValueError(f"Expected `int` <= {_LAST_OFFSET} - at `$.offset`")
    timestamp, key, value, headers = (
        _timestamp(message),
        _bytes(message.key),
        _bytes(message.payload),
        _headers(message.headers),
    )
    messages.topic.append(message.topic)
    messages.partition.append(message.partition)
    messages.offset.append(message.offset)
    messages.timestamp.append(timestamp)
    messages.key.append(key)
    messages.value.append(value)
    messages.headers.append(headers)


def _too_long(line: LongLine) -> Headers:
    return [(TOO_LONG, str(line.size).encode())]


def _append_at_line(messages: Messages, file: str, number: int, line: bytes | None, headers: Headers) -> None:
    messages.topic.append(topic_of_bad_line(file))
    messages.partition.append(0)
    messages.offset.append(number)
    messages.timestamp.append(None)
    messages.key.append(None)
    messages.value.append(line)
    messages.headers.append(headers)


def _timestamp(message: _Kcat) -> int | None:
    if message.ts is None or message.ts < 0 or message.tstype == "unknown":
        return None
    if message.ts > _LATEST_MS:
        raise ValueError("Expected milliseconds up to the year 9999 - at `$.ts`")
    return message.ts * 1000


def _bytes(raw: msgspec.Raw) -> bytes | None:
    text = bytes(raw)
    if text == b"null":
        return None
    return _TEXT.decode(text).encode() if text.startswith(b'"') else text


def _headers(flat: list[str | None] | None) -> Headers | None:
    if flat is None:
        return None
    names, values = flat[::2], flat[1::2]
    if len(names) != len(values) or None in names:
        raise ValueError("Expected names and values in turn - at `$.headers`")
    return [
        (foreign_name(name or ""), None if value is None else value.encode())
        for name, value in zip(names, values, strict=True)
    ]


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
