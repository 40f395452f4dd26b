"""The offsets of a broker's partitions: how far they reach, and how many of them have no message.

The step keeps this for each partition, so that a gap of the past is not looked for in all messages again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from framework.config.model import Config
from framework.contracts.expectations import Finding, Rule
from framework.contracts.quality import MOST_KEYS, Severity
from framework.contracts.table_names import MESSAGES_TABLE
from framework.quality.memory import Memory
from framework.text.formatting import quantity
from silver.batches.source_epochs import SourceEpochs

GAPS = Rule("offsets_without_gaps", "offset_gaps", severity=Severity.WARN)
NO_BROKER = Finding(GAPS, 0, 0, (), "no source has a broker's offsets")
PARTITION = ("source", "topic", "partition", "epoch")

Partition = tuple[str, str, int, int | None]
"""Source, topic, partition and epoch."""


class Span(NamedTuple):
    """The lowest and highest offset of a partition, and how many offsets between them have no message."""

    low: int
    high: int
    gap: int

    def joined(self, later: Span) -> Span | None:
        """The span of both; None where the other does not begin behind this one."""
        if later.low <= self.high:
            return None
        return Span(self.low, later.high, self.gap + later.gap + later.low - self.high - 1)


Spans = Mapping[Partition, Span]


def brokers(config: Config) -> list[str]:
    """The sources whose offsets are those of a broker. In files, an empty line has a number too."""
    return [name for name, source in config.sources.items() if source.kafka is not None]


def spans_of(offsets: pa.Table, partitions: Sequence[Partition]) -> dict[Partition, Span]:
    """The spans of messages: `place`, the number of a partition, and `offset`."""
    found = offsets.group_by("place").aggregate(
        [("offset", name) for name in ("min", "max", "count_distinct")]
    )
    return {
        partitions[row["place"]]: Span(
            row["offset_min"],
            row["offset_max"],
            row["offset_max"] - row["offset_min"] + 1 - row["offset_count_distinct"],
        )
        for row in found.to_pylist()
    }


def joined_spans(known: Spans, new: Spans) -> dict[Partition, Span] | None:
    """The spans of earlier and new messages; None where new ones may fill a gap of earlier ones."""
    found = dict(known)
    for place, span in new.items():
        whole = known[place].joined(span) if place in known else span
        if whole is None:
            return None
        found[place] = whole
    return found


def kept_spans(memory: Memory, epochs: SourceEpochs) -> Spans | None:
    """The spans of all messages that were judged; None where nothing is kept, or other sources counted."""
    if memory.is_first:
        return {}
    kept = memory.kept_offsets
    mark = memory.marks.get(MESSAGES_TABLE)
    if not kept or mark is None or kept["mark"] != list(mark) or kept["of"] != _sources(memory, epochs):
        return None
    return {(s, t, p, e): Span(*span) for s, t, p, e, *span in kept["spans"]}


def keep_spans(memory: Memory, epochs: SourceEpochs, spans: Spans) -> None:
    """Lets the memory keep the spans of all messages that there are now."""
    table = memory.table(MESSAGES_TABLE)
    if table is not None:
        listed = [[*place, *span] for place, span in spans.items()]
        memory.offsets = {"mark": list(table.mark), "of": _sources(memory, epochs), "spans": listed}


def told(spans: Spans, checked: int) -> Finding:
    """The finding for the spans of all messages, of which so many were looked at."""
    open_ = {place: span.gap for place, span in spans.items() if span.gap > 0}
    failed = sum(open_.values())
    keys = sorted(f"{source}/{topic}/{number}: {gap}" for (source, topic, number, _), gap in open_.items())
    detail = "compacted topics and transactions of producers leave gaps too" if failed else None
    observed = f"{quantity(failed, 'offset')} without a message"
    return Finding(GAPS, checked, failed, tuple(keys[:MOST_KEYS]), observed, detail)


def _sources(memory: Memory, epochs: SourceEpochs) -> list[object]:
    """What decides whose messages count: the sources that go on, and what happened to their epochs."""
    stopped = epochs.history.stopped_sources()
    names = sorted(name for name in brokers(memory.run.config) if name not in stopped)
    return [names, len(epochs.history.rows)]
