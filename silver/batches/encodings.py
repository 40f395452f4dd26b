"""The encodings of sources whose messages do not declare them, in `ops/encodings`.

    state       meaning of the row
    shown       a value of the batch is possible only in these modes of a kind (`decimals`: `text`); or
                several updates have one position (`positions`: `shared`); or neighbours show that a setting
                is missing (`transactions`: `compressed`, `tombstones`: `delete`)
    waiting     the batch quarantined messages that the modes known then (`modes`) were not enough to read
    taken       such messages were decoded again in this batch, with the modes known then
    redefined   the batch defines a table (`kind`) from a sequence on (`modes`) that earlier rows have reached
    read_again  that table's rows are in accordance with all definitions up to the batch
    defined     a table (`kind`) that is excluded has columns from a position on (`modes`): if it is included
                one day, its rows are read by them

A batch shows its modes while it is decoded. If that narrows the modes that are left open, the batch is
decoded once more. The evidence is recorded before the changes, so a batch that is run again is decoded alike,
and so is a rebuild.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import ENCODINGS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.table_reader import Query
from framework.spark.local_frame import local_frame
from silver.changes.adjacent_halves import SHARED_POSITIONS
from silver.changes.decode import SourcePlan
from silver.decoding.encoding_modes import Modes, ModeState, evidence_of, fingerprint, state_of
from silver.decoding.table_definitions import (
    DeclaredColumns,
    EpochPosition,
    TableDefinition,
    TableDefinitions,
    TableKey,
    definitions_by_table,
)
from silver.values.sequence import sequence_of

WAITING_REASONS = frozenset({str(Reason.ENCODING_UNKNOWN), str(Reason.ENCODING_CONTRADICTED)})
_ROW = "source string, state string, kind string, modes string, batch bigint"
_EVERY = Query(ENCODINGS_TABLE, "SELECT `source`, `state`, `kind`, `modes`, `batch` FROM {rows}")
_SHOWN, _WAITING, _TAKEN = "shown", "waiting", "taken"
_REDEFINED, _READ_AGAIN, _DEFINED = "redefined", "read_again", "defined"


@dataclass(frozen=True, slots=True)
class EncodingRow:
    """A row of `ops/encodings` without its time.

    `kind` says what the modes are for (`decimals`, `binary`, `times`, `positions`, `transactions`,
    `tombstones`), or names the table of `redefined`, `read_again` and `defined`; null in the other states.
    """

    source: str
    state: str
    kind: str | None
    modes: str
    batch: int


@dataclass(frozen=True, slots=True)
class RedefinedTable:
    """A table that a batch defines from a sequence on (empty: throughout) after rows of it came."""

    source: str
    table: TableKey
    since: str
    batch: int


@dataclass(frozen=True, slots=True)
class Encodings:
    """The rows of `ops/encodings`."""

    rows: tuple[EncodingRow, ...] = ()
    _grouped: dict[tuple[str, str], list[EncodingRow]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Group the rows: each source is asked for its own."""
        for row in self.rows:
            self._grouped.setdefault((row.source, row.state), []).append(row)

    def states(self, plan: SourcePlan) -> dict[str, ModeState]:
        """The possible modes of each kind of values of a source, by its settings and the values seen."""
        found: dict[str, ModeState] = {}
        for kind, every in plan.format.modes.items():
            seen = [
                frozenset(row.modes.split(","))
                for row in self._of(plan.context.source, _SHOWN)
                if row.kind == kind
            ]
            found[kind] = state_of(every, getattr(plan.context.options, kind, None), seen)
        return found

    def open_modes(self, plan: SourcePlan) -> str:
        """The open modes of a source as one text: messages are read in the same way while it is the same."""
        return fingerprint(self.states(plan))

    def plan(self, plan: SourcePlan) -> SourcePlan:
        """The plan with what is known of the modes of its source."""
        return (
            replace(plan, context=replace(plan.context, modes=self.states(plan)))
            if plan.format.modes
            else plan
        )

    def news(self, shown: Mapping[str, Iterable[str]], batch: int) -> list[EncodingRow]:
        """The rows to add after a batch: what its values show of the modes of their sources.

        `shown` has the evidence by source. Modes that the table already has are left out.
        """
        found = []
        for source, texts in shown.items():
            known: set[tuple[str, Modes]] = {
                (row.kind or "", frozenset(row.modes.split(","))) for row in self._of(source, _SHOWN)
            }
            new = {evidence_of(text) for text in texts} - known
            found += [
                EncodingRow(source, _SHOWN, kind, ",".join(sorted(modes)), batch) for kind, modes in new
            ]
        return sorted(found, key=lambda row: (row.source, row.kind or "", row.modes))

    @property
    def shared(self) -> frozenset[str]:
        """The sources whose messages have shown that several updates can have one position."""
        kind, _ = evidence_of(SHARED_POSITIONS)
        return self.with_evidence(kind)

    def with_evidence(self, kind: str) -> frozenset[str]:
        """The sources of which values or neighbours have shown something of this kind."""
        return frozenset(row.source for row in self.rows if row.state == _SHOWN and row.kind == kind)

    def waits(self, plan: SourcePlan) -> bool:
        """Whether the source has quarantined messages that the last attempt did not read completely."""
        return bool(self._open(plan.context.source))

    def is_due(self, plan: SourcePlan) -> bool:
        """Whether messages of the source wait for modes that may be known by now."""
        now = self.open_modes(plan)
        return any(row.modes != now for row in self._open(plan.context.source))

    def definitions(self) -> dict[str, TableDefinitions]:
        """The definitions that came while their tables were excluded, by source."""
        found: dict[str, list[TableDefinition]] = {}
        alike: dict[DeclaredColumns, DeclaredColumns] = {}  # most are: a table that is created anew each hour
        for row in self.rows:
            if row.state == _DEFINED:
                position, columns = json.loads(row.modes)
                declared = tuple((name, kind) for name, kind in columns)
                declared = alike.setdefault(declared, declared)
                database, schema, table = json.loads(row.kind or "[null, null, null]")
                definition = TableDefinition(database, schema, table, tuple(position), declared)
                found.setdefault(row.source, []).append(definition)
        return {source: definitions_by_table(definitions) for source, definitions in found.items()}

    def redefined(self, last: int | None = None) -> list[RedefinedTable]:
        """The tables whose earlier rows may not be in accordance with their definitions.

        `last` is the last committed batch: a later one is recorded here, but its definitions are not known
        until it is committed. Without it, all are given.
        """
        done: dict[tuple[str, str | None], int] = {}
        due: dict[tuple[str, str | None], list[EncodingRow]] = {}
        for row in self.rows:
            at = (row.source, row.kind)
            if row.state == _READ_AGAIN:
                done[at] = max(row.batch, done.get(at, -1))
            elif row.state == _REDEFINED:
                due.setdefault(at, []).append(row)
        found = []
        for (source, kind), rows in due.items():
            left = [row for row in rows if row.batch > done.get((source, kind), -1)]
            left = [row for row in left if last is None or row.batch <= last]
            if left:
                database, schema, table = json.loads(kind or "[null, null, null]")
                since, batch = min(row.modes for row in left), max(row.batch for row in left)
                found.append(RedefinedTable(source, (database, schema, table), since, batch))
        return found

    def _open(self, source: str) -> list[EncodingRow]:
        taken = max((row.batch for row in self._of(source, _TAKEN)), default=-1)
        return [row for row in self._of(source, _WAITING) if row.batch >= taken]

    def _of(self, source: str, state: str) -> list[EncodingRow]:
        return self._grouped.get((source, state), [])


