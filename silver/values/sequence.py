"""The sequence: one text whose byte order is the order of the source.

Each number is written as two digits for its length and then its digits (`7` gives `017`, `120` gives
`03120`). The numbers are joined by `.`, so that comparing bytes compares numbers. The epoch comes first, then
a mark (`0` for a snapshot row without a position, which sorts before every streamed change of its epoch, else
`1`), then the format's position. Where a format's position does not identify one change, a tie-breaker
follows: the topic (for lines of files: the file's name), the partition, the offset and the row's ordinal.
Numbers inside a name compare as numbers: `part-9` comes before `part-10`.

    011.011.03120.orders.010.0215.012
    epoch 1, in the stream, position 120; then topic, partition 0, offset 15, ordinal 2

No other module of silver knows this text; gold tells epochs, full loads and rows without a position by it
(`framework/contracts/full_loads.py`). The functions whose names end in `_sql` return the same as Spark SQL
expressions over a column of sequences; they are null for a null.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile

from framework.contracts.full_loads import WITHOUT_POSITION, epoch_part
from framework.contracts.seed import BEHIND, SEQUENCE

_SNAPSHOT, _STREAM = "010", "011"
MAX_DIGITS = 99
_NO_POSITION = "a position is a number from 0 to 99 digits"
_LENGTHS = tuple(f"{length:02d}" for length in range(MAX_DIGITS + 1))
_NOT_ZERO = re.compile(r"[^0]")
_RUNS = re.compile(r"[0-9]+|[^0-9]+", re.ASCII)
_WHOLE = re.compile(SEQUENCE, re.DOTALL)
_TIE_SQL = "[.]([^.]*)([.][0-9]+){3}$"
FIRST_PART = "^(?P<part>[^.]*)"
"""The epoch as a sequence writes it, as a regular expression of Arrow."""


def number_part(value: int) -> str:
    """One number as text that sorts like the number. Raises ValueError below zero or beyond 99 digits."""
    text = str(value)
    if value < 0 or len(text) > MAX_DIGITS:
        raise ValueError(_NO_POSITION)
    return _LENGTHS[len(text)] + text


def is_sequence(text: str) -> bool:
    """Whether a text begins as a sequence does: with an epoch and a snapshot mark."""
    return _WHOLE.fullmatch(text) is not None


def epoch_of(sequence: str) -> int:
    """The number of the epoch. Raises ValueError for a text that is no sequence."""
    return int(epoch_part(sequence)[2:])


def epoch_position_of(sequence: str) -> tuple[int, ...]:
    """The epoch and the numbers of the position, without the snapshot mark and the tie-breaker.

    Only the epoch for a snapshot row without a position.
    """
    parts = takewhile(_is_number_part, sequence.split("."))
    numbers = tuple(int(part[2:]) for part in parts)
    return (numbers[0], *numbers[2:]) if len(numbers) > 1 and numbers[1] else numbers[:1]


def with_position(sequence: str, position: str, other: str) -> str:
    """The sequence of a change whose `position` is replaced by another one; the tie-breaker stays."""
    return other + sequence[len(position) :]


def reached_position(sequence: str, position: str | None) -> str:
    """The position with which the sequence of a change begins: its own `position`, or a greater one."""
    return sequence if sequence == position else sequence.rsplit(".", _TIE_PARTS)[0]


def after_position(sequence: str) -> str:
    """The sequence after all changes at or below a position, and before all others."""
    return sequence.removesuffix(BEHIND) + BEHIND


def _is_number_part(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) == 2 + int(part[:2])


def name_part(name: str) -> str:
    """The name of a topic or file as text without a point; numbers inside the name compare as numbers."""
    return _known_name_part(name) if len(name) <= _LONGEST_KNOWN else _name_part(name)


def _name_part(name: str) -> str:
    return "".join(
        _number_in_name(run) if run[0] in "0123456789" else _plain(run) for run in _RUNS.findall(name)
    )


_known_name_part = lru_cache(maxsize=1024)(_name_part)
_LONGEST_KNOWN = 1_000
"""Characters of a name whose text is kept; longer names would fill the memory."""


def _plain(text: str) -> str:
    return text.replace("%", "%25").replace(".", "%2E")


def _number_in_name(digits: str) -> str:
    """The number, then the count of zeros before it; more than 99 digits compare in parts of 99."""
    parts: list[str] = []
    place = 0
    while place < len(digits):
        start = _zeros_end(digits, place)
        head = digits[start : start + MAX_DIGITS]
        parts.append(f"{len(head):02d}{head}{number_part(start - place)}")
        place = start + len(head)
    return "".join(parts)


def _zeros_end(digits: str, place: int) -> int:
    """The place of the first digit from this one on that is not 0; the length where there is none."""
    found = _NOT_ZERO.search(digits, place)
    return len(digits) if found is None else found.start()


_TIE_PARTS = 4
Tie = tuple[str, int, int, int]
"""The tie-breaker: topic, partition, offset, and the ordinal of the row inside the message."""


def sequence_of(epoch: int, position: tuple[int, ...] | None, tie: Tie | None) -> str:
    """The sequence of a change. `tie` is None where the position identifies one change."""
    if position is None:
        head = _head(epoch, _SNAPSHOT)
        return f"{head}.010" if tie is None else f"{head}.{_tie_text(tie)}"
    whole = _with_numbers(_head(epoch, _STREAM), position)
    return whole if tie is None else f"{whole}.{_tie_text(tie)}"


def tied(position: str | None, epoch: int, tie: Tie) -> str:
    """The sequence of a change whose position, None or a text of `sequence_of`, does not identify it."""
    return f"{_head(epoch, _SNAPSHOT) if position is None else position}.{_tie_text(tie)}"


@lru_cache(maxsize=64)
def _head(epoch: int, mark: str) -> str:
    return f"{number_part(epoch)}.{mark}"


def _tie_text(tie: Tie) -> str:
    return _with_numbers(name_part(tie[0]), tie[1:])


def _with_numbers(head: str, numbers: tuple[int, ...]) -> str:
    """The text with each number behind it, as `number_part` writes it; written out for speed."""
    for value in numbers:
        text = str(value)
        if value < 0 or len(text) > MAX_DIGITS:
            raise ValueError(_NO_POSITION)
        head += f".{_LENGTHS[len(text)]}{text}"
    return head


def epoch_part_sql(column: str) -> str:
    """The epoch as the sequence writes it."""
    return f"substring_index(`{column}`, '.', 1)"


def epoch_sql(column: str) -> str:
    """The number of the epoch; null for a text that is no sequence."""
    number = f"cast(substring({epoch_part_sql(column)}, 3) AS int)"
    return f"CASE WHEN `{column}` RLIKE '^[0-9]{{3,}}[.]' THEN {number} END"


def is_snapshot_sql(column: str) -> str:
    """Whether a change is a snapshot row without a position."""
    return f"(`{column}` RLIKE '{WITHOUT_POSITION}')"


def parts_sql(column: str) -> str:
    """The epoch and the snapshot mark as the sequence writes them, as two columns `epoch` and `mark`."""
    return f"split_part(`{column}`, '.', 1) AS `epoch`, split_part(`{column}`, '.', 2) AS `mark`"


def is_snapshot_mark(mark: str) -> bool:
    """Whether a mark is that of snapshot rows without a position."""
    return mark == _SNAPSHOT


def tie_sql(column: str) -> str:
    """The tie-breaker, with the point before it; empty where the position identifies the change.

    The first part of a tie-breaker is a name, which is not written like a number.
    """
    return f"CASE WHEN {_has_no_tie(column)} THEN '' ELSE regexp_extract(`{column}`, '{_TIE_SQL}', 0) END"


def without_tie_sql(column: str) -> str:
    """The sequence without its tie-breaker; unchanged where the position identifies the change."""
    without = f"regexp_replace(`{column}`, '{_TIE_SQL}', '')"
    return f"CASE WHEN {_has_no_tie(column)} THEN `{column}` ELSE {without} END"


def _has_no_tie(column: str) -> str:
    """Whether the fourth part from the end is a number; null or false where there is none."""
    part = f"regexp_extract(`{column}`, '{_TIE_SQL}', 1)"
    return f"{part} RLIKE '^[0-9]{{2,}}$' AND length({part}) = 2 + try_cast(substring({part}, 1, 2) AS int)"
