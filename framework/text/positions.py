"""Positions as people say them: `binlog 000003:1547`, `offset 8 of orders-1.jsonl`.

The tables hold a position as a `sequence`, a text that sorts like the source (`silver/values/sequence.py`).
"""

from __future__ import annotations

import re

_IN_TEXT = re.compile(
    r"(?<=verified through )[0-9]{3,}\.01[01](?:\.\S.*?)?(?= at [0-9]{4}-[0-9]{2}-[0-9]{2})"
)
_BINLOG_FORMATS = frozenset({"debezium", "maxwell", "arcion"})
_MOST_FILES, _FIRST_POSITION, _LAST_POSITION = 10**6, 4, 2**32
"""A binlog file has six digits and begins with four bytes; larger numbers are an SCN or an LSN."""
_SNAPSHOT = "0"
_BEHIND = "~"
"""The end of the sequence of a dump's rows."""
_ESCAPES = {"%25": "%", "%2E": "."}


def place_text(topic: str, partition: int, offset: int, *, is_file: bool = False) -> str:
    """A message's place: `shop.orders, partition 2, offset 8`. A file has no partitions to speak of."""
    return f"{topic}, offset {offset}" if is_file else f"{topic}, partition {partition}, offset {offset}"


def position_text(sequence: str, format_name: str = "") -> str:
    """A sequence as people say its position; unchanged for a text that is no sequence.

    Args:
        sequence: The sequence, as in `silver/changes` and `ops/tables`.
        format_name: The format of its source, which says what the numbers are.
    """
    parts = sequence.removesuffix(_BEHIND).split(".")
    tie = parts[-4:] if len(parts) > 5 and _number(parts[-4]) is None else []
    read = [_number(part) for part in (parts[: -len(tie)] if tie else parts)]
    last = [_number(part) for part in tie[1:]]
    numbers = [number for number in read if number is not None]
    places = [number for number in last if number is not None]
    if len(numbers) != len(read) or len(places) != len(last) or len(numbers) < 2 or parts[1][2:] not in "01":
        return sequence
    epoch = "" if numbers[0] == "1" else f"epoch {numbers[0]}, "
    return epoch + _within_epoch(numbers[1], numbers[2:], tie[:1], places, format_name)


def with_positions_as_text(text: str, format_name: str = "") -> str:
    """A check's outcome, `verified through …`, with its sequence as people say it."""
    return _IN_TEXT.sub(lambda found: position_text(found[0], format_name), text)


def _within_epoch(mark: str, numbers: list[str], topic: list[str], places: list[str], name: str) -> str:
    binlog = _binlog(numbers) if name in _BINLOG_FORMATS else None
    if binlog is not None:
        return binlog
    if topic:
        partition = "" if places[0] == "0" else f"partition {places[0]} of "
        return f"offset {places[1]} of {partition}{_name(topic[0])}"
    if mark == _SNAPSHOT:
        return "rows of a snapshot"
    while len(numbers) > 1 and numbers[-1] == "0":
        numbers = numbers[:-1]
    return f"position {':'.join(numbers)}"


def _binlog(numbers: list[str]) -> str | None:
    if len(numbers) < 2:
        return None
    file, position = int(numbers[0]), int(numbers[1])
    is_binlog = 0 < file < _MOST_FILES and _FIRST_POSITION <= position < _LAST_POSITION
    return f"binlog {file:06d}:{position}" if is_binlog else None


def _number(part: str) -> str | None:
    """The digits of a number as a sequence writes it, None for another text."""
    is_number = part.isascii() and part.isdigit() and len(part) > 2 and len(part) == 2 + int(part[:2])
    return part[2:] if is_number else None


def _name(text: str) -> str:
    """A topic or file as it is called; its numbers are written with their lengths and leading zeros.

    A text that is not written so is returned as it is.
    """
    found, place = "", 0
    try:
        while place < len(text):
            if text[place] == "%":
                found += _ESCAPES[text[place : place + 3]]
                place += 3
            elif "0" <= text[place] <= "9":
                digits, place = _counted(text, place)
                zeros, place = _counted(text, place)
                found += "0" * int(zeros) + digits
            else:
                found += text[place]
                place += 1
    except (KeyError, ValueError):
        return text
    return found


def _counted(text: str, place: int) -> tuple[str, int]:
    """The digits whose count is written in the two before them, and the place after them."""
    end = place + 2 + int(text[place : place + 2])
    return text[place + 2 : end], end
