"""`silver/pending` after a small batch: what `pending.merge_pending` does, without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from framework.contracts.table_names import PENDING_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID
from framework.lakehouse.file_commits import replace_files, takes_files
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.log_rows import file_of
from framework.spark.arrow_schemas import arrow_schema
from silver.batches.few_outcomes import waiting_halves
from silver.changes.pairing import OWN_TIME
from silver.changes.staged_rows import SETTLED_KINDS, DuplicateReason, column_values, plain_rows
from silver.epochs.event_clock import newest_believable

_COLUMNS = arrow_schema(CHANGES)
_TIME = pa.timestamp("us", tz="UTC")
_Message = tuple[Any, ...]


def replace_pending(
    spark: SparkSession,
    lake: Lakehouse,
    outcomes: pa.Table,
    landed_at: datetime | None,
    times: Mapping[str, datetime | None],
) -> bool:
    """Add the halves that wait from now on; remove those that do not wait any more.

    Args:
        spark: The session.
        lake: The lakehouse.
        outcomes: The outcomes of the batch, with the columns of `silver/changes`.
        landed_at: When the newest message of the batch landed.
        times: The newest event time of each source. A half whose own time is not believable waits from then.

    Returns:
        Whether that was possible. It is not where many halves wait, where only Spark can write the table, or
        where another process has written it meanwhile.
    """
    location, since = lake.location(PENDING_TABLE), lake.newest_commit(spark, PENDING_TABLE)
    waiting = waiting_halves(spark, lake) if takes_files(spark, location, CHANGES) else None
    if waiting is None or since is None:
        return False
    kept = after_batch(waiting, outcomes, landed_at, times)
    if kept is None:
        return True
    if not kept.num_rows:
        return replace_files(spark, location, CHANGES, None, since)
    with file_of(lake, kept) as file:
        return replace_files(spark, location, CHANGES, file, since)


def after_batch(
    waiting: pa.Table, outcomes: pa.Table, landed_at: datetime | None, times: Mapping[str, datetime | None]
) -> pa.Table | None:
    """The halves that wait after a batch (CHANGES); None where they are those that waited before it."""
    is_half = pc.equal(outcomes.column("kind"), pa.scalar("half"))
    halves = outcomes.filter(pc.and_(is_half, pc.is_valid(outcomes.column("half"))))
    gone, before = set(_settled(outcomes)), list(_messages(waiting))
    there = gone.union(before)
    stay = [at for at, message in enumerate(before) if message not in gone]
    come = [at for at, message in enumerate(_messages(halves)) if message not in there]
    if len(stay) == len(before) and not come:
        return None
    added = _since(halves.take(pa.array(come, pa.int64())), landed_at, times)
    return pa.concat_tables([waiting.take(pa.array(stay, pa.int64())).cast(_COLUMNS), added])


def _settled(outcomes: pa.Table) -> Iterator[_Message]:
    """The messages whose halves do not wait any more: of settled outcomes, and those paired with them."""
    names = ("kind", "reason", "paired_with", *MESSAGE_ID)
    for kind, reason, partner, *message in column_values(outcomes, *names):
        if kind in SETTLED_KINDS or (kind == "duplicate" and reason == DuplicateReason.UPDATE_COMPLETE):
            yield tuple(message)
            if partner is not None:
                yield (message[0], *(partner[name] for name in MESSAGE_AT[1:]), message[-1])


def _since(halves: pa.Table, landed_at: datetime | None, times: Mapping[str, datetime | None]) -> pa.Table:
    """Halves (CHANGES) that begin to wait: at their event time or, if that is not believable, at `times`."""
    newest, to_micros = newest_believable(landed_at), TimestampType().toInternal
    now = {source: to_micros(moment) for source, moment in times.items() if moment is not None}
    since: list[int | None] = []
    notes: list[str | None] = []
    for row in plain_rows(halves.select(["source", "event_time", "before", "after"])):
        own = row["event_time"]
        is_believable = own is not None and (newest is None or own <= newest)
        since.append(own if is_believable else now.get(row["source"]))
        notes.append(None if is_believable else json.dumps({OWN_TIME: own}, separators=(",", ":")))
    made = {"event_time": pa.array(since, pa.int64()).cast(_TIME), "detail": pa.array(notes, pa.string())}
    columns: list[Any] = [made.get(name, halves.column(name)) for name in _COLUMNS.names]
    return pa.Table.from_arrays(columns, names=_COLUMNS.names).cast(_COLUMNS)


def _messages(rows: pa.Table) -> Iterator[_Message]:
    """The messages (MESSAGE_ID) of rows."""
    return column_values(rows, *MESSAGE_ID)
