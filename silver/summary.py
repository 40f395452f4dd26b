"""What a decoded batch holds, seen in one pass over it: counts, extents and schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from silver import derived, fates


@dataclass(frozen=True, slots=True)
class Summary:
    """What a decoded batch holds of one source.

    `min_sequence` is without the tie-breakers, in which a redelivery differs: all that could be repeated is not below it.
    """

    source: str
    messages: int
    halves: int
    min_sequence: str | None
    min_event_time: datetime | None
    max_event_time: datetime | None
    servers: int
    open_to_repeats: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What a decoded batch holds.

    `counts` are what `derived.count_rows` counts of it, should every row be committed as it is; `schemas` are the columns'
    texts by `schema_id`.
    """

    counts: tuple[Row, ...]
    sources: tuple[Summary, ...]
    schemas: Mapping[str, str]

    @property
    def halves(self) -> int:
        """How many rows wait for their other half."""
        return sum(summary.halves for summary in self.sources)

    @property
    def open_to_repeats(self) -> int:
        """How many rows have a position that does not identify their change."""
        return sum(summary.open_to_repeats for summary in self.sources)

    def counts_in(self, batch: int) -> list[Row]:
        """The counts of a batch that commits every row as it is."""
        return [Row(batch=batch, **{name: row[name] for name in derived.COUNTED if name != "batch"}) for row in self.counts]


def contents_of(staged: DataFrame, landed_at: datetime | None) -> Contents:
    """Look at all rows once."""
    counted = (F.col("ordinal") == 0).cast("long") + F.col("paired_with").isNotNull().cast("long")
    place = F.coalesce("position", F.regexp_extract("sequence", r"^\d+\.", 0))
    of_sources = {
        "messages": F.sum(counted),
        "halves": F.count("half"),
        "min_place": F.min(place),
        "servers": F.count("server"),
        "open_to_repeats": F.count_if(fates.is_open_to_repeats()),
        "schemas": F.collect_set(F.when(F.col("columns").isNotNull(), F.struct("schema_id", "columns"))),
    }
    by = [name for name in derived.COUNTED_BY if name != "batch"]
    found = staged.groupBy(*by).agg(*derived.counting(landed_at), *(column.alias(name) for name, column in of_sources.items())).collect()
    schemas = {schema["schema_id"]: schema["columns"] for row in found for schema in row["schemas"]}
    return Contents(tuple(found), tuple(_sources(found)), schemas)


def _sources(rows: Iterable[Row]) -> Iterable[Summary]:
    by_source: dict[str, list[Row]] = {}
    for row in rows:
        by_source.setdefault(row["source"], []).append(row)
    for source, mine in by_source.items():
        yield Summary(
            source=source,
            messages=sum(row["messages"] for row in mine),
            halves=sum(row["halves"] for row in mine),
            min_sequence=min((row["min_place"] for row in mine if row["min_place"] is not None), default=None),
            min_event_time=min((row["min_event_time"] for row in mine if row["min_event_time"] is not None), default=None),
            max_event_time=max((row["max_event_time"] for row in mine if row["max_event_time"] is not None), default=None),
            servers=sum(row["servers"] for row in mine),
            open_to_repeats=sum(row["open_to_repeats"] for row in mine),
        )
