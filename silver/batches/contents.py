"""What a decoded batch holds: counts, extents, schemas, and whether changes may occur twice in it.

It is gathered while the messages are decoded (`silver/changes/batch_summary.py`), and put together here
without another look at the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from framework.contracts.change_measures import joined_texts, measures_of_text
from silver.batches import batch_counts
from silver.batches.encodings import WAITING_REASONS
from silver.changes.batch_summary import GROUPED_BY, OPEN_HALF, summary_of, without_halves
from silver.changes.change_measures import MEASURED_BY, Measured
from silver.changes.staged_rows import STAGED

pc: Any = pyarrow.compute
_ADDED = (
    "rows", "merged", "snapshots", "messages", "halves", "ambiguous_positions", "in_partitions",
)  # fmt: skip
_ENDS: Mapping[str, Callable[..., Any]] = {
    "min_sequence": min, "max_sequence": max, "min_event_time": min, "max_event_time": max,
    "min_place": min, "min_server": min, "max_server": max, "server_sequence": max,
}  # fmt: skip
_LISTS = ("schemas", "evidence")
_TIMES = ("min_event_time", "max_event_time")


@dataclass(frozen=True, slots=True)
class Extent:
    """Where the whole changes of a source in one Arrow batch begin and end (EXTENTS).

    `may_repeat` says that one of its changes may occur twice in it, or has no place.
    """

    source: str
    low: str | None
    high: str | None
    may_repeat: bool
    first: str | None = None
    last: str | None = None
    oldest: int | None = None
    newest: int | None = None
    fall: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a decoded batch holds of one source.

    `min_sequence` has no tie-breakers, because a redelivery has other ones, and counts other deliveries that
    a change can have had (`earliest`): no possible duplicate is below it. `servers` are the first and last by
    name of those that wrote its rows.
    """

    source: str
    messages: int
    halves: int
    min_sequence: str | None
    min_event_time: datetime | None
    max_event_time: datetime | None
    servers: frozenset[str]
    ambiguous_positions: int
    in_partitions: int


@dataclass(frozen=True, slots=True, eq=False)
class FewRows:
    """Decoded rows that this process holds.

    Attributes:
        frame: The rows, for Spark.
        rows: The same rows (STAGED).
        messages: What they are decoded from, with the columns of `landings.identify`.
    """

    frame: DataFrame
    rows: pa.Table
    messages: pa.Table


@dataclass(frozen=True, slots=True)
class Contents:
    """What a decoded batch holds.

    `counts` are what `batch_counts.count_rows` would count if every row were committed unchanged. `schemas`
    are the ids of the schemas; their columns stay with the rows. `evidence` is, by source, what the values
    show of their encodings. `may_hold_repeats` is false if no change occurs twice in the batch. `falls` is,
    by source, by how much at most a row change is older than one with a lower sequence, without the sources
    of which this is unknown. `files` are Parquet files in the columns of `silver/changes`, where tasks have
    written them: with all rows but open halves, which are in `half_files`. `refused_files` have the
    quarantined messages with their bytes. `few` are the rows, where this process holds them.
    """

    counts: tuple[Row, ...]
    sources: tuple[Summary, ...]
    schemas: frozenset[str]
    evidence: Mapping[str, frozenset[str]] = field(default_factory=dict)
    may_hold_repeats: bool = True
    falls: Mapping[str, timedelta] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    half_files: tuple[str, ...] = ()
    refused_files: tuple[str, ...] = ()
    few: FewRows | None = None

    @property
    def measured(self) -> Measured:
        """What was measured of the row changes of each table."""
        return {
            tuple(row[name] for name in MEASURED_BY): measures
            for row in self.counts
            if (measures := measures_of_text(row["measures"])) is not None
        }

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

    def rows_here(self, decoded: DataFrame) -> pa.Table | None:
        """The rows (STAGED) of a frame; None where this process does not hold them."""
        return self.few.rows if self.few is not None and self.few.frame is decoded else None

    def counts_in(self, batch: int, outcomes: Contents | None = None) -> list[Row]:
        """The rows of `ops/batches` for these rows, if the batch commits them as they are.

        `outcomes` are what became of the open halves; None where there are none.
        """
        rows = [row for row in self.counts if row["kind"] != OPEN_HALF]
        counts = _merged([*rows, *outcomes.counts]) if outcomes is not None else rows
        return [
            Row(batch=batch, **{name: row[name] for name in batch_counts.COUNTED if name != "batch"})
            for row in counts
        ]


@dataclass(frozen=True, slots=True)
class Committed:
    """What is known of a committed batch without a look at it.

    Attributes:
        counts: Its counts; empty where they are not known.
        refused_files: Files with its quarantined messages, where all of them are there.
        outcomes: Its outcomes (STAGED), where this process holds them.
    """

    counts: Sequence[Row] = ()
    refused_files: tuple[str, ...] = ()
    outcomes: pa.Table | None = None


NOTHING_KNOWN = Committed()


def read_contents(decoded: DataFrame) -> Contents:
    """The contents of decoded rows (STAGED) of which the first of each Arrow batch has a `summary`."""
    summaries = decoded.where(F.col("summary").isNotNull())
    found = (
        summaries.select(F.inline("summary.groups"))
        .groupBy(*GROUPED_BY)
        .agg(
            *(F.sum(name).alias(name) for name in _ADDED),
            *((F.min if end is min else F.max)(name).alias(name) for name, end in _ENDS.items()),
            F.max_by("server", "server_sequence").alias("server"),
            *(F.flatten(F.collect_set(name)).alias(name) for name in _LISTS),
            F.collect_list("measures").alias("measures"),
        )
        .collect()
    )
    found = [Row(**{**row.asDict(), "measures": _joined(row["measures"])}) for row in found]
    extents = summaries.select(F.inline("summary.extents")).collect()
    return _contents(found, [Extent(*row) for row in extents])


