"""Messages that are decoded again: their old outcomes do not count while the new ones are decided."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID
from silver.batches import pending
from silver.batches.landings import outcomes_in_epochs
from silver.batches.outcome_places import Message, outcomes_in
from silver.batches.run_state import RunState
from silver.changes.pairing import OWN_TIME
from silver.changes.staged_rows import Row, column_values, plain_rows, staged_table


@dataclass(frozen=True, slots=True)
class FewAgain:
    """The messages that are decoded again, and all rows of `silver/changes`, where this process has them."""

    messages: Collection[Message]
    changes: pa.Table


@dataclass(frozen=True, slots=True)
class DecodedAgain:
    """Messages that are decoded again: as a frame (MESSAGE_ID), and `few` where this process has them."""

    messages: DataFrame
    few: FewAgain | None = None

    def others(self, changes: DataFrame, state: RunState) -> DataFrame:
        """Earlier changes without those of these messages."""
        known = state.source_epochs(changes.sparkSession)
        others = outcomes_in_epochs(changes, known).join(self.messages, list(MESSAGE_ID), "left_anti")
        return others.select(*changes.columns)

    def few_others(self, changes: pa.Table) -> pa.Table:
        """The same of rows of this process (CHANGES), where it has the messages."""
        own = () if self.few is None else self.few.messages
        is_other = [message not in own for message in column_values(changes, *MESSAGE_ID)]
        return changes.filter(pa.array(is_other, pa.bool_()))

    def marked(self, outcomes: DataFrame) -> DataFrame:
        """Outcomes with `is_replaced`: whether they are of these messages."""
        marked = outcomes.join(self.messages.withColumn("is_replaced", F.lit(True)), list(MESSAGE_ID), "left")
        return marked.withColumn("is_replaced", F.coalesce("is_replaced", F.lit(False)))

    def with_ended_waits(self, staged: DataFrame, state: RunState) -> DataFrame:
        """Decoded rows whose halves wait no more if their waiting was over (`pending.with_ended_waits`)."""
        held = state.lake.rows(staged.sparkSession, CHANGES_TABLE, CHANGES)
        held = outcomes_in_epochs(held, state.source_epochs(staged.sparkSession))
        return pending.with_ended_waits(staged, held, self.messages)


def few_with_ended_waits(staged: pa.Table, few: FewAgain) -> pa.Table:
    """`pending.with_ended_waits` of rows of this process (STAGED)."""
    ended = {
        message
        for one in outcomes_in(few.changes)
        if (one.half is not None or one.partner is not None)
        and (one.kind == "row" or one.reason in pending.REASONS_OF_HALVES)
        for message in (one.message, one.partner)
        if message is not None and message in few.messages
    }
    messages = zip(column_values(staged, *MESSAGE_ID), staged.column("half").to_pylist(), strict=True)
    is_over = pa.array([half is not None and message in ended for message, half in messages], pa.bool_())
    over = staged.filter(is_over)
    if not over.num_rows:
        return staged
    rest = staged.filter(pc.invert(is_over))
    return pa.concat_tables([rest, staged_table(map(_with_ended_wait, plain_rows(over)))])


def _with_ended_wait(row: Row) -> Row:
    note = json.dumps({OWN_TIME: row["event_time"]}, separators=(",", ":"))
    return {**row, "event_time": pending.LONG_AGO * 1_000_000, "detail": note}
