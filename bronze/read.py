"""From the bytes of a file to its messages: pure, exact, and never more than one block in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Annotated

import msgspec

from framework.contracts.raw import TOO_LONG

# Spark and Parquet hold about ten copies of a row while they write it: more does not fit a driver of 2 GB.
LONGEST_LINE = 64 * 1024 * 1024
BLOCK_ROWS = 5_000
BLOCK_BYTES = 8 * 1024 * 1024
BAD_COORDINATES = "mainstem.bad_coordinates"

# What Spark's timestamps and Python's datetimes can both hold: the years 1 to 9999, in milliseconds of the epoch.
_EARLIEST_MS = -62_135_596_800_000
_LATEST_MS = 253_402_300_799_999

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line of so many bytes, more than a row may have: they were counted and let go."""

    size: int


Line = bytes | LongLine


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of one file in their order, without their line ends: numbers from 1, and the exact bytes."""

    numbers: list[int]
    values: list[Line]


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one block, column by column, as bronze keeps them. `timestamp` is in microseconds of the epoch."""

    topic: list[str]
    partition: list[int]
    offset: list[int]
    timestamp: list[int | None]
    key: list[bytes | None]
    value: list[bytes | None]
    headers: list[Headers | None]
    line: list[int]


def split_lines(chunks: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[tuple[int, Line]]:
    """Each line that holds a byte, with its number from 1; holds one chunk and one line in memory.

    A line ends at a line feed; one carriage return before it is taken off. The last line may lack its line feed.
    An empty line is no message but has a number. A line that is longer than `longest` is counted alone.
    """
    number = 0
    begun: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        size += len(first)
        _keep(begun, first, size <= longest)
        if not rest:
            continue
        *whole, last = rest
        for line, length in chain([(b"".join(begun), size)], ((line, len(line)) for line in whole)):
            number += 1
            if length > longest:
                yield number, LongLine(length)
            elif line := line.removesuffix(b"\r"):
                yield number, line
        begun, size = [], len(last)
        _keep(begun, last, size <= longest)
    if size:
        yield number + 1, LongLine(size) if size > longest else b"".join(begun)


def _keep(begun: list[bytes], piece: bytes, is_short: bool) -> None:
    """Put a piece to the line that has begun, or let go of all of it."""
    if is_short:
        begun.append(piece)
    else:
        begun.clear()


def blocks(lines: Iterable[tuple[int, Line]], rows: int = BLOCK_ROWS, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines in blocks of at most `rows` lines and `size` bytes; a longer line is a block of its own."""
    numbers: list[int] = []
    values: list[Line] = []
    held = 0
    for number, value in lines:
        length = 0 if isinstance(value, LongLine) else len(value)
        if values and (len(values) >= rows or held + length > size):
            yield Block(numbers, values)
            numbers, values, held = [], [], 0
        numbers.append(number)
        values.append(value)
        held += length
    if values:
        yield Block(numbers, values)


def from_lines(block: Block, file: str) -> Messages:
    """Layout `lines`: each line is a message's value, its coordinates are the file and the line number.

    A line that no row can hold is a message without bytes; the header `mainstem.too_long` has their number.
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
    """Layout `kcat`: each line is an object as `kcat -J` prints it, and the coordinates are the object's.

    Strings become their UTF-8 bytes; `null` and a key that is not there become null. Where kcat has decoded Avro (`-s`),
    key or payload are objects or numbers: their JSON text is kept as it stands. A line that is no such object keeps its
    bytes with the file's coordinates, and the header `mainstem.bad_coordinates` says why. One that no row can hold is as
    in layout `lines`.
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
    line.decode("utf-8")
    message = _KCAT.decode(line)
    if message.offset > 2**63 - 1:
        raise ValueError("Expected `int` <= 9223372036854775807 - at `$.offset`")
    timestamp, key, value, headers = _timestamp(message), _bytes(message.key), _bytes(message.payload), _headers(message.headers)
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
    messages.topic.append(file)
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
    return [(name or "", None if value is None else value.encode()) for name, value in zip(names, values, strict=True)]


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
