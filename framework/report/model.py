"""The records of a report: no Spark, no HTML. Times are in UTC, None means unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from framework.contracts.quality import QualityResult
from framework.naming import dotted_name


@dataclass(frozen=True, slots=True, order=True)
class TableKey:
    """A table of a source; all names are None for what belongs to no table.

    `schema` is None where the source has two levels.
    """

    source: str
    database: str | None = None
    schema: str | None = None
    table: str | None = None

    @property
    def name(self) -> str:
        """The table's dotted name, empty for no table."""
        return dotted_name(self.database, self.schema, self.table)


@dataclass(frozen=True, slots=True)
class TableResult:
    """The work of one run on one table."""

    name: str
    state: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run that found something to do.

    `seconds` is None, and `steps` (the seconds of each layer) empty, for runs of versions that did not record
    them.
    """

    run_id: str
    finished_at: datetime
    seconds: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[TableResult, ...] = ()
    errors: tuple[str, ...] = ()
    steps: Mapping[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """`failed`, `parked` or `ok`."""
        if self.errors:
            return "failed"
        return "parked" if any(t.state == "PARKED" for t in self.tables) else "ok"


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """The rows of silver of one kind in one table: their number and times, and the newest of their batches.

    `batches` has all that the table has not applied, up to 1,000, and may lack those that it has.
    """

    table_key: TableKey
    kind: str
    rows: int
    merged: int = 0
    newest_event_at: datetime | None = None
    newest_ingest_at: datetime | None = None
    batches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a replica, with its type in Spark's words."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Table:
    """The state of one table in gold.

    `rows` is None where counting them is expensive. `position` is the newest one that was applied, as people
    say it.
    """

    table_key: TableKey
    state: str
    reason: str | None = None
    replica: str | None = None
    history: str | None = None
    keys: tuple[str, ...] = ()
    column_count: int = 0
    batch: int = -1
    event_time: datetime | None = None
    changes_applied: int = 0
    late: int = 0
    rows: int | None = None
    columns: tuple[Column, ...] = ()
    position: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Halves of updates that wait for their partners. `oldest_at` is the source's time."""

    table_key: TableKey
    rows: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Stop:
    """A source that is stopped since a message, until its epoch is raised."""

    source: str
    epoch: int
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    r"""The beginning of bytes, as text; `is_text` is False for bytes that are no UTF-8 (`\xNN`)."""

    text: str
    byte_count: int
    is_cut: bool
    is_text: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Open messages of one source in quarantine for one reason."""

    source: str
    format: str
    reason: str
    rows: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class Refused:
    """One message in quarantine, with the start of its key and value; None where the message had none."""

    source: str
    format: str
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str | None
    key: Excerpt | None
    value: Excerpt | None
    first_seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class Dismissed:
    """Messages of one source and reason that somebody has dismissed, with the newest moment of it."""

    source: str
    reason: str
    rows: int
    because: str | None
    by: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A change of a table's columns: a `statement` of the source, or a change of the `replica` in a run."""

    table_key: TableKey
    seen_in: str
    happened_at: datetime | None
    what: str
    statement: str | None = None


@dataclass(frozen=True, slots=True)
class BadValues:
    """Cells of one column that did not fit for one reason; `sample` is the newest text.

    They are those of all changes since the table was last rebuilt: a later change may have corrected the row.
    """

    table_key: TableKey
    column: str
    reason: str
    rows: int
    sample: str | None
    change_id: str | None


@dataclass(frozen=True, slots=True)
class BadValueCount:
    """How many bad cells of a table the list of bad values leaves out."""

    table_key: TableKey
    rows: int


@dataclass(frozen=True, slots=True)
class CheckCount:
    """How many newest checks of a table, or of what is no table, with one outcome the list leaves out."""

    layer: str
    source: str | None
    database: str | None
    schema: str | None
    table: str | None
    severity: str
    success: bool | None
    rows: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of the quality step of one run: failed checks by severity."""

    started_at: datetime
    errors: int
    warnings: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of silver: its rows by kind, and the delay from its newest event to its landing."""

    batch: int
    landed_at: datetime
    newest_event_at: datetime | None
    rows: int


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """The highest offset of a partition that silver has processed in the newest epoch."""

    source: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Source:
    """A source of the configuration; `reads` is files, kafka or table."""

    name: str
    format: str
    reads: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Account:
    """Why a source's messages and changes differ: delete halves of key changes, and further rows."""

    source: str
    key_halves: int = 0
    further: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report. Lists are newest first and bounded; `checks` is None if no check has run yet.

    `more_checks` and `more_bad_values` count what the lists of these leave out.
    """

    pipeline: str
    lakehouse: str
    version: str
    generated_at: datetime
    sources: tuple[Source, ...] = ()
    messages: int | None = None
    runs: tuple[PastRun, ...] = ()
    outcomes: tuple[OutcomeCount, ...] = ()
    tables: tuple[Table, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    accounts: tuple[Account, ...] = ()
    stops: tuple[Stop, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    refused: tuple[Refused, ...] = ()
    dismissed: tuple[Dismissed, ...] = ()
    schema_changes: tuple[SchemaChange, ...] = ()
    bad_values: tuple[BadValues, ...] = ()
    batches: tuple[Batch, ...] = ()
    more_bad_values: tuple[BadValueCount, ...] = ()
    checks: tuple[QualityResult, ...] | None = None
    more_checks: tuple[CheckCount, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
