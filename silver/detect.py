"""Naming the format of messages that nobody has described: every decoder tries, and their answers are the evidence.

A message that one decoder alone reads is proof. Where several read it, marks of one writer decide (`silver/kin.py`);
a message without a mark goes with the format that its file, or else the whole feed, has proof of. Where there is no
proof at all the formats stay in doubt, and the answer says so. What is kept does not grow with the feed, but for its
tables, and of those the first ten thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from framework.contracts.events import Event, RowChange
from framework.contracts.lines import FiledMessage
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.format import Context, Format
from silver.kin import mark_of
from silver.wire import without_mark

SHOWN_LINES = 20
MOST_TABLES = 10_000
_TRIED_AT_FIRST = 50
_MOST_SHAPES = 1_000
_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NO_KIN = frozenset({Reason.WRONG_SHAPE, Reason.UNKNOWN_OP, Reason.MISSING_TABLE, Reason.UNSUPPORTED_VERSION})
"""Refusals that a decoder also gives to messages of other formats."""
_BYTES = (Reason.EMPTY, Reason.ENCODING, Reason.NOT_JSON, Reason.TRUNCATED, Reason.TOO_DEEP)
_ANY = frozenset({*_BYTES, Reason.COMPRESSED, Reason.SCHEMA_REGISTRY, Reason.DOUBLE_ENCODED})
"""Refusals that every decoder gives alike."""

Kin = frozenset[str]


@dataclass(slots=True)
class _Table:
    keys: tuple[str, ...] | None = None
    ops: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Group:
    """The messages that one set of formats reads."""

    messages: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    controls: Counter[str] = field(default_factory=Counter)
    tables: dict[tuple[str | None, str | None, str], _Table] = field(default_factory=dict)


@dataclass(slots=True)
class _Shape:
    """Which formats have read messages with one set of members, and how many such messages there were."""

    seen: int = 0
    readers: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Unread:
    file: str
    line: int
    faults: Mapping[str, tuple[str, str]]


class Detector:
    """Takes messages one by one; `answer` says what they are."""

    def __init__(self, formats: Mapping[str, Format]) -> None:
        self.formats = formats
        self.contexts = {name: Context("feed", fmt.options(), "UTC", lambda *_: None) for name, fmt in formats.items()}
        self.shapes: dict[tuple[str, ...], _Shape] = {}
        self.groups: dict[Kin, _Group] = {}
        self.files: dict[str, Counter[Kin]] = {}
        self.layouts: Counter[str] = Counter()
        self.tombstones = 0
        self.unread: list[_Unread] = []
        self.faults: Counter[tuple[str, str]] = Counter()
        self.unread_count = 0

    def take(self, filed: FiledMessage) -> None:
        """Look at one message."""
        sets = self.files.setdefault(filed.file, Counter())
        if filed.fault is not None:
            self._refuse(filed, {"": ("unreadable", filed.fault)})
            return
        self.layouts[filed.layout] += 1
        message = filed.message
        if message.value is None and message.key is not None:
            self.tombstones += 1
            return
        read, faults = self._read(message)
        if not read:
            self._refuse(filed, faults)
            return
        document = _document(message.value)
        marks = {name: mark for name in read if (mark := mark_of(name, document)) is not None}
        marked = next((name for name in faults if not marks and mark_of(name, document) is not None), None)
        if marked is not None:  # a broken message of a format whose kin would read it
            self._refuse(filed, {marked: faults[marked]})
            return
        kin = frozenset(marks or read)
        group = self.groups.setdefault(kin, _Group())
        group.messages += 1
        group.marks.update(marks.values())
        sets[kin] += 1
        self._count(group, read[min(kin)])

    def _read(self, message: RawMessage) -> tuple[dict[str, list[Event]], dict[str, tuple[str, str]]]:
        """What each format reads, and why the others do not. Formats that never read this shape are left out later."""
        shape = self.shapes.setdefault(_members(message.value), _Shape()) if len(self.shapes) < _MOST_SHAPES else _Shape()
        shape.seen += 1
        likely = shape.readers if shape.seen > _TRIED_AT_FIRST and shape.readers else set(self.formats)
        read, faults = self._try(message, likely)
        if not read and likely != set(self.formats):
            read, faults = self._try(message, set(self.formats))
        shape.readers.update(read)
        return read, faults

    def _try(self, message: RawMessage, names: set[str]) -> tuple[dict[str, list[Event]], dict[str, tuple[str, str]]]:
        read: dict[str, list[Event]] = {}
        faults: dict[str, tuple[str, str]] = {}
        for name in names:
            try:
                read[name] = list(self.formats[name].decode(message, self.contexts[name]))
            except Malformed as error:
                faults[name] = (str(error.reason), error.detail)
        return read, faults

    def _refuse(self, filed: FiledMessage, faults: Mapping[str, tuple[str, str]]) -> None:
        self.unread_count += 1
        self.faults.update((name, reason) for name, (reason, _) in faults.items())
        if len(self.unread) < SHOWN_LINES:
            self.unread.append(_Unread(filed.file, filed.line, faults))

    def _count(self, group: _Group, events: Iterable[Event]) -> None:
        for event in events:
            if not isinstance(event, RowChange):
                group.controls[str(event.kind)] += 1
                continue
            place = (event.database, event.schema, event.table)
            if place not in group.tables and len(group.tables) >= MOST_TABLES:
                continue
            table = group.tables.setdefault(place, _Table())
            table.keys = table.keys or event.keys
            table.ops[f"{event.op} ({event.half} half)" if event.half else str(event.op)] += 1

    def answer(self) -> dict[str, Any]:
        """The formats with their evidence, the files, and the lines that fit none."""
        proven = {name for kin in self.groups if len(kin) == 1 for name in kin}
        owners: Counter[tuple[Kin, Kin]] = Counter()
        files = []
        for file, sets in self.files.items():
            found: Counter[str] = Counter()
            for kin, count in sets.items():
                owner = _owner(kin, sets, self.files, proven)
                owners[(kin, owner)] += count
                found[" or ".join(sorted(owner))] += count
            files.append({"file": file, "formats": dict(found.most_common())})
        names = sorted({owner for _, owner in owners}, key=lambda owner: -sum(n for (_, o), n in owners.items() if o == owner))
        formats = [self._format(owner, owners) for owner in names]
        return {
            "messages": self.layouts.total(),
            "layout": self.layouts.most_common(1)[0][0] if self.layouts else None,
            "layouts": dict(self.layouts),
            "formats": formats,
            "is_mixed": len({name for owner in names for name in owner}) > 1 and len(names) > 1,
            "tombstones": self.tombstones,
            "files": files,
            "unread_count": self.unread_count,
            "unread_reasons": self._refusals(names),
            "unread": [self._line(unread, names) for unread in self.unread],
        }

    def _format(self, owner: Kin, owners: Counter[tuple[Kin, Kin]]) -> dict[str, Any]:
        parts = {kin: count for (kin, o), count in owners.items() if o == owner}
        count = sum(parts.values())
        sure = sum(n for kin, n in parts.items() if len(kin) == 1)
        marks = Counter[str]()
        for kin in parts:
            if len(kin) == 1:
                marks.update(self.groups[kin].marks)
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
            "tables": self._tables(parts),
            "control_events": dict(sum((self.groups[kin].controls for kin in parts), Counter[str]())),
        }

    def _tables(self, parts: Iterable[Kin]) -> list[dict[str, Any]]:
        merged: dict[tuple[str | None, str | None, str], _Table] = {}
        for kin in parts:
            for place, seen in self.groups[kin].tables.items():
                table = merged.setdefault(place, _Table())
                table.keys = table.keys or seen.keys
                table.ops.update(seen.ops)
        order = sorted(merged, key=lambda place: tuple(part or "" for part in place))
        return [
            {"database": p[0], "schema": p[1], "table": p[2], "keys": list(merged[p].keys or ()), "ops": dict(merged[p].ops.most_common())}
            for p in order
        ]

    def _refusals(self, names: Sequence[Kin]) -> dict[str, int]:
        """How many lines fit no format, by the reason of the format that the feed has most of."""
        by_format: dict[str, Counter[str]] = {}
        for (name, reason), count in self.faults.items():
            by_format.setdefault(name, Counter())[reason] += count
        told = by_format.pop("", Counter())
        chosen = next((name for owner in names for name in sorted(owner)), min(by_format, default=""))
        return dict((told + by_format.get(chosen, Counter())).most_common())

    def _line(self, unread: _Unread, names: Iterable[Kin]) -> dict[str, Any]:
        """A line that fits no format, with the reason of the one that it seems to be, else of the one most common here."""
        near = [name for name, (reason, _) in unread.faults.items() if reason not in _NO_KIN | _ANY]
        common = [name for owner in names for name in sorted(owner) if name in unread.faults]
        chosen = near[0] if len(near) == 1 else (common or [min(unread.faults)])[0]
        reason, detail = unread.faults[chosen]
        seems = chosen if chosen and reason not in _ANY and (near == [chosen] or common) else None
        return {"file": unread.file, "line": unread.line, "as": seems, "reason": reason, "detail": detail}


def detect(messages: Iterable[FiledMessage], formats: Mapping[str, Format]) -> dict[str, Any]:
    """What these messages are; see `Detector.answer`."""
    detector = Detector(formats)
    for filed in messages:
        detector.take(filed)
    return detector.answer()


def _owner(kin: Kin, sets: Mapping[Kin, int], files: Mapping[str, Mapping[Kin, int]], proven: set[str]) -> Kin:
    """The format that a file's messages belong to: one of their own proof, of the file's, of the feed's, else in doubt."""
    if len(kin) == 1 or not kin & proven:
        return kin
    here: Counter[str] = Counter({min(k): n for k, n in sets.items() if len(k) == 1 and k <= kin})
    if not here:
        here = Counter({name: sum(s.get(frozenset({name}), 0) for s in files.values()) for name in kin & proven})
    return frozenset({max(sorted(here), key=lambda name: here[name])})


def _members(value: bytes | None) -> tuple[str, ...]:
    try:
        return tuple(sorted(_ENVELOPE.decode(without_mark(value or b""))))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()


def _document(value: bytes | None) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(without_mark(value or b""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, Mapping) else {}
