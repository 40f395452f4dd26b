"""Few messages that are decoded again in this process: Spark's jobs take longer than all of the work.

What `silver/operations/redecode.py` finds by joins of tables is found here among their rows, which are read
once. The messages are decoded and their outcomes decided by the functions that serve every batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from framework.contracts.ddl_actions import TableName
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import CHANGES_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID, QUARANTINE
from framework.lakehouse.file_commits import replace_files, takes_files
from framework.lakehouse.local_tables import in_micros
from framework.lakehouse.log_rows import file_of
from framework.lakehouse.recent_rows import few_rows
from silver.batches.arrival import BatchExtent, bytes_here
from silver.batches.decoded_again import FewAgain
from silver.batches.decoding import is_decoded_here
from silver.batches.few_landings import messages_here
from silver.batches.outcome_places import Message, Outcome, is_complete, messages_in, outcomes_in
from silver.batches.run_state import RunState
from silver.batches.staged_files import rows_of_batches
from silver.changes.staged_rows import STAGED, column_values

_TABLE = ("database", "schema", "table")
_Table = tuple[str | None, str | None, str | None]
_QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class FewMessages:
    """Messages that are decoded again.

    Attributes:
        arrived: The extent of those that can be decoded, which has them (`here`).
        gone: How many others there are, whose bytes or rows `forget` has removed.
        batches: The batch of each message.
        changes: All rows of `silver/changes` (CHANGES).
        commit: The newest commit of that table when its rows were read.
    """

    arrived: BatchExtent
    gone: int
    batches: Mapping[Message, int]
    changes: pa.Table
    commit: str | None

    @property
    def again(self) -> FewAgain:
        """The messages that can be decoded."""
        here = self.arrived.here
        return FewAgain(frozenset(() if here is None else column_values(here, *MESSAGE_ID)), self.changes)

    def outcomes(self, decided: pa.Table) -> pa.Table:
        """Decided rows (STAGED), as rows of `silver/changes` in the batches of their messages."""
        numbers = [self.batches.get(message) for message in column_values(decided, *MESSAGE_ID)]
        is_mine = pa.array([number is not None for number in numbers], pa.bool_())
        mine = decided.filter(is_mine).cast(STAGED)
        rows = rows_of_batches(mine, pa.array(numbers, pa.int64()).drop_null())
        return rows.cast(self.changes.schema)

    def tables(self, rows: pa.Table) -> list[TableName]:
        """All tables that the messages of new outcomes (CHANGES) had rows of before, or have now."""
        every = pa.concat_tables([self.changes.filter(self._is_replaced(rows)), rows])
        return [
            TableName(*name) for name in dict.fromkeys(column_values(every, *_TABLE)) if name[2] is not None
        ]

    def refusals(self, rows: pa.Table) -> tuple[int, int]:
        """How many rows of messages go to quarantine by new outcomes (CHANGES), and how many leave it."""
        was, now = _refused_in(self.changes.filter(self._is_replaced(rows))), _refused_in(rows)
        return len(now - was), len(was - now)

    def replace(self, spark: SparkSession, state: RunState, rows: pa.Table) -> bool:
        """Replace all outcomes of the messages of these rows (CHANGES) by them, in one commit.

        Returns whether that was possible. If not, nothing has happened.
        """
        lake, location = state.lake, state.lake.location(CHANGES_TABLE)
        if self.commit is None or not takes_files(spark, location, CHANGES):
            return False
        kept = self.changes.filter(pc.invert(self._is_replaced(rows)))
        with file_of(lake, pa.concat_tables([kept, rows])) as file:
            return replace_files(spark, location, CHANGES, file, self.commit)

    def _is_replaced(self, rows: pa.Table) -> pa.Array[pa.BooleanScalar]:
        """Which of the changes are outcomes of the messages of these rows."""
        replaced = messages_in(outcomes_in(rows))
        mask = [one.message in replaced and one.is_of_first_landing for one in outcomes_in(self.changes)]
        return pa.array(mask, pa.bool_())


def read_few(
    spark: SparkSession, state: RunState, source: str, tables: Mapping[TableName, str], with_unread: bool
) -> FewMessages | None:
    """The messages of these tables of a source, each from a sequence on (empty: all).

    `with_unread` adds messages of unknown tables that are not text in their encoding, and are not dismissed.

    None where Spark must find them: the tables of silver are large, or of an earlier release; coordinates
    repeat; a message is gone from bronze; or the messages are too many to be decoded in this process.
    """
    commit = state.lake.newest_commit(spark, CHANGES_TABLE)
    changes = few_rows(state.lake, CHANGES_TABLE, CHANGES)
    if changes is None:
        return None
    outcomes = outcomes_in(changes)
    placed = [
        (one, table, sequence)
        for one, table, sequence in zip(
            outcomes,
            column_values(changes, *_TABLE),
            changes.column("sequence").to_pylist(),
            strict=True,
        )
        if one.message[0] == source
    ]
    wanted = messages_in(one for one, table, sequence in placed if _is_from(tables, table, sequence))
    of_source = [one for one, *_ in placed]
    landed_again = any(not one.is_of_first_landing and one.message in wanted for one in of_source)
    if landed_again or not all(map(is_complete, messages_in(of_source))):
        return None
    unread = _unread(placed) - wanted if with_unread else set[Message]()
    if unread:
        refused = few_rows(state.lake, QUARANTINE_TABLE, QUARANTINE)
        if refused is None:
            return None
        unread -= _dismissed(refused)
    places = {message[: len(MESSAGE_AT)] for message in wanted | unread}
    found = messages_here(spark, state, source, places)
    if found is None or not wanted <= (known := set(column_values(found, *MESSAGE_ID))):
        return None
    wanted |= unread & known
    is_wanted = [message in wanted for message in column_values(found, *MESSAGE_ID)]
    found = found.filter(pa.array(is_wanted, pa.bool_()))
    forgotten = {one.message for one in of_source if one.reason == FORGOTTEN}
    readable = found.filter(pc.invert(_is_gone(found, forgotten)))
    if not is_decoded_here(found.num_rows, size := bytes_here(readable)):
        return None
    arrived = BatchExtent(readable.num_rows, _newest_landing(found), size=size, here=readable)
    batches = _batches(of_source, wanted)
    return FewMessages(arrived, found.num_rows - readable.num_rows, batches, changes, commit)


def _is_from(tables: Mapping[TableName, str], table: _Table, sequence: str | None) -> bool:
    """Whether a row is of one of these tables, from its sequence on."""
    database, schema, name = table
    since = None if name is None else tables.get(TableName(database, schema, name))
    return since is not None and (not since or (sequence is not None and sequence >= since))


def _unread(placed: Iterable[tuple[Outcome, _Table, str | None]]) -> set[Message]:
    """The messages of unknown tables that are not text in their encoding, and are not read since."""
    refused, read = set[Message](), set[Message]()
    for one, table, _ in placed:
        if one.kind == _QUARANTINED:
            if one.reason == Reason.ENCODING and table[2] is None:
                refused.add(one.message)
        elif one.is_of_first_landing:
            read.add(one.message)
    return refused - read


def _dismissed(refused: pa.Table) -> set[Message]:
    """The messages that somebody has dismissed, by the rows of `silver/quarantine` (QUARANTINE)."""
    places = column_values(refused, *MESSAGE_ID)
    times = refused.column("dismissed_at").to_pylist()
    return {message for message, time in zip(places, times, strict=True) if time is not None}


def _refused_in(changes: pa.Table) -> set[tuple[Message, int | None]]:
    """The rows of messages that these changes say are in quarantine."""
    outcomes = [one for one in outcomes_in(changes) if one.is_of_first_landing]
    refused, read = (
        {(one.message, one.ordinal) for one in outcomes if (one.kind == _QUARANTINED) is is_refused}
        for is_refused in (True, False)
    )
    return refused - read


def _batches(outcomes: list[Outcome], wanted: Collection[Message]) -> dict[Message, int]:
    """The last batch of each of these messages."""
    found: dict[Message, int] = {}
    for one in outcomes:
        for message in (one.message, one.partner):
            if message is not None and message in wanted and one.batch is not None:
                found[message] = max(one.batch, found.get(message, one.batch))
    return found


def _is_gone(messages: pa.RecordBatch, forgotten: Collection[Message]) -> pa.Array[pa.BooleanScalar]:
    """Whether `forget` removed the bytes of a message, or a row of it."""
    rows = column_values(messages, "key", "value", "headers", *MESSAGE_ID)
    is_gone = [
        tuple(message) in forgotten
        or (key is None and value is None and any(h["key"] == FORGOTTEN for h in headers or ()))
        for key, value, headers, *message in rows
    ]
    return pa.array(is_gone, pa.bool_())


def _newest_landing(messages: pa.RecordBatch) -> datetime | None:
    times = in_micros(pa.Table.from_batches([messages]).select(["ingested_at"]), ["ingested_at"])
    newest = pc.max(times.column("ingested_at")).as_py()
    return None if newest is None else TimestampType().fromInternal(newest)
