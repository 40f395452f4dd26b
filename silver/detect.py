"""Naming the format of messages that nobody has described: every decoder tries, and their answers are the evidence.

A message that one decoder alone reads is proof. Where several read it, marks of one writer decide (`silver/kin.py`);
what that comes to for the whole feed is `silver/findings.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from framework.contracts.events import Event, RowChange
from framework.contracts.lines import FiledMessage
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed
from silver.findings import SHOWN_LINES, Findings, Group, Table, Unread, answer
from silver.format import Context, Format
from silver.kin import are_kin, mark_of
from silver.wire import without_mark

MOST_TABLES = 10_000
MOST_COLUMNS = 2_000
_TRIED_AT_FIRST = 50
_MOST_SHAPES = 1_000
_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])


def detect(messages: Iterable[FiledMessage], formats: Mapping[str, Format], source: str = "feed") -> dict[str, Any]:
    """What these messages are: the formats with their evidence, the files, and the lines that fit none.

    `source` is the database of feeds that name none.
    """
    detector = Detector(formats, source)
    for filed in messages:
        detector.take(filed)
    return answer(detector.found)


@dataclass(slots=True)
class _Shape:
    """Which formats have read messages with one set of members, and how many such messages there were."""

    seen: int = 0
    readers: set[str] = field(default_factory=set)


class Detector:
    """Takes messages one by one; `silver/findings.py` says what they come to."""

    def __init__(self, formats: Mapping[str, Format], source: str = "feed") -> None:
        self.formats = formats
        self.contexts = {name: Context(source, fmt.options(), "UTC", lambda *_: None) for name, fmt in formats.items()}
        self.shapes: dict[tuple[str, ...], _Shape] = {}
        self.found = Findings()

    def take(self, filed: FiledMessage) -> None:
        """Look at one message."""
        sets = self.found.files.setdefault(filed.file, Counter())
        if filed.fault is not None:
            self._refuse(filed, {"": ("unreadable", filed.fault)})
            return
        self.found.layouts[filed.layout] += 1
        message = filed.message
        if message.value is None and message.key is not None:
            self.found.tombstones += 1
            return
        read, faults = self._read(message)
        if not read:
            self._refuse(filed, faults)
            return
        document = _document(message.value)
        marks = {name: mark for name in read if (mark := mark_of(name, document)) is not None}
        kin_of_readers = (name for name in faults if any(are_kin(name, reader) for reader in read))
        marked = next((name for name in kin_of_readers if not marks and mark_of(name, document) is not None), None)
        if marked is not None:  # a broken message of a format whose kin would read it
            self._refuse(filed, {marked: faults[marked]})
            return
        kin = frozenset(marks or read)
        group = self.found.groups.setdefault((kin, "" if len(kin) == 1 else filed.file), Group())
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
        self.found.unread_count += 1
        is_told = len(faults) == 1  # whatever the rest of the feed is
        self.found.faults.update(("" if is_told else name, reason) for name, (reason, _) in faults.items())
        if len(self.found.unread) < SHOWN_LINES:
            self.found.unread.append(Unread(filed.file, filed.line, faults))

    def _count(self, group: Group, events: Iterable[Event]) -> None:
        for event in events:
            if not isinstance(event, RowChange):
                group.controls[str(event.kind)] += 1
                continue
            place = (event.database, event.schema, event.table)
            if place not in group.tables and len(group.tables) >= MOST_TABLES:
                continue
            table = group.tables.setdefault(place, Table())
            table.keys = table.keys or event.keys
            if len(table.columns) < MOST_COLUMNS:
                table.columns.update(dict.fromkeys(event.after or event.before or ()))
            table.ops[f"{event.op} ({event.half} half)" if event.half else str(event.op)] += 1


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
