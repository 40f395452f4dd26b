"""The evidence of a feed, and the conclusion: formats with their evidence, files, lines that fit none.

Proof of a format is a message that no other format reads. A message that several formats read belongs to the
one that its file, or else the whole feed, has proof of. Without any proof the formats stay in doubt together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.contracts.quarantine_reasons import Reason
from framework.text.formatting import quantity
from silver.detection.advice import Causes
from silver.detection.key_candidates import Sample, candidates

SHOWN_LINES = 20
_GIVEN_TO_OTHER_FORMATS = frozenset(
    {Reason.WRONG_SHAPE, Reason.UNKNOWN_OP, Reason.MISSING_TABLE, Reason.UNSUPPORTED_VERSION}
)
"""Reasons for which a decoder also refuses messages of other formats."""
_BYTES = (Reason.EMPTY, Reason.ENCODING, Reason.NOT_JSON, Reason.TRUNCATED, Reason.TOO_DEEP)
_GIVEN_BY_EVERY_FORMAT = frozenset(
    {*_BYTES, Reason.COMPRESSED, Reason.SCHEMA_REGISTRY, Reason.DOUBLE_ENCODED}
)
"""Reasons for which every decoder refuses a message."""

Candidates = frozenset[str]
"""The names of the formats that read a message."""


@dataclass(slots=True)
class Table:
    """One table: key, columns in the order in which they came, changes, and sample rows if it has no key."""

    keys: tuple[str, ...] | None = None
    columns: dict[str, None] = field(default_factory=dict)
    ops: Counter[str] = field(default_factory=Counter)
    sample: Sample = field(default_factory=Sample)


@dataclass(slots=True)
class Group:
    """The messages that one set of formats reads. `is_bare`: some of their rows declare no column."""

    messages: int = 0
    is_bare: bool = False
    signatures: Counter[str] = field(default_factory=Counter)
    controls: Counter[str] = field(default_factory=Counter)
    tables: dict[tuple[str | None, str | None, str], Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that fits no format: the reason of each format, and the formats that it comes nearest to."""

    file: str
    line: int
    faults: Mapping[str, tuple[str, str]]
    near: Candidates = frozenset()


@dataclass(slots=True)
class Evidence:
    """Everything that detection remembers of a feed. It grows only with the number of tables and files.

    Messages that several formats read are grouped by file, because files may have different proof; all others
    are in one group for each format.
    """

    groups: dict[tuple[Candidates, str], Group] = field(default_factory=dict)
    files: dict[str, Counter[Candidates]] = field(default_factory=dict)
    layouts: Counter[str] = field(default_factory=Counter)
    tombstones: int = 0
    unread: list[Unread] = field(default_factory=list)
    unread_count: int = 0
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    causes: Causes = field(default_factory=Causes)
    nearest: dict[Candidates, Counter[tuple[str, str]]] = field(default_factory=dict)


def conclusion(found: Evidence) -> dict[str, Any]:
    """The formats with their evidence, the files, and the lines that fit no format."""
    proven = {name for readers, _ in found.groups if len(readers) == 1 for name in readers}
    owned: dict[Candidates, set[tuple[Candidates, str]]] = {}
    files = []
    for file, sets in found.files.items():
        named: Counter[str] = Counter()
        for readers, count in sets.items():
            owner = _owner(readers, sets, found.files, proven)
            owned.setdefault(owner, set()).add((readers, "" if len(readers) == 1 else file))
            named[" or ".join(sorted(owner))] += count
        files.append({"file": file, "formats": dict(named.most_common())})
    groups = {
        owner: {key: found.groups[key] for key in sorted(keys, key=str)} for owner, keys in owned.items()
    }
    names = sorted(groups, key=lambda owner: -sum(group.messages for group in groups[owner].values()))
    formats = [_format(owner, groups[owner], found) for owner in names]
    return {
        "messages": found.layouts.total(),
        "layout": found.layouts.most_common(1)[0][0] if found.layouts else None,
        "layouts": dict(found.layouts),
        "formats": formats,
        "is_mixed": len({name for owner in names for name in owner}) > 1 and len(names) > 1,
        "tombstones": found.tombstones,
        "files": files,
        "unread_count": found.unread_count,
        "unread_reasons": _refusals(names, found),
        "unread": [_line(unread, names) for unread in found.unread],
        "advice": found.causes.advice(),
        "nearest": [
            _nearest(near, found.nearest[near])
            for near in sorted(found.nearest, key=lambda readers: -found.nearest[readers].total())
        ],
    }


def _nearest(near: Candidates, faults: Counter[tuple[str, str]]) -> dict[str, Any]:
    ((reason, detail), _), *_ = faults.most_common(1)
    return {
        "name": min(near),
        "or": sorted(near)[1:],
        "lines": faults.total(),
        "reason": reason,
        "detail": detail,
    }


