"""The format that an unreadable message is most similar to: it shares the most of that envelope.

A format's envelope is the set of members in its sample messages beside the columns of their rows, as paths
(`payload.op`). A path that few formats have weighs more than one that many have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from framework.contracts.events import RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed
from silver.decoding.format import Context, Format
from silver.decoding.json_reader import without_mark

_MOST_MESSAGES = 60
_DEPTH = 3
_LEAST = 1.0
"""The least weight of the shared paths: two paths that two formats have, or one that a single format has."""

Samples = Callable[[str], str | None]
"""Gives the sample feed of a format, one message in each line."""


def no_samples(name: str) -> str | None:
    """No sample feeds: no message is similar to any format then."""
    return None


class Likeness:
    """Compares messages with the envelopes of all formats. Reads the samples when the first message comes."""

    def __init__(self, formats: Mapping[str, Format], samples: Samples) -> None:
        self.formats, self.samples = formats, samples
        self._envelopes: dict[str, frozenset[str]] | None = None
        self._weights: dict[str, float] = {}

    def nearest(self, document: object) -> dict[str, int]:
        """The formats that share most with a document, with how many of their paths it lacks.

        Empty where the document shares too little with every format.
        """
        envelopes = self._read()
        paths = frozenset(_paths(_unwrapped(document), frozenset()))
        scores = {name: self._score(paths, envelope) for name, envelope in envelopes.items()}
        best = max((score for score, _ in scores.values()), default=0.0)
        if best < _LEAST:
            return {}
        return {name: lacking for name, (score, lacking) in scores.items() if score >= best - 1e-9}

    def _score(self, paths: frozenset[str], envelope: frozenset[str]) -> tuple[float, int]:
        """The weight of the shared paths, and how many paths of the samples the message lacks."""
        return sum(self._weights[path] for path in paths & envelope), len(envelope - paths)

    def _read(self) -> dict[str, frozenset[str]]:
        if self._envelopes is None:
            self._envelopes = {
                name: _envelope(fmt, self.samples(name) or "") for name, fmt in self.formats.items()
            }
            counts = Counter(path for envelope in self._envelopes.values() for path in envelope)
            self._weights = {path: 1 / count for path, count in counts.items()}
        return self._envelopes


def _unwrapped(document: object) -> object:
    """The payload of a document that a Kafka Connect converter wrapped; any other document as it is."""
    is_wrapped = (
        isinstance(document, dict) and "payload" in document and document.keys() <= {"schema", "payload"}
    )
    return document["payload"] if is_wrapped and isinstance(document, dict) else document


def _envelope(fmt: Format, sample: str) -> frozenset[str]:
    context = Context("feed", fmt.options(), "UTC", lambda *_: None)
    columns: set[str] = set()
    documents: list[object] = []
    for value in _values(sample):
        try:
            documents.append(msgspec.json.decode(value))
            events = fmt.decode(RawMessage("feed", "crm.shop.orders", 0, 0, None, None, value), context)
        except (Malformed, msgspec.DecodeError):
            continue
        rows = [event for event in events if isinstance(event, RowChange)]
        columns.update(name for row in rows for name in (*(row.before or {}), *(row.after or {})))
    return frozenset(
        path for document in documents for path in _paths(_unwrapped(document), frozenset(columns))
    )


def _values(sample: str) -> Iterable[bytes]:
    """The messages of a sample, without what `kcat -J` adds to them."""
    for line in sample.splitlines()[:_MOST_MESSAGES]:
        try:
            document = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        is_kcat = (
            isinstance(document, dict) and {"topic", "partition", "offset", "payload"} <= document.keys()
        )
        value = document["payload"] if is_kcat else line
        if isinstance(value, str):
            yield without_mark(value.encode())


def _paths(document: object, columns: frozenset[str], above: str = "", depth: int = 0) -> Iterator[str]:
    if not isinstance(document, dict) or depth >= _DEPTH:
        return
    members: dict[str, Any] = document
    for name, value in members.items():
        if name not in columns:
            yield above + name
            yield from _paths(value, columns, f"{above}{name}.", depth + 1)
