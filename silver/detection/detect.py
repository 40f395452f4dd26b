"""Detects the format of a feed: every decoder tries each message, and the results are the evidence.

A message that only one decoder reads is proof. Where several decoders read it, the signature of one format
decides (`silver/detection/signatures.py`). `silver/detection/evidence.py` draws the conclusion for the whole
feed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from framework.contracts.events import Event, RowChange
from framework.contracts.file_messages import FiledMessage
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed
from silver.decoding.format import Context, Format
from silver.decoding.json_reader import without_mark
from silver.detection.evidence import SHOWN_LINES, Evidence, Group, Table, Unread, conclusion
from silver.detection.key_candidates import MOST_CELLS
from silver.detection.signatures import share_envelope, signatures_of
from silver.detection.similarity import Likeness, Samples, no_samples

MOST_TABLES = 10_000
MOST_COLUMNS = 2_000
_TRIED_AT_FIRST = 50
_MOST_SHAPES = 1_000
_MOST_FAULTS = 50
_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])


def detect(
    messages: Iterable[FiledMessage],
    formats: Mapping[str, Format],
    source: str = "feed",
    samples: Samples = no_samples,
) -> dict[str, Any]:
    """The formats of these messages with their evidence, the files, and the lines that fit no format.

    `source` is the database of feeds that name none; `samples` gives the sample feed of a format.
    """
    detector = Detector(formats, source, samples)
    for filed in messages:
        detector.take(filed)
    found = conclusion(detector.found)
    for named in found["formats"]:
        missing = formats[named["name"]].missing_options
        named["modes"] = (
            {kind: list(modes) for kind, modes in formats[named["name"]].modes.items()}
            if named["is_bare"]
            else {}
        )
        named["options"] = {
            name: value for table in named["tables"] for name, value in missing(table["columns"]).items()
        }
    return found


@dataclass(slots=True)
class _Shape:
    """The formats that have read messages with one set of members, and how many such messages there were."""

    seen: int = 0
    readers: set[str] = field(default_factory=set)


class Detector:
    """Collects the evidence, message by message; `silver/detection/evidence.py` draws the conclusion."""

    def __init__(
        self, formats: Mapping[str, Format], source: str = "feed", samples: Samples = no_samples
    ) -> None:
        self.formats = formats
        self.contexts = {
            name: Context(source, fmt.options(), "UTC", lambda *_: None) for name, fmt in formats.items()
        }
        self.shapes: dict[tuple[str, ...], _Shape] = {}
        self.found = Evidence()
        self.likeness = Likeness(formats, samples)
        self.room = MOST_CELLS

    def take(self, filed: FiledMessage) -> None:
        """Adds one message to the evidence."""
        sets = self.found.files.setdefault(filed.file, Counter())
        if filed.fault is not None:
            self._refuse(filed, {"": ("unreadable", filed.fault)})
            return
        self.found.layouts[filed.layout] += 1
        message = filed.message
        if message.value is None:
            self.found.tombstones += 1
            return
        read, faults = self._read(message)
        if not read:
            self._refuse(filed, faults)
            return
        document = _document(message.value)
        related = [name for name in faults if any(share_envelope(self.formats, name, r) for r in read)]
        marks = signatures_of(self.formats, (*read, *related), document)
        signatures = {name: mark for name, mark in marks.items() if name in read}
        marked = next((name for name in marks if not signatures), None)
        if marked is not None:  # a broken message that another format with the same envelope would read
            self._refuse(filed, {marked: faults[marked]})
            return
        readers = frozenset(signatures or read)
        group = self.found.groups.setdefault((readers, "" if len(readers) == 1 else filed.file), Group())
        group.messages += 1
        group.signatures.update(signatures.values())
        sets[readers] += 1
        self._count(group, read[min(readers)])

    def _read(self, message: RawMessage) -> tuple[dict[str, list[Event]], dict[str, tuple[str, str]]]:
        """The events that each format reads, and why the others do not read the message.

        Formats that have never read messages with these members are no longer tried after a while.
        """
        shape = (
            self.shapes.setdefault(_members(message.value), _Shape())
            if len(self.shapes) < _MOST_SHAPES
            else _Shape()
        )
        shape.seen += 1
        likely = shape.readers if shape.seen > _TRIED_AT_FIRST and shape.readers else set(self.formats)
        read, faults = self._try(message, likely)
        if not read and likely != set(self.formats):
            read, faults = self._try(message, set(self.formats))
        shape.readers.update(read)
        return read, faults

    def _try(
        self, message: RawMessage, names: set[str]
    ) -> tuple[dict[str, list[Event]], dict[str, tuple[str, str]]]:
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
        cause = self.found.causes.of(filed)
        if cause is not None:
            self.found.faults["", str(cause)] += 1
            return
        near = self._near(filed.message.value) if len(faults) > 1 else frozenset(faults) - {""}
        if near:
            fault = faults[min(near)]
            seen = self.found.nearest.setdefault(near, Counter())
            seen[fault if fault in seen or len(seen) < _MOST_FAULTS else max(seen)] += 1
            self.found.faults["", fault[0]] += 1
        else:
            is_certain = len(faults) == 1  # the rest of the feed cannot change the reason
            self.found.faults.update(
                ("" if is_certain else name, reason) for name, (reason, _) in faults.items()
            )
        if len(self.found.unread) < SHOWN_LINES:
            self.found.unread.append(Unread(filed.file, filed.line, faults, near))

    def _near(self, value: bytes | None) -> frozenset[str]:
        """The formats that a message comes nearest to.

        These are the formats that read other messages of this feed with the same members, else those whose
        envelopes are similar. Among them, those whose signature the message has, else those of whose members
        it lacks fewest.
        """
        document = _document(value)
        shape = self.shapes.get(_members(value))
        near = (
            dict.fromkeys(shape.readers, 0)
            if shape and shape.readers
            else self.likeness.nearest(document)
            if document
            else {}
        )
        marked = frozenset(signatures_of(self.formats, near, document))
        return marked or frozenset(name for name, lacking in near.items() if lacking == min(near.values()))

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
            group.is_bare = group.is_bare or (
                bool(event.columns) and all(c.type is None for c in event.columns.values())
            )
            if len(table.columns) < MOST_COLUMNS:
                table.columns.update(dict.fromkeys(event.after or event.before or ()))
            if table.keys is None:
                self.room -= table.sample.take(event, self.room)
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
