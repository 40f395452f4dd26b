"""What a layer hands to the quality step: tables with their rules, measurements of them, and findings.

The layers state here what must hold; `framework.quality` measures it and writes the verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from framework.contracts.ddl_actions import TableName
from framework.contracts.quality import QualityResult, Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Bound = int | float | str
"""A bound of a range."""
Value = bool | int | float | str
"""A value that a rule accepts."""
TargetId = tuple[str, str | None, str | None, str | None, str | None]
"""Layer, source, database, schema, table."""


class Snapshot(Protocol):
    """A dump of a source's table: a location of a format that Spark reads, or a query through JDBC."""

    @property
    def format(self) -> str:
        """The format, as Spark names it."""

    @property
    def path(self) -> str | None:
        """The location; None for JDBC."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns to compare; None for all that both sides have."""

    @property
    def options(self) -> dict[str, str]:
        """The options of Spark's reader."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one table. Only the fields of its kind are set; `columns` are those of the checked table.

    `values`, `low`, `high`, `pattern` belong to the kinds accepted, range, length and regex; `text` to sql;
    `to` and `to_keys` to relationship; `limit` to freshness; `percent` to row_count_change;
    `nulls_equal` to unique: two nulls are equal, as in the keys of a replica.

    The quality results hold a digest of the text of rules: a new name of this class or of a field changes it.
    """

    name: str
    kind: str
    columns: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR
    values: tuple[Value, ...] = ()
    low: Bound | None = None
    high: Bound | None = None
    pattern: str | None = None
    text: str | None = None
    to: str | None = None
    to_keys: tuple[str, ...] = ()
    limit: timedelta | None = None
    percent: float | None = None
    snapshot: Snapshot | None = None
    is_gate: bool = False
    nulls_equal: bool = False

    @property
    def expected(self) -> str:
        """The rule in words."""
        names = ", ".join(self.columns)
        return {
            "not_null": f"{names} not null",
            "unique": f"{names} unique",
            "accepted": f"{names} one of {', '.join(map(str, self.values[:10]))}",
            "range": f"{names} {_between(self.low, self.high)}",
            "length": f"length of {names} {_between(self.low, self.high)}",
            "regex": f"{names} matches {self.pattern}",
            "relationship": f"{names} in {self.to}",
            "freshness": f"newest event at most {self.limit} old",
            "row_count_change": f"row count changes by at most {self.percent} %",
            "sql": f"{self.text}",
            "snapshot": "as the snapshot of the source",
            "types": "columns have the types that were applied",
            "bad_values": "every cell fits its column's type",
            "inserts_met": "no insert or row of a snapshot meets a row that is there, with other values",
            "implied_keys": "the keys that the changes imply",
        }.get(self.kind, self.name)


