"""The earlier changes that a batch may repeat, or whose halves it may complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.recent_rows import rows_above
from silver.batches.contents import Summary
from silver.batches.few_outcomes import IS_UNPAIRED, MOST_BYTES, MOST_ROWS
from silver.batches.landings import outcomes_in_epochs
from silver.batches.outcomes import UNPAIRED, deadline_of, is_from
from silver.batches.run_state import Progress, RunState
from silver.changes.batch_summary import IDENTIFIED
from silver.changes.staged_rows import OF_FIRST_LANDING, column_values

_TIME = pa.timestamp("us", tz="UTC")
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EarlierChanges:
    """Changes of earlier batches, from a position of each source on.

    Attributes:
        frame: The changes (CHANGES), and the BEFORE halves that came alone.
        lowest: The sources, with the lowest sequence that counts.
        since: The first batch that can have such changes.
    """

    frame: DataFrame
    lowest: Mapping[str, str]
    since: int

    def read_few(self, state: RunState) -> pa.Table | None:
        """The changes in this process; None where they may be many, or only Spark reads the table."""
        rows = rows_above(
            state.lake, CHANGES_TABLE, ("batch", self.since - 1), CHANGES, (MOST_ROWS, MOST_BYTES)
        )
        if rows is None or rows.nbytes > MOST_BYTES:
            return None
        rows = rows.filter(pc.field("kind").isin(sorted(IDENTIFIED)) | IS_UNPAIRED)
        # a look-up: a condition for each source would nest as deeply as there are sources
        place = pc.index_in(rows.column("source"), value_set=pa.array(self.lowest, pa.string()))
        lowest = pa.array(self.lowest.values(), pa.string()).take(place)
        return rows.filter(pc.greater_equal(rows.column("sequence"), lowest))


def is_behind(summary: Summary, shown: Mapping[str, Progress]) -> bool:
    """Whether a batch has a position of the source that is not above those of earlier batches."""
    top = shown[summary.source].sequence if summary.source in shown else None
    return summary.min_sequence is not None and top is not None and summary.min_sequence <= top


def overdue_positions(
    waiting: pa.Table | DataFrame, deadlines: Mapping[str, datetime | None]
) -> dict[str, str]:
    """By source, the lowest position of the waiting halves (CHANGES) that are overdue.

    Args:
        waiting: The halves that wait, of this process or Spark.
        deadlines: By source, the time before which halves are overdue.
    """
    found: dict[str, str] = {}
    if not isinstance(waiting, pa.Table):
        overdue = waiting.where(F.col("event_time") < deadline_of(deadlines)).where("sequence IS NOT NULL")
        found.update(overdue.groupBy("source").agg(F.min("sequence")).collect())
        return found
    to_micros = TimestampType().toInternal
    ends = {source: to_micros(moment) for source, moment in deadlines.items() if moment is not None}
    since = waiting.column("event_time").cast(_TIME).cast(pa.int64()).to_pylist()
    for (source, sequence), moment in zip(column_values(waiting, "source", "sequence"), since, strict=True):
        if moment is not None and sequence is not None and moment < ends.get(source, moment):
            found[source] = min(sequence, found.get(source, sequence))
    return found


def earlier_changes(
    spark: SparkSession,
    state: RunState,
    summaries: Sequence[Summary],
    shown: Mapping[str, Progress],
    overdue: Mapping[str, str] = _NOTHING,
) -> EarlierChanges | None:
    """The earlier changes that matter to a batch; None if all its positions are higher.

    Args:
        spark: The session.
        state: The state of the run.
        summaries: What the batch has of each source.
        shown: How far each source has come in the earlier batches.
        overdue: By source, the lowest position of the waiting halves that are overdue.
    """
    lowest = {each.source: each.min_sequence or "" for each in summaries if is_behind(each, shown)}
    lowest |= {source: min(place, lowest.get(source, place)) for source, place in overdue.items()}
    if not lowest or not state.lake.exists(spark, CHANGES_TABLE):  # counts remain where changes are lost
        return None
    changes = state.lake.read(spark, CHANGES_TABLE).where(is_from(lowest))
    since = state.first_batch_from(lowest)
    if since:
        changes = changes.where(F.col("batch") >= since)
    return EarlierChanges(changes.where(F.col("kind").isin(*IDENTIFIED) | F.expr(UNPAIRED)), lowest, since)


def outcomes_near(
    spark: SparkSession, state: RunState, lowest: Mapping[str, str], since: int = 0
) -> DataFrame:
    """All outcomes (CHANGES) from a sequence of each source on, and those without one, as tombstones.

    Without those of messages that landed again.

    Args:
        spark: The session.
        state: The state of the run.
        lowest: The sources, with the lowest sequence that counts.
        since: The first batch that can have such outcomes.
    """
    is_unplaced = F.col("source").isin(*lowest) & F.col("sequence").isNull()
    near = state.lake.rows(spark, CHANGES_TABLE, CHANGES).where(is_from(lowest) | is_unplaced)
    if since:
        near = near.where(F.col("batch") >= since)
    return outcomes_in_epochs(near.where(OF_FIRST_LANDING), state.source_epochs(spark))