def _format(
    owner: Candidates, groups: Mapping[tuple[Candidates, str], Group], found: Evidence
) -> dict[str, Any]:
    count = sum(group.messages for group in groups.values())
    proof = [group for (readers, _), group in groups.items() if len(readers) == 1]
    sure = sum(group.messages for group in proof)
    signatures = sum((group.signatures for group in proof), Counter[str]())
    alone = sure - sum(signatures.values())
    evidence = [f"{quantity(n, 'message')} with {mark}" for mark, n in signatures.most_common()]
    if alone > 0:
        evidence.append(f"{quantity(alone, 'message')} that no other format reads")
    if count > sure and len(owner) == 1:
        evidence.append(f"{quantity(count - sure, 'more message')} that other formats read, too")
    if len(owner) > 1:
        evidence.append(
            f"{quantity(count, 'message')} that {' and '.join(sorted(owner))} read alike:"
            " nothing in them tells which"
        )
    part = (sure + 0.9 * (count - sure)) / count if len(owner) == 1 else 1 / len(owner)
    confidence = part * _read_part(found)
    return {
        "name": min(owner),
        "or": sorted(owner)[1:],
        "confidence": 1.0 if confidence == 1 else min(round(confidence, 2), 0.99),
        "messages": count,
        "evidence": evidence,
        "is_bare": any(group.is_bare for group in groups.values()),
        "tables": _tables(groups.values()),
        "control_events": dict(sum((group.controls for group in groups.values()), Counter[str]())),
    }


def _read_part(found: Evidence) -> float:
    """The part of the feed that some format reads: unread lines lower the confidence in every format."""
    read = sum(group.messages for group in found.groups.values())
    return read / (read + found.unread_count)


def _tables(groups: Iterable[Group]) -> list[dict[str, Any]]:
    merged: dict[tuple[str | None, str | None, str], Table] = {}
    for group in groups:
        for place, seen in group.tables.items():
            table = merged.setdefault(place, Table())
            table.keys = table.keys or seen.keys
            table.columns.update(seen.columns)
            table.ops.update(seen.ops)
            table.sample = table.sample.merged_with(seen.sample)
    order = sorted(merged, key=lambda place: tuple(part or "" for part in place))
    return [
        {
            **dict(zip(("database", "schema", "table"), p, strict=True)),
            "keys": list(merged[p].keys or ()),
            "columns": list(merged[p].columns),
            "ops": dict(merged[p].ops.most_common()),
            "candidates": [] if merged[p].keys else candidates(merged[p].sample, list(merged[p].columns)),
            "sampled": 0 if merged[p].keys else len(merged[p].sample.rows),
        }
        for p in order
    ]


def _refusals(names: Sequence[Candidates], found: Evidence) -> dict[str, int]:
    """How many lines fit no format, by the reason that the most common format of the feed gives."""
    by_format: dict[str, Counter[str]] = {}
    for (name, reason), count in found.faults.items():
        by_format.setdefault(name, Counter())[reason] += count
    certain = by_format.pop("", Counter())
    chosen = next((name for owner in names for name in sorted(owner)), min(by_format, default=""))
    return dict((certain + by_format.get(chosen, Counter())).most_common())


def _line(unread: Unread, names: Iterable[Candidates]) -> dict[str, Any]:
    """A line that fits no format, with the reason of its most likely format, else of the most common one."""
    common = [name for owner in names for name in sorted(owner) if name in unread.faults]
    near = [name for name in common if name in unread.near] or sorted(unread.near)
    near = near[:1] or [
        name
        for name, (reason, _) in unread.faults.items()
        if reason not in _GIVEN_TO_OTHER_FORMATS | _GIVEN_BY_EVERY_FORMAT
    ]
    chosen = near[0] if len(near) == 1 else (common or [min(unread.faults)])[0]
    reason, detail = unread.faults[chosen]
    if len(unread.faults) > 1 and chosen not in (*near, *common) and reason not in _GIVEN_BY_EVERY_FORMAT:
        detail = "no format has such members"
    seems = (
        chosen if chosen and reason not in _GIVEN_BY_EVERY_FORMAT and (near == [chosen] or common) else None
    )
    return {"file": unread.file, "line": unread.line, "as": seems, "reason": reason, "detail": detail}


def _owner(
    readers: Candidates,
    sets: Mapping[Candidates, int],
    files: Mapping[str, Mapping[Candidates, int]],
    proven: set[str],
) -> Candidates:
    """The format of a file's messages: by their own proof, the file's, then the feed's.

    Else all candidates.
    """
    if len(readers) == 1 or not readers & proven:
        return readers
    here: Counter[str] = Counter({min(k): n for k, n in sets.items() if len(k) == 1 and k <= readers})
    if not here:
        here = Counter(
            {name: sum(s.get(frozenset({name}), 0) for s in files.values()) for name in readers & proven}
        )
    return frozenset({max(sorted(here), key=lambda name: here[name])})