def waiting_row(plan: SourcePlan, encodings: Encodings, batch: int) -> EncodingRow:
    """The row of a batch with messages that the known modes are not enough to read."""
    return EncodingRow(plan.context.source, _WAITING, None, encodings.open_modes(plan), batch)


def waiting_row_of_unknown_modes(source: str, batch: int) -> EncodingRow:
    """The row of a source whose messages wait, where the modes at their last decoding are unknown."""
    return EncodingRow(source, _WAITING, None, "", batch)


def retried_row(plan: SourcePlan, encodings: Encodings, batch: int) -> EncodingRow:
    """The row of a batch in which the waiting messages of the source were decoded again."""
    return EncodingRow(plan.context.source, _TAKEN, None, encodings.open_modes(plan), batch)


def redefined_row(source: str, table: TableKey, since: EpochPosition, batch: int) -> EncodingRow:
    """The row of a batch that defines a table from a position on, after rows of it came."""
    sequence = sequence_of(since[0], since[1:], None) if since else ""
    return EncodingRow(source, _REDEFINED, json.dumps(table), sequence, batch)


def defined_row(source: str, definition: TableDefinition, batch: int) -> EncodingRow:
    """The row of a batch that knows a definition of a table that is excluded."""
    table = json.dumps([definition.database, definition.schema, definition.table])
    return EncodingRow(source, _DEFINED, table, json.dumps([definition.position, definition.columns]), batch)


def read_again_row(redefined: RedefinedTable) -> EncodingRow:
    """The row of a table whose earlier rows are in accordance with its definitions again."""
    return EncodingRow(redefined.source, _READ_AGAIN, json.dumps(redefined.table), "", redefined.batch)


def read_encodings(spark: SparkSession, lake: Lakehouse) -> Encodings:
    """The rows of `ops/encodings`; none where the table does not exist."""
    rows = newest_tables(spark, lake).rows(_EVERY)
    return Encodings(tuple(EncodingRow(**row) for row in rows))


def append_rows(spark: SparkSession, lake: Lakehouse, rows: Iterable[EncodingRow]) -> None:
    """Append rows to `ops/encodings`. Rows that a repeated batch appends again change nothing."""
    frame = local_frame(spark, [astuple(row) for row in rows], _ROW).withColumn(
        "recorded_at", F.current_timestamp()
    )
    lake.append(frame.coalesce(1), ENCODINGS_TABLE)