def _between(low: Bound | None, high: Bound | None) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"between {low} and {high}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The measured outcome of a rule.

    Attributes:
        rule: The rule.
        checked: How many rows, keys or messages were read.
        failed: How many of them break the rule.
        keys: Some of their keys.
        observed: The outcome in words.
        detail: More for people.
        is_judged: False where nothing can be said of the rule.
        is_measured: False where counting failed or a column is missing; the rule counts as broken.
    """

    rule: Rule
    checked: int
    failed: int
    keys: tuple[str, ...] = ()
    observed: str = ""
    detail: str | None = None
    is_judged: bool = True
    is_measured: bool = True


@dataclass(frozen=True, slots=True)
class MeasurementContext:
    """The session that measures a table, and whether the table is small enough for one task to read."""

    spark: SparkSession
    is_small: bool

    def whole(self, rows: DataFrame) -> DataFrame:
        """The rows; those of a small table in one partition, so that grouping and joining move no data."""
        return rows.coalesce(1) if self.is_small else rows


@dataclass(frozen=True, slots=True)
class Measurement:
    """A count over a table, in one row, so that one Spark job can count several tables.

    `frame` returns one row of one column, an array of counts, and `answer` makes the findings of the rules
    from them; it may read the table again where a count says that a rule fails. `parts` measure the same
    rules one by one, for the case that one of them cannot be counted.
    """

    rules: tuple[Rule, ...]
    frame: Callable[[], DataFrame]
    answer: Callable[[Sequence[int]], Sequence[Finding]]
    parts: tuple[Measurement, ...] = ()


@dataclass(frozen=True, slots=True)
class PreviousResults:
    """The last verdicts of each target."""

    results: Mapping[TargetId, Sequence[QualityResult]] = field(default_factory=dict)

    def of(self, target: TargetId, rule: str) -> QualityResult | None:
        """The last verdict of one rule of a target."""
        return next((result for result in self.results.get(target, ()) if result.rule == rule), None)

    def started_at(self, target: TargetId) -> datetime | None:
        """When the target was last judged."""
        return max((result.started_at for result in self.results.get(target, ())), default=None)

    def version(self, target: TargetId) -> int | None:
        """The Delta version of the target that was last judged."""
        return max(
            (result.version for result in self.results.get(target, ()) if result.version is not None),
            default=None,
        )

    def batch(self, target: TargetId) -> int:
        """The silver batch up to which the target was last judged, -1 where it never was."""
        return max(
            (result.batch for result in self.results.get(target, ()) if result.batch is not None), default=-1
        )


def _no_findings(_: SparkSession) -> Sequence[Finding]:
    return ()


def _no_measurements(_: MeasurementContext) -> Sequence[Measurement]:
    return ()


@dataclass(frozen=True, slots=True)
class KnownFindings:
    """What is known of a target without a Spark job, and what Spark measures of it; None for nothing more."""

    findings: Sequence[Finding]
    rest: CheckTarget | None = None


def _nothing_known() -> None:
    return None


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """What is checked: a table's rows against its rules, and what its layer measures by other means.

    Without a version a target is judged in every run, which must cost next to nothing, and its verdicts are
    written when they change.

    Attributes:
        layer: The layer of the table, or `source` for what concerns a source as a whole.
        source: The configured source.
        name: The table; None for what concerns no one table.
        rules: What `rows` are checked against.
        rows: The table's rows, read with a session; None where only the layer's own means measure the target.
        keys: The columns that name a row.
        measurements: What the layer counts together with the rules.
        own_findings: What the layer measures by other means.
        known_findings: The findings that are known without a Spark job; None where Spark measures all.
        reads: The tables of the lakehouse whose new rows the target judges: the id and version of each.
        judged_rows: How many rows of the table `rows` leaves out: they hold the rules, as was found before.
        size: The number of rows to check, as far as it is known without reading them.
        version: The Delta version of the table; with `batch` and `suite` it shows whether the target has
            changed.
        batch: The silver batch up to which the table was applied.
        suite: A digest of the rules.
        replica: The location of the table in gold.
        reads_beyond: A rule reads what may change without a new version of the table or another `suite`: the
            target is judged in every run, and its verdicts are written when they change.
    """

    layer: str
    source: str | None
    name: TableName | None
    rules: tuple[Rule, ...] = ()
    rows: Callable[[SparkSession], DataFrame] | None = None
    keys: tuple[str, ...] = ()
    measurements: Callable[[MeasurementContext], Sequence[Measurement]] = _no_measurements
    own_findings: Callable[[SparkSession], Sequence[Finding]] = _no_findings
    known_findings: Callable[[], KnownFindings | None] = _nothing_known
    reads: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    judged_rows: int = 0
    size: int = 0
    version: int | None = None
    batch: int | None = None
    suite: str = ""
    replica: str | None = None
    reads_beyond: bool = False

    @property
    def id(self) -> TargetId:
        """Identifies the target: its layer, source and table."""
        name = self.name
        return (
            self.layer,
            self.source,
            *((name.database, name.schema, name.table) if name else (None, None, None)),
        )

    @property
    def title(self) -> str:
        """The target's name for people."""
        return (self.name.dotted if self.name else "") or self.source or self.layer
