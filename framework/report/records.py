"""What a report holds, as plain records: no Spark, no HTML. Times carry their zone (UTC), null means not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from framework.contracts.quality import QualityResult
from framework.names import dotted_name


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A table of a source; all names null for what belongs to no table. `schema` is null where the source has two levels."""

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
    """What one run did with one table."""

    name: str
    state: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run that found something to do. `seconds` is null for runs of versions that did not note it."""

    run_id: str
    finished_at: datetime
    seconds: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[TableResult, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """`failed`, `parked` or `ok`."""
        if self.errors:
            return "failed"
        return "parked" if any(t.state == "PARKED" for t in self.tables) else "ok"


@dataclass(frozen=True, slots=True)
class Fate:
    """How many rows of silver have one kind in one place, when they happened, and the newest batches that hold them."""

    place: Place
    kind: str
    rows: int
    merged: int = 0
    newest_event_at: datetime | None = None
    newest_ingest_at: datetime | None = None
    batches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Where gold stands with one table. `rows` is null where they could not be counted cheaply."""

    place: Place
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


@dataclass(frozen=True, slots=True)
class Waiting:
    """Halves of updates that wait for their partners. `oldest_at` is the source's time."""

    place: Place
    rows: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Stop:
    """A source that stands still since a message, until its epoch is raised."""

    source: str
    epoch: int
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    r"""The beginning of bytes, as text. Bytes that are no UTF-8 are written `\xNN`, and `is_text` is false then."""

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
    """One message in quarantine, with the beginnings of its key and value; null where the message had none."""

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
class SchemaChange:
    """A change of a table's columns: a `statement` of the source at its time, or what the `replica` did when a run saw it."""

    place: Place
    seen_in: str
    happened_at: datetime | None
    what: str
    statement: str | None = None


@dataclass(frozen=True, slots=True)
class BadValues:
    """Cells of one column that gold holds as null or cut, for one reason; `sample` is the newest one's text."""

    place: Place
    column: str
    reason: str
    rows: int
    sample: str | None
    change_id: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the quality step of one run ended: failed checks by severity."""

    started_at: datetime
    errors: int
    warnings: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of silver: rows by kind, and how far the newest event lay behind its landing."""

    batch: int
    landed_at: datetime
    newest_event_at: datetime | None
    rows: int


@dataclass(frozen=True, slots=True)
class Source:
    """A source as the configuration names it; `reads` is files, kafka or table."""

    name: str
    format: str
    reads: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Report:
    """All that the report says. Lists are newest first and bounded; `checks` is null where no check has run yet."""

    pipeline: str
    lakehouse: str
    version: str
    generated_at: datetime
    sources: tuple[Source, ...] = ()
    messages: int | None = None
    runs: tuple[PastRun, ...] = ()
    fates: tuple[Fate, ...] = ()
    tables: tuple[Table, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    stops: tuple[Stop, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    refused: tuple[Refused, ...] = ()
    schema_changes: tuple[SchemaChange, ...] = ()
    bad_values: tuple[BadValues, ...] = ()
    batches: tuple[Batch, ...] = ()
    checks: tuple[QualityResult, ...] | None = None
    verdicts: tuple[Verdict, ...] = ()
