"""What was found in a feed, and the answer that it comes to: formats with their evidence, files, lines that fit none.

A message that several formats read goes with the format that its file, or else the whole feed, has proof of: messages
that no other format reads. Without any proof the formats stay in doubt together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.contracts.reasons import Reason

SHOWN_LINES = 20
_NO_KIN = frozenset({Reason.WRONG_SHAPE, Reason.UNKNOWN_OP, Reason.MISSING_TABLE, Reason.UNSUPPORTED_VERSION})
"""Refusals that a decoder also gives to messages of other formats."""
_BYTES = (Reason.EMPTY, Reason.ENCODING, Reason.NOT_JSON, Reason.TRUNCATED, Reason.TOO_DEEP)
_ANY = frozenset({*_BYTES, Reason.COMPRESSED, Reason.SCHEMA_REGISTRY, Reason.DOUBLE_ENCODED})
"""Refusals that every decoder gives alike."""

Kin = frozenset[str]
"""Formats that read a message alike."""


@dataclass(slots=True)
class Table:
    """One table's key, columns in the order in which they were seen, and changes."""

    keys: tuple[str, ...] | None = None
    columns: dict[str, None] = field(default_factory=dict)
    ops: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Group:
    """The messages that one set of formats reads."""

    messages: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    controls: Counter[str] = field(default_factory=Counter)
    tables: dict[tuple[str | None, str | None, str], Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that fits no format, with what each format said of it."""

    file: str
    line: int
    faults: Mapping[str, tuple[str, str]]


@dataclass(slots=True)
class Findings:
    """Everything that is kept of a feed. It grows with its tables and files, and with nothing else.

    Messages that several formats read are kept by file, for files may have different proof; the others together.
    """

    groups: dict[tuple[Kin, str], Group] = field(default_factory=dict)
    files: dict[str, Counter[Kin]] = field(default_factory=dict)
    layouts: Counter[str] = field(default_factory=Counter)
    tombstones: int = 0
    unread: list[Unread] = field(default_factory=list)
    unread_count: int = 0
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)


def answer(found: Findings) -> dict[str, Any]:
    """The formats with their evidence, the files, and the lines that fit none."""
    proven = {name for kin, _ in found.groups if len(kin) == 1 for name in kin}
    owned: dict[Kin, set[tuple[Kin, str]]] = {}
    files = []
    for file, sets in found.files.items():
        named: Counter[str] = Counter()
        for kin, count in sets.items():
            owner = _owner(kin, sets, found.files, proven)
            owned.setdefault(owner, set()).add((kin, "" if len(kin) == 1 else file))
            named[" or ".join(sorted(owner))] += count
        files.append({"file": file, "formats": dict(named.most_common())})
    groups = {owner: {key: found.groups[key] for key in sorted(keys, key=str)} for owner, keys in owned.items()}
    names = sorted(groups, key=lambda owner: -sum(group.messages for group in groups[owner].values()))
    formats = [_format(owner, groups[owner]) for owner in names]
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
    }


def _format(owner: Kin, groups: Mapping[tuple[Kin, str], Group]) -> dict[str, Any]:
    count = sum(group.messages for group in groups.values())
    proof = [group for (kin, _), group in groups.items() if len(kin) == 1]
    sure = sum(group.messages for group in proof)
    marks = sum((group.marks for group in proof), Counter[str]())
    alone = sure - sum(marks.values())
    evidence = [f"{n:,} messages with {mark}" for mark, n in marks.most_common()]
    if alone > 0:
        evidence.append(f"{alone:,} messages that no other format reads")
    if count > sure and len(owner) == 1:
        evidence.append(f"{count - sure:,} messages that others read too, beside those")
    if len(owner) > 1:
        evidence.append(f"{count:,} messages that {' and '.join(sorted(owner))} read alike: nothing in them tells which")
    return {
        "name": min(owner),
        "or": sorted(owner)[1:],
        "confidence": round((sure + 0.9 * (count - sure)) / count, 2) if len(owner) == 1 else round(1 / len(owner), 2),
        "messages": count,
        "evidence": evidence,
        "tables": _tables(groups.values()),
        "control_events": dict(sum((group.controls for group in groups.values()), Counter[str]())),
    }


def _tables(groups: Iterable[Group]) -> list[dict[str, Any]]:
    merged: dict[tuple[str | None, str | None, str], Table] = {}
    for group in groups:
        for place, seen in group.tables.items():
            table = merged.setdefault(place, Table())
            table.keys = table.keys or seen.keys
            table.columns.update(seen.columns)
            table.ops.update(seen.ops)
    order = sorted(merged, key=lambda place: tuple(part or "" for part in place))
    return [
        {
            **dict(zip(("database", "schema", "table"), p, strict=True)),
            "keys": list(merged[p].keys or ()),
            "columns": list(merged[p].columns),
            "ops": dict(merged[p].ops.most_common()),
        }
        for p in order
    ]


def _refusals(names: Sequence[Kin], found: Findings) -> dict[str, int]:
    """How many lines fit no format, by the reason of the format that the feed has most of."""
    by_format: dict[str, Counter[str]] = {}
    for (name, reason), count in found.faults.items():
        by_format.setdefault(name, Counter())[reason] += count
    told = by_format.pop("", Counter())
    chosen = next((name for owner in names for name in sorted(owner)), min(by_format, default=""))
    return dict((told + by_format.get(chosen, Counter())).most_common())


def _line(unread: Unread, names: Iterable[Kin]) -> dict[str, Any]:
    """A line that fits no format, with the reason of the one that it seems to be, else of the one most common here."""
    near = [name for name, (reason, _) in unread.faults.items() if reason not in _NO_KIN | _ANY]
    common = [name for owner in names for name in sorted(owner) if name in unread.faults]
    chosen = near[0] if len(near) == 1 else (common or [min(unread.faults)])[0]
    reason, detail = unread.faults[chosen]
    seems = chosen if chosen and reason not in _ANY and (near == [chosen] or common) else None
    return {"file": unread.file, "line": unread.line, "as": seems, "reason": reason, "detail": detail}


def _owner(kin: Kin, sets: Mapping[Kin, int], files: Mapping[str, Mapping[Kin, int]], proven: set[str]) -> Kin:
    """The format that a file's messages belong to: one of their own proof, of the file's, of the feed's, else in doubt."""
    if len(kin) == 1 or not kin & proven:
        return kin
    here: Counter[str] = Counter({min(k): n for k, n in sets.items() if len(k) == 1 and k <= kin})
    if not here:
        here = Counter({name: sum(s.get(frozenset({name}), 0) for s in files.values()) for name in kin & proven})
    return frozenset({max(sorted(here), key=lambda name: here[name])})
