"""What silver does with batches of a source's messages, in this process: all but the tables and Spark's jobs.

The steps are those of `silver/batches/decisions.py`, with the same functions where these need no Spark; the
few steps that only Spark has are written out here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from framework.contracts.full_loads import epoch_part
from framework.contracts.table_schemas import CHANGES
from silver.batches import few_outcomes
from silver.batches.contents import Contents, contents_of_summaries
from silver.batches.few_pending import after_batch
from silver.batches.partition_progress import PartitionProgress, blocks_in, plan_of
from silver.batches.staged_files import rows_of_batch
from silver.changes.adjacent_halves import SHARED_POSITIONS
from silver.changes.batch_summary import IDENTIFIED, with_summaries
from silver.changes.change_id import key_values
from silver.changes.decode import SourcePlan, arrow_decoder
from silver.changes.deduplication import deduplicate
from silver.changes.pairing import KNOWN, NEW, REPEATED
from silver.changes.record_runs import record_of
from silver.changes.staged_rows import STAGED, Row, plain_rows, staged_table
from silver.values.sequence import reached_position, with_position
from tests.silver.changes.small_source import KEYED, KEYLESS, Image

_PLACE = ("source", "database", "schema", "table")
_UNPAIRED = ("quarantined", "unpaired_before_image")


@dataclass
class Silver:
    """The outcomes of a source's messages, batch by batch.

    Attributes:
        plan: What is known of the source, whose name is `feed`.
        timeout: How long halves wait.
        rows: All outcomes (STAGED).
        waiting: The halves that wait (CHANGES).
    """

    plan: SourcePlan
    timeout: timedelta = timedelta(days=1)
    rows: list[Row] = field(default_factory=list)
    waiting: pa.Table = field(default_factory=lambda: to_arrow_schema(CHANGES).empty_table())
    tops: dict[tuple[str, str, int, str], PartitionProgress] = field(default_factory=dict)
    batches: int = 0
    lowest: str = ""

    def take(self, batches: Sequence[pa.RecordBatch]) -> list[Row]:
        """One batch of messages, in Arrow batches; its outcomes."""
        self.batches += 1
        staged, contents = self._decoded(batches)
        self._raise(staged)
        newest = [row["event_time"] for row in (*self.rows, *staged) if row["event_time"] is not None]
        last = None if not newest else datetime.fromtimestamp(max(newest) / 1_000_000, UTC)
        overdue = {"feed": None if last is None else last - self.timeout}
        history = self._history(contents, overdue["feed"])
        whole = [row for row in staged if row["half"] is None]
        found = self._without_repeats(whole, history, contents)
        if self.plan.format.halves:
            shared = {"feed" for row in self.rows if row["evidence"] == SHARED_POSITIONS}
            known = None if history is None else staged_table(history)
            paired = few_outcomes.pair_halves(staged_table(staged), self.waiting, known, overdue, shared)
            assert paired is not None
            found += plain_rows(paired)
        outcomes = staged_table(found)
        waiting = after_batch(self.waiting, rows_of_batch(outcomes, self.batches), None, {})
        self.waiting = self.waiting if waiting is None else waiting
        self.rows += plain_rows(outcomes)
        return found

    def _decoded(self, batches: Sequence[pa.RecordBatch]) -> tuple[list[Row], Contents]:
        decode = with_summaries(arrow_decoder({"feed": self.plan}), None)
        found = list(decode(batches))
        summaries = pa.chunked_array([part.column("summary") for part in found]).drop_null()
        rows = pa.Table.from_batches(found).select(STAGED.names)
        return plain_rows(rows), contents_of_summaries(summaries)

    def _raise(self, staged: list[Row]) -> None:
        """Give the rows the sequences of their partition's order."""
        progress = plan_of(blocks_in(staged_table(staged)), self.tops)
        assert not progress.late
        floors = {(block.partition[:3], block.name): floor for block, floor in progress.floors}
        for row in staged:
            floor = floors.get(((row["source"], row["topic"], row["partition"]), row["block"]))
            if row["block"] is not None and floor is not None:
                own = reached_position(row["sequence"], row["position"])
                if own < floor:
                    row["sequence"] = with_position(row["sequence"], own, floor)
        self.tops |= progress.progress

    def _history(self, contents: Contents, overdue: datetime | None) -> list[Row] | None:
        """The earlier changes that the batch may repeat; None where all its positions are higher."""
        ordered = [row["sequence"] for row in self.rows if row["kind"] in ("row", "ddl", "truncate")]
        (summary,) = contents.sources
        lowest: list[str] = []
        if summary.min_sequence is not None and summary.min_sequence <= max(ordered, default=""):
            lowest.append(summary.min_sequence)
        if overdue is not None:
            old = self.waiting.filter(pc.less(self.waiting.column("event_time"), pa.scalar(overdue)))
            lowest += old.column("sequence").to_pylist()
        if not lowest:
            return None
        self.lowest = min(lowest)
        return [
            row
            for row in self.rows
            if (row["kind"] in IDENTIFIED or (row["kind"], row["reason"]) == _UNPAIRED)
            and row["sequence"] is not None
            and row["sequence"] >= self.lowest
        ]

    def _without_repeats(self, whole: list[Row], history: list[Row] | None, contents: Contents) -> list[Row]:
        """The rows that are not halves, with duplicates marked."""
        if history is None and not contents.may_hold_repeats:
            return whole
        known = {row["change_id"] for row in history or () if row["half"] is None}
        times = Counter(row["change_id"] for row in whole if row["kind"] in IDENTIFIED)
        repeated = {found for found, count in times.items() if count > 1 or found in known}
        certain = [row for row in whole if not _is_ambiguous(row)]
        of_past = None if history is None else staged_table(history)
        marked = few_outcomes.mark_duplicates(staged_table(certain), of_past)
        assert marked is not None
        groups: dict[object, list[Row]] = defaultdict(list)
        for row in whole:
            if _is_ambiguous(row):
                groups[_group(row)].append({**row, "origin": NEW})
        found = plain_rows(marked)
        for group, rows in groups.items():
            if not any(row["change_id"] in repeated for row in rows):
                found += rows
                continue
            earlier = [{**row, "origin": KNOWN} for row in history or () if row["kind"] == "row"]
            members = [*rows, *(row for row in earlier if _group(row) == group)]
            near = self.rows if history is not None else []
            near = [row for row in near if row["sequence"] is None or row["sequence"] >= self.lowest]
            members += [row for row in _repeated(rows, near) if _group(row) == group]
            found += deduplicate(_with_runs(members, [*whole, *near]))
        return found

    def replica(self) -> tuple[dict[str, Image], Counter[str]]:
        """The rows of the table with a key, and how often the other one has which row."""
        whole = {row["change_id"] for row in self.rows if row["kind"] == "row" and row["half"] is None}
        state: dict[str, Image] = {}
        notes: Counter[str] = Counter()
        for row in sorted(self.rows, key=lambda row: (row["sequence"] or "", row["change_id"] or "")):
            if row["kind"] != "row" or (row["half"] is not None and row["change_id"] in whole):
                continue
            if row["table"] == KEYLESS:
                notes.update([row["after"]["v"]] if row["after"] else [])
                notes.subtract([row["before"]["v"]] if row["before"] else [])
            elif row["table"] == KEYED:
                _apply(row, state)
        return state, +notes

    def waits(self) -> int:
        """How many halves wait."""
        return self.waiting.num_rows


