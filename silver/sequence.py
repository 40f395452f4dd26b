"""The sequence: one text whose byte order is the order of the source.

Each number is written as two digits of length and its digits (`7` gives `017`, `120` gives `03120`) and the numbers
are joined by `.`, so comparing bytes compares numbers. First stands the epoch, then a mark (`0` for a snapshot row
without a position, which sorts before every streamed change of its epoch, else `1`), then the format's position. Where
a format's position does not identify one change, the topic (for lines of files: the file's name), the partition, the
offset and the row's ordinal follow. Of a name the numbers count as numbers: `part-9` comes before `part-10`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile

_SNAPSHOT, _STREAM = "010", "011"
MAX_DIGITS = 99
_LENGTHS = tuple(f"{length:02d}" for length in range(MAX_DIGITS + 1))
_RUNS = re.compile(r"[0-9]+|[^0-9]+", re.ASCII)


def number_part(value: int) -> str:
    """One number, order-preserving. Raises ValueError below zero or beyond 99 digits."""
    text = str(value)
    if value < 0 or len(text) > MAX_DIGITS:
        raise ValueError("a position is a number from 0 to 99 digits")
    return _LENGTHS[len(text)] + text


def joined(numbers: Iterable[int]) -> str:
    """Several numbers, most significant first."""
    return ".".join(map(number_part, numbers))


def numbers_in(sequence: str) -> tuple[int, ...]:
    """The numbers that a sequence begins with: all but a topic's or file's name and what follows it."""
    parts = takewhile(_is_number_part, sequence.split("."))
    return tuple(int(part[2:]) for part in parts)


def _is_number_part(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) == 2 + int(part[:2])


@lru_cache(maxsize=1024)
def name_part(name: str) -> str:
    """A topic's or file's name, one text for each: names compare as people number them, and no point is left in it."""
    return "".join(_number_in_name(run) if run[0] in "0123456789" else _plain(run) for run in _RUNS.findall(name))


def _plain(text: str) -> str:
    return text.replace("%", "%25").replace(".", "%2E")


def _number_in_name(digits: str) -> str:
    """The number, then how many zeros stood in front of it; of more than 99 digits the first 99 are compared as one."""
    number = digits.lstrip("0")
    head, rest = number[:MAX_DIGITS], number[MAX_DIGITS:]
    return f"{len(head):02d}{head}{number_part(len(digits) - len(number))}{_number_in_name(rest) if rest else ''}"


Tie = tuple[str, int, int, int]
"""Where a message stands: topic, partition, offset, and the ordinal of the row inside it."""


def sequence_of(epoch: int, position: tuple[int, ...] | None, tie: Tie | None) -> str:
    """The sequence of a change. `tie` is None where the position identifies one change."""
    mark, place = (_SNAPSHOT, ()) if position is None else (_STREAM, position)
    parts = [number_part(epoch), mark, *map(number_part, place)]
    if tie is not None:
        parts += [name_part(tie[0]), *map(number_part, tie[1:])]
    elif position is None:
        parts.append("010")
    return ".".join(parts)
