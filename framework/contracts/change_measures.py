"""What the row changes of one table in one batch show: silver measures it, and gold plans with it.

A text in `ops/batches` holds it, so that gold need not read the changes before it knows what to do with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

LONGEST_TEXT = 16_384
"""Characters of a text; what needs more is not recorded, and gold measures the changes itself."""


class GroupMeasure(msgspec.Struct, frozen=True, array_like=True):
    """What changes of one schema, key and operation have in common.

    Attributes:
        schema_id: Their schema in `silver/schemas`; None where they have none.
        keys: The columns of their key; None where they name none.
        op: Their operation.
        rows: How many they are.
        low: Their lowest sequence.
        high: Their highest sequence.
        event_time: Their newest event time, in microseconds since the Unix epoch; None where none has one.
        loaded: How many of them are rows of a full load.
        has_partials: Whether some images leave columns out.
        has_key_changes: Whether some updates may change the key.
        has_partial_key_changes: Whether some of those leave columns out.
    """

    schema_id: str | None
    keys: tuple[str, ...] | None
    op: str
    rows: int
    low: str
    high: str
    event_time: int | None = None
    loaded: int = 0
    has_partials: bool = False
    has_key_changes: bool = False
    has_partial_key_changes: bool = False

    def __or__(self, other: GroupMeasure) -> GroupMeasure:
        """What the changes of both have in common; both have the same schema, key and operation."""
        times = [time for time in (self.event_time, other.event_time) if time is not None]
        return GroupMeasure(
            self.schema_id,
            self.keys,
            self.op,
            self.rows + other.rows,
            min(self.low, other.low),
            max(self.high, other.high),
            max(times, default=None),
            self.loaded + other.loaded,
            self.has_partials or other.has_partials,
            self.has_key_changes or other.has_key_changes,
            self.has_partial_key_changes or other.has_partial_key_changes,
        )


@dataclass(frozen=True, slots=True)
class Width:
    """How wide the numbers of a column are.

    Attributes:
        digits: The most digits before the point.
        scale: The most digits after the point.
        low: The lowest whole number, at most 0.
        high: The highest whole number, at least 0.
        has_others: Whether a value is no plain number of at most 38 digits.
    """

    digits: int = 0
    scale: int = 0
    low: int = 0
    high: int = 0
    has_others: bool = False

    def __or__(self, other: Width) -> Width:
        """The widths of the values of both."""
        return Width(
            max(self.digits, other.digits),
            max(self.scale, other.scale),
            min(self.low, other.low),
            max(self.high, other.high),
            self.has_others or other.has_others,
        )


@dataclass(frozen=True, slots=True)
class ChangeMeasures:
    """What row changes of one table show: groups of them, and the widths of the numbers by column.

    `widths` has every column with numbers, as its schema shows it; the values of others are not measured.
    """

    groups: tuple[GroupMeasure, ...] = ()
    widths: Mapping[str, Width] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many changes these are."""
        return sum(group.rows for group in self.groups)

    def __or__(self, other: ChangeMeasures) -> ChangeMeasures:
        """What the changes of both show."""
        groups: dict[tuple[object, ...], GroupMeasure] = {}
        for group in (*self.groups, *other.groups):
            place = (group.schema_id, group.keys, group.op)
            groups[place] = groups[place] | group if place in groups else group
        widths = dict(self.widths)
        for name, width in other.widths.items():
            widths[name] = widths[name] | width if name in widths else width
        return ChangeMeasures(tuple(groups.values()), widths)


class _Text(msgspec.Struct, array_like=True):
    groups: tuple[GroupMeasure, ...]
    widths: dict[str, tuple[int, int, str, str, int]]
    """Of whole numbers with up to 38 digits few readers of JSON make numbers without loss: they are texts."""


def measures_text(measures: ChangeMeasures | None) -> str:
    """The measures as a text; an empty one for None and where it would be too long."""
    if measures is None:
        return ""
    widths = {
        name: (w.digits, w.scale, str(w.low), str(w.high), int(w.has_others))
        for name, w in measures.widths.items()
    }
    text = msgspec.json.encode(_Text(measures.groups, widths)).decode()
    return text if len(text) <= LONGEST_TEXT else ""


def measures_of_text(text: str | None) -> ChangeMeasures | None:
    """The measures that a text of `measures_text` has; None for no text, an empty or another one."""
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=_Text)
    except msgspec.MsgspecError:  # a release that measured something else
        return None
    widths = {
        name: Width(digits, scale, int(low), int(high), bool(others))
        for name, (digits, scale, low, high, others) in found.widths.items()
    }
    return ChangeMeasures(found.groups, widths)


def joined_texts(texts: Iterable[str]) -> str:
    """The text for all the changes of these texts; an empty one where one of them is empty."""
    joined = ChangeMeasures()
    for text in texts:
        measures = measures_of_text(text)
        if measures is None:
            return ""
        joined |= measures
    return measures_text(joined) if joined.groups else ""