def _apply(row: Row, state: dict[str, Image]) -> None:
    before, after = row["before"] or {}, row["after"]
    base = state.pop(before["id"], {}) if "id" in before else None
    if row["op"] != "delete":
        base = state.get(after["id"], {}) if base is None else base
        state[after["id"]] = {**base, **after} if row["partial"] else after


def _is_ambiguous(row: Row) -> bool:
    """Whether the position does not identify the change (`outcomes.has_ambiguous_position`)."""
    is_place = row["sequence"] == row["position"] or row["earliest"] is not None
    return row["kind"] == "row" and row["half"] is None and not is_place


def _group(row: Row) -> object:
    """The group in which rows may be duplicates (`outcomes.deduplicate_ambiguous`)."""
    place = tuple(row[name] for name in _PLACE)
    if row["position"] is not None:
        return (*place, row["position"])
    key = key_values(row["keys"], row["after"]) if row["keys"] else sorted((row["after"] or {}).items())
    return (*place, epoch_part(row["sequence"] or ""), "copied", str(key))


def _repeated(new: Sequence[Row], earlier: Sequence[Row]) -> Iterator[Row]:
    """Earlier duplicates, with the images of the new row of a record that has their id."""
    images = {row["change_id"]: (row["before"], row["after"]) for row in new if row["run"] is not None}
    for row in earlier:
        if row["kind"] == "duplicate" and row["change_id"] in images:
            before, after = images[row["change_id"]]
            yield {**row, "before": before, "after": after, "origin": REPEATED}


def _with_runs(members: list[Row], messages: Sequence[Row]) -> list[Row]:
    """The members with the runs that all messages of their records give (`known_runs.with_runs`)."""
    records = {record_of(row) for row in members if row["origin"] == NEW and row["run"] is not None}
    partitions: dict[tuple[str, int], list[tuple[int, int, int, str | None]]] = defaultdict(list)
    for row in messages:
        record = record_of(row)
        if row["kind"] == "tombstone" or (record is not None and record in records):
            start = row["offset"] if row["run"] is None else row["run"]
            end = row["offset"] if row["run_end"] is None else row["run_end"]
            partitions[row["topic"], row["partition"]].append((start, end, row["offset"], record))
    runs: dict[tuple[object, ...], tuple[int, int]] = {}
    for partition, found in partitions.items():
        for spans in _joined(sorted(found, key=lambda span: (*span[:3], span[3] or ""))):
            ends = min(span[0] for span in spans), max(span[1] for span in spans)
            runs |= {(partition, span[2], span[3]): ends for span in spans}
    for row in members:
        if not row["keys"] and (row["origin"] != NEW or row["run"] is not None):
            at = ((row["topic"], row["partition"]), row["offset"], record_of(row))
            row["run"], row["run_end"] = runs.get(at, (row["run"], row["run_end"]))
    return members


_Span = tuple[int, int, int, str | None]


def _joined(spans: Sequence[_Span]) -> Iterator[list[_Span]]:
    here: list[_Span] = []
    for span in spans:
        position = next((one[3] for one in reversed(here) if one[3] is not None), None)
        is_other = position is not None and span[3] is not None and span[3] != position
        if here and (is_other or span[0] > max(one[1] for one in here) + 1):
            yield here
            here = []
        here.append(span)
    if here:
        yield here
