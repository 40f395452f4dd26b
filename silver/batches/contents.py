"""What a decoded batch holds, measured in one pass: counts, extents and schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from silver.batches import batch_counts, outcomes
from silver.batches.encodings import WAITING_REASONS
from silver.values.sequence import epoch_part_sql


@dataclass(frozen=True, slots=True)
class Summary:
    """What a decoded batch holds of one source.

    `min_sequence` has no tie-breakers, because a redelivery has other ones, and counts other deliveries that
    a change can have had (`earliest`): no possible duplicate is below it.
    """

    source: str
    messages: int
    halves: int
    min_sequence: str | None
    min_event_time: datetime | None
    max_event_time: datetime | None
    servers: int
    ambiguous_positions: int
    in_partitions: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What a decoded batch holds.

    `counts` are what `batch_counts.count_rows` would count if every row were committed unchanged. `schemas`
    are the ids of the schemas; their columns stay with the rows. `evidence` is, by source, what the values
    show of their encodings.
    """

    counts: tuple[Row, ...]
    sources: tuple[Summary, ...]
    schemas: frozenset[str]
    evidence: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def waiting(self) -> frozenset[str]:
        """The sources with messages that can be read in several ways."""
        return frozenset(row["source"] for row in self.counts if row["reason"] in WAITING_REASONS)

    @property
    def halves(self) -> int:
        """How many rows are halves of updates."""
        return sum(summary.halves for summary in self.sources)

    @property
    def ambiguous_positions(self) -> int:
        """How many rows have a position that does not identify their change."""
        return sum(summary.ambiguous_positions for summary in self.sources)

    @property
    def in_partitions(self) -> int:
        """How many rows are ordered by their partition."""
        return sum(summary.in_partitions for summary in self.sources)

    def counts_in(self, batch: int) -> list[Row]:
        """The rows of `ops/batches` for these rows, if the batch commits all of them as they are."""
        return [
            Row(batch=batch, **{name: row[name] for name in batch_counts.COUNTED if name != "batch"})
            for row in self.counts
        ]


def contents_of(staged: DataFrame, landed_at: datetime | None) -> Contents:
    """Measure all decoded rows (STAGED) in one pass."""
    counted = (F.col("ordinal") == 0).cast("long") + F.col("paired_with").isNotNull().cast("long")
    is_timeless = F.col("block").isNotNull() & F.col("event_time").isNull()  # only its offset identifies it
    place = F.when(~is_timeless, F.coalesce("earliest", "position", F.expr(epoch_part_sql("sequence"))))
    of_sources = {
        "messages": F.sum(counted),
        "halves": F.count("half"),
        "min_place": F.min(place),
        "servers": F.count("server"),
        "ambiguous_positions": F.count_if(outcomes.has_ambiguous_position()),
        "in_partitions": F.count("block"),
        "schemas": F.collect_set(F.when(F.col("columns").isNotNull(), F.col("schema_id"))),
        "evidence": F.collect_set("evidence"),
    }
    by = [name for name in batch_counts.COUNTED_BY if name != "batch"]
    found = (
        staged.groupBy(*by)
        .agg(*batch_counts.counting(landed_at), *(column.alias(name) for name, column in of_sources.items()))
        .collect()
    )
    schemas = frozenset(schema for row in found for schema in row["schemas"])
    return Contents(tuple(found), tuple(_sources(found)), schemas, _evidence(found))


def _evidence(rows: Iterable[Row]) -> Mapping[str, frozenset[str]]:
    texts: dict[str, set[str]] = {}
    for row in rows:
        for text in row["evidence"]:
            texts.setdefault(row["source"], set()).update(text.split(";"))
    return {source: frozenset(found) for source, found in texts.items()}


def _sources(rows: Iterable[Row]) -> Iterable[Summary]:
    by_source: dict[str, list[Row]] = {}
    for row in rows:
        by_source.setdefault(row["source"], []).append(row)
    for source, mine in by_source.items():
        yield Summary(
            source=source,
            messages=sum(row["messages"] for row in mine),
            halves=sum(row["halves"] for row in mine),
            min_sequence=min(
                (row["min_place"] for row in mine if row["min_place"] is not None), default=None
            ),
            min_event_time=min(
                (row["min_event_time"] for row in mine if row["min_event_time"] is not None), default=None
            ),
            max_event_time=max(
                (row["max_event_time"] for row in mine if row["max_event_time"] is not None), default=None
            ),
            servers=sum(row["servers"] for row in mine),
            ambiguous_positions=sum(row["ambiguous_positions"] for row in mine),
            in_partitions=sum(row["in_partitions"] for row in mine),
        )