def contents_of_summaries(summaries: pa.ChunkedArray[Any]) -> Contents:
    """The same in this process, where the summaries are few."""
    column: Any = summaries.drop_null().combine_chunks()
    groups, extents = (
        pa.Table.from_struct_array(pc.list_flatten(pc.struct_field(column, name)))
        for name in ("groups", "extents")
    )
    return _contents(_merged(_group_rows(groups)), [Extent(**row) for row in extents.to_pylist()])


def _group_rows(groups: pa.Table) -> list[Row]:
    """Groups (GROUPS) as rows, with times as Spark gives them."""
    to_time = TimestampType().fromInternal
    for name in _TIMES:
        place = groups.schema.get_field_index(name)
        groups = groups.set_column(place, name, groups.column(place).cast(pa.int64()))
    return [Row(**{**row, **{name: to_time(row[name]) for name in _TIMES}}) for row in groups.to_pylist()]


def _merged(counts: Sequence[Row]) -> list[Row]:
    """The counts, with those of the same table, kind and reason as one."""
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for row in counts:
        groups.setdefault(tuple(row[name] for name in GROUPED_BY), []).append(row)
    return [rows[0] if len(rows) == 1 else _one_of(rows) for rows in groups.values()]


def _one_of(rows: Sequence[Row]) -> Row:
    found: dict[str, Any] = {name: sum(row[name] for row in rows) for name in _ADDED}
    for name, choose in _ENDS.items():
        found[name] = choose((row[name] for row in rows if row[name] is not None), default=None)
    for name in _LISTS:
        found[name] = sorted({value for row in rows for value in row[name] or ()})
    found["server"] = max(rows, key=lambda row: row["server_sequence"] or "")["server"]
    found["measures"] = _joined([row["measures"] or "" for row in rows])
    return Row(**{**rows[0].asDict(), **found})


def _joined(texts: Sequence[str]) -> str | None:
    """The measures of all Arrow batches as one text; None where one of them has none."""
    return joined_texts(texts) or None


def contents_of(
    rows: Iterable[pa.RecordBatch], believable: int | None, *, are_decided: bool = False
) -> Contents:
    """The contents of decoded rows (STAGED) in this process: few, so that gold measures them itself.

    Args:
        rows: The rows, as one batch or several.
        believable: The newest event time that counts, in microseconds since the Unix epoch; None if all do.
        are_decided: Whether it is decided what becomes of halves of updates: then each counts as its kind.
    """
    table = pa.Table.from_batches(rows, schema=STAGED).combine_chunks()
    if not table.num_rows:
        return _contents((), ())
    (batch,) = table.to_batches()
    groups, extents = summary_of(without_halves(batch) if are_decided else batch, believable)
    return _contents(_group_rows(groups), [Extent(**row) for row in extents.to_pylist()])


def _contents(groups: Sequence[Row], extents: Sequence[Extent]) -> Contents:
    schemas = frozenset(schema for row in groups for schema in row["schemas"] or ())
    return Contents(
        tuple(groups),
        tuple(_sources(groups)),
        schemas,
        evidence_by_source(groups),
        may_hold_repeats(extents),
        falls(extents),
    )


def may_hold_repeats(extents: Iterable[Extent]) -> bool:
    """Whether a change may occur twice among Arrow batches with these extents.

    It cannot where no Arrow batch has a change twice, and those of a source follow each other.
    """
    by_source: dict[str, list[Extent]] = {}
    for extent in extents:
        if extent.may_repeat:
            return True
        by_source.setdefault(extent.source, []).append(extent)
    for mine in by_source.values():
        placed = [(extent.low, extent.high) for extent in mine if extent.low is not None]
        placed.sort()
        top = ""
        for low, high in placed:
            if top and low <= top:
                return True
            top = max(top, high or "")
    return False


def falls(extents: Iterable[Extent]) -> dict[str, timedelta]:
    """By how much at most a row change is older than one with a lower sequence, by source.

    Without the sources of which Arrow batches with these extents do not show it: one has a change without a
    certain time, or they overlap.
    """
    by_source: dict[str, list[Extent]] = {}
    for extent in extents:
        if extent.first is not None:
            by_source.setdefault(extent.source, []).append(extent)
    found = {source: _fall(mine) for source, mine in by_source.items()}
    return {source: timedelta(microseconds=fall) for source, fall in found.items() if fall is not None}


def _fall(extents: Iterable[Extent]) -> int | None:
    top, newest, most = "", None, 0
    for extent in sorted(extents, key=lambda found: found.first or ""):
        if (
            extent.fall is None
            or extent.oldest is None
            or extent.newest is None
            or (extent.first or "") < top
        ):
            return None
        most = max(most, extent.fall, 0 if newest is None else newest - extent.oldest)
        newest = extent.newest if newest is None else max(newest, extent.newest)
        top = extent.last or ""
    return most


def evidence_by_source(rows: Iterable[Row]) -> Mapping[str, frozenset[str]]:
    """What values show of their encodings, by source, from rows with `source` and `evidence` (texts)."""
    texts: dict[str, set[str]] = {}
    for row in rows:
        for text in row["evidence"] or ():
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
            servers=frozenset(
                row[end] for row in mine for end in ("min_server", "max_server") if row[end] is not None
            ),
            ambiguous_positions=sum(row["ambiguous_positions"] for row in mine),
            in_partitions=sum(row["in_partitions"] for row in mine),
        )
