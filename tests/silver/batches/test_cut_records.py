"""Rows of a record that reach silver in parts give what they give in one batch.

Between equal rows of a table without a key there are rows of other tables, of excluded ones, tombstones and
heartbeats. A third of the records are snapshots without a position, each in an epoch of its own. The messages
are cut anywhere, some rows are refused and replayed, and any part is decoded again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.quarantine_reasons import Reason
from silver.batches.known_runs import EarlierOutcomes
from silver.batches.outcomes import duplicate_ids, resolve_duplicates
from silver.changes.change_id import digest
from silver.changes.deduplication import deduplicate
from silver.changes.pairing import NEW
from silver.changes.record_runs import note_runs
from silver.changes.staged_rows import STAGED, Row, as_excluded, as_refused, plain_rows, staged_table
from silver.values.sequence import number_part

LOG, ORDERS, EXCLUDED, TOMBSTONE, HEARTBEAT = "log", "orders", "tmp", "tombstone", "heartbeat"


def message(offset: int, place: int, table: str, value: str = "a") -> Row:
    """A row of a table at the position of a record, as it is decoded; a row of `log` has no key."""
    row: Row = dict.fromkeys(STAGED.names)
    is_read = place % 3 == 0
    row.update(source="feed", format="maxwell", topic="t", partition=0, offset=offset, ordinal=0)
    row["epoch"] = place + 2 if is_read else 1
    if table in (TOMBSTONE, HEARTBEAT):
        return {**row, "kind": table, "op": table, "change_id": digest((table, str(offset)))}
    position = None if is_read else f"011.011.03{place + 100}"
    head = position or f"{number_part(row['epoch'])}.010"
    named = {"database": "shop", "table": table, "op": "read" if is_read else "insert", "kind": "row"}
    is_log = table == LOG
    tie = f".t.010.{number_part(offset)}.010" if is_log or is_read else ""
    row.update(named, position=position, sequence=head + tie, is_of_record=is_log, partial=False)
    row.update(keys=None if is_log else ["id"], after={"v": value} if is_log else {"id": str(offset)})
    row["change_id"] = digest((table, head, *row["after"].values()))
    return as_excluded(row) if table == EXCLUDED else row


def decoded(messages: Sequence[Row], draw: Random) -> list[Row]:
    """The messages in Arrow batches, which are cut anywhere."""
    rows, left = list[Row](), [dict(row) for row in messages]
    while left:
        size = draw.randint(1, 4)
        note_runs(left[:size])
        rows += left[:size]
        left = left[size:]
    return rows


def drawn_record(draw: Random, place: int, start: int) -> list[Row]:
    """A record, and up to two more deliveries of it or of its begin, with a gap between."""
    between = [ORDERS, EXCLUDED, TOMBSTONE, HEARTBEAT]
    kinds = draw.choices([LOG, *between], [5, 2, 2, 2, 1], k=draw.randint(2, 9))
    values = draw.choices("aab", k=len(kinds))
    found: list[Row] = []
    for length in draw.choice([[9], [9, 9], [1, 9], [3, 9], [9, 3], [2, 4, 9]]):
        # a tombstone belongs to the row before it
        found += [message(start + n, place, *kind) for n, kind in enumerate(zip(kinds, values, strict=True))][
            :length
        ]
        start += length + 3
    return found


@dataclass
class Silver:
    """The outcomes that are committed."""

    spark: SparkSession
    draw: Random
    refused: Callable[[Row], bool] = lambda row: False
    outcomes: list[Row] = field(default_factory=list)

    def take(self, messages: Sequence[Row], *, again: bool = False) -> None:
        """Commit the outcomes of messages: as a batch or a replay, or in place of those that they have."""
        offsets = {row["offset"] for row in messages}
        whole = self._frame(decoded(messages, self.draw))
        known = self._frame(
            row for row in self.outcomes if row["kind"] == "row" and not (again and row["offset"] in offsets)
        )
        near = self._frame(self.outcomes).withColumn(
            "is_replaced", F.lit(again) & F.col("offset").isin(*offsets)
        )
        history = EarlierOutcomes(*(self._as_stored(frame) for frame in (known, near)))
        found = resolve_duplicates(whole, duplicate_ids(whole, known), history, 1).toArrow()
        kept = [row for row in self.outcomes if row["offset"] not in offsets]
        new = [
            as_refused(row, Reason.RULE_BROKEN, "a rule")
            if row["kind"] == "row" and self.refused(row)
            else row
            for row in plain_rows(found)
        ]
        assert {row["offset"] for row in new} == offsets
        self.outcomes = kept + new

    def _frame(self, rows: Iterable[Row]) -> DataFrame:
        return self.spark.createDataFrame(staged_table([{n: row[n] for n in STAGED.names} for row in rows]))

    def _as_stored(self, frame: DataFrame) -> DataFrame:
        return frame.drop("run", "run_end").withColumn("position", F.lit(None).cast("string"))


def rows_of(outcomes: Iterable[Row]) -> Counter[tuple[str, str]]:
    found = [row for row in outcomes if row["kind"] == "row"]
    return Counter((f"{row['epoch']} {row['position']}", row["change_id"]) for row in found)


def in_one_batch(messages: Sequence[Row]) -> Counter[tuple[str, str]]:
    rows = [dict(row) for row in messages]
    note_runs(rows)
    groups: dict[tuple[str, int, str | None], list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "row":
            groups[row["table"], row["epoch"], row["position"]].append({**row, "origin": NEW})
    found = [row for (table, *_), group in groups.items() if table == LOG for row in deduplicate(group)]
    orders = {row["change_id"]: row for (table, *_), group in groups.items() if table != LOG for row in group}
    return rows_of([*found, *orders.values()])


@pytest.mark.slow
def test_where_records_are_cut_and_what_is_decoded_again_makes_no_difference(spark: SparkSession) -> None:
    draw = Random(11)
    records = [drawn_record(draw, place, 100 * place) for place in range(150)]
    every = [row for record in records for row in record]
    cut: list[list[Row]] = [[], [], []]
    for record in records:
        one, two = sorted(draw.choices(range(len(record) + 1), k=2))
        for batch, part in zip(cut, (record[:one], record[one:two], record[two:]), strict=True):
            batch += part
    broken = set(draw.sample(range(150), 40))
    silver = Silver(spark, draw, lambda row: row["table"] == LOG and row["offset"] // 100 in broken)
    for batch in cut:
        silver.take(batch)
    expected = in_one_batch(every)
    of_log = {row["offset"] for row in every if row["table"] == LOG}
    assert max(Counter(place for place, _ in expected).values()) > 4
    assert rows_of(silver.outcomes) < expected

    silver.refused = lambda row: False
    refused = {row["offset"] for row in silver.outcomes if row["kind"] == "quarantined"}
    silver.take([row for row in every if row["offset"] in refused])
    assert rows_of(silver.outcomes) == expected
    silver.take([row for row in every if row["offset"] in of_log], again=True)
    assert rows_of(silver.outcomes) == expected
    silver.take([row for row in every if row["table"] == ORDERS or draw.random() < 0.3], again=True)
    assert rows_of(silver.outcomes) == expected
