"""Columns whose stored values a source converted when a statement gave them another type.

`MODIFY price DECIMAL(10,1)` rounds what a DECIMAL(10,2) held, and the source sends no rows of it: the replica
keeps the values of before. Where the new type holds every value as it is, nothing was converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from framework.contracts.ddl_actions import AddColumn, ChangeType
from framework.contracts.full_loads import epoch_part
from framework.naming import in_one_case
from gold.changes.profile import Profile
from gold.planning.task import Task
from gold.schema.case_matching import match_case
from gold.schema.columns import ColumnNaming
from gold.schema.lineage import Lineage
from gold.schema.type_inference import ColumnEvidence, digits_of

_TEXT = re.compile(
    r"\s*(?:long|national|tiny|medium|n|bp|var)*\s*(?:char|text|string|clob|character|varchar)", re.I
)
_FLOAT = re.compile(r"\s*(?:float|double|real|binary_float|binary_double)", re.I)
_MOMENT = re.compile(
    r"\s*(datetime2|datetimeoffset|datetime|timestamptz|timestamp|time)\s*(?:\(\s*(\d+)\s*\))?", re.I
)
_PLACES = {"datetime": 0, "datetime2": 7, "datetimeoffset": 7, "timestamptz": 6}
_MOMENTS = ("timestamp", "timestamp_ntz")
_FLOATS = {"float": 6, "double": 15}
"""The digits that a floating-point type always keeps."""


@dataclass(frozen=True, slots=True)
class _Former:
    """The types of a column before a statement; `is_told`: a statement declared them, not the feed's rows."""

    types: frozenset[str]
    declared: frozenset[str]
    scale: int = 0
    is_told: bool = False


def converted_columns(
    task: Task, profile: Profile, namings: Sequence[ColumnNaming]
) -> Iterator[tuple[int, str]]:
    """The place of each such statement among the column changes, and the column's current name.

    A statement with no rows before it is left out, and one before a load of a later epoch.
    """
    newest = epoch_part(profile.max_sequence or "")
    lineage = match_case(task.lineage, profile.evidence)
    for at, (sequence, action) in enumerate(lineage.column_changes):
        if not isinstance(action, ChangeType) or action.type is None or newest > epoch_part(sequence):
            continue
        name, older = namings[at + 1].current_name(action.name), profile.namings_before(at, task.truncated_at)
        if name is None or not older:
            continue
        former = _told_before(lineage, at, name, namings) or _shown_in(profile, older, name, namings)
        if former is None or not _is_converted(former, action):
            continue
        later = {naming for naming, _ in profile.evidence if naming > at}
        shown = None if former.is_told else _shown_in(profile, later, name, namings)
        # a feed may write a type in its own way, before the statement and after it
        is_same = shown is not None and shown.types <= former.types and shown.declared <= former.declared
        if shown is None or not shown.types or not is_same:
            yield at, name


def _told_before(lineage: Lineage, at: int, name: str, namings: Sequence[ColumnNaming]) -> _Former | None:
    """The type by the last statement on a column before another one; None where none declares one."""
    created = [(0, column) for column in lineage.created]
    changed = [
        (i + 1, action)
        for i, (_, action) in enumerate(lineage.column_changes[:at])
        if isinstance(action, AddColumn | ChangeType)
    ]
    for naming, column in reversed([*created, *changed]):
        current = namings[naming].current_name(column.name) or ""
        if column.type is not None and in_one_case(current) == in_one_case(name):
            return _Former(frozenset((column.type,)), frozenset((column.declared or "",)), is_told=True)
    return None


def _shown_in(
    profile: Profile, among: set[int], name: str, namings: Sequence[ColumnNaming]
) -> _Former | None:
    """The types that rows of some namings show of a column; None where they do not have it."""
    shown = [
        evidence
        for (naming, column), evidence in profile.evidence.items()
        if naming in among and namings[naming].current_name(column) == name
    ]
    if not shown:
        return None
    total = ColumnEvidence()
    for evidence in shown:
        total |= evidence
    return _Former(total.types, total.declared, total.scale)


def _is_converted(former: _Former, action: ChangeType) -> bool:
    new, declared = action.type or "", action.declared or ""
    if not former.types:  # numbers of no declared type: their digits tell
        digits = digits_of(new)
        return digits is not None and former.scale > digits[1]
    return any(_converts(old, former, new, declared) for old in former.types)


def _converts(old: str, former: _Former, new: str, declared: str) -> bool:
    """Whether values of one type may differ in another one. What rows show differently proves nothing."""
    one, other = digits_of(old), digits_of(new)
    is_text = _TEXT.match(declared) is not None
    if old == new:
        return any(_is_cut(text, declared, old) for text in former.declared)
    if one is not None:
        if other is not None:
            return one[1] > other[1]
        return new in _FLOATS and sum(one) > _FLOATS[new]
    if old in _FLOATS:
        is_float = former.is_told or any(_FLOAT.match(text) for text in former.declared)
        return is_float and (other is not None or is_text or (old, new) == ("double", "float"))
    if old in _MOMENTS:
        return new == "date" or is_text or (former.is_told and new in _MOMENTS)
    if old == "string":
        return new != "string" and any(_TEXT.match(text) for text in former.declared)
    return old == "binary" and is_text


def _is_cut(before: str, after: str, kind: str) -> bool:
    """Whether a moment has fewer digits of its seconds than before; False where that is not known."""
    one, other = _MOMENT.match(before), _MOMENT.match(after)
    if one is None or other is None or one[1].lower() != other[1].lower():
        return False
    places = _places(one, kind), _places(other, kind)
    return None not in places and (places[0] or 0) > (places[1] or 0)


def _places(moment: re.Match[str], kind: str) -> int | None:
    if moment[2] is not None:
        return int(moment[2])
    word = moment[1].lower()
    if word == "timestamp":
        return 0 if kind == "timestamp" and "zone" not in moment.string.lower() else 6
    return _PLACES.get(word)
