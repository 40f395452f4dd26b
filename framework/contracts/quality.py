"""The quality results, `ops/quality_results`: one row for each run, table and rule, append-only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MOST_KEYS = 20
"""The largest number of failing keys in a row of the results; `failed_count` counts all."""


UNMEASURED = "could not be judged"
"""How `observed` begins where a rule counts as broken because measuring it failed."""


class Severity(StrEnum):
    """What a failed rule means for the run: `error` ends it with exit code 3, `warn` is only reported."""

    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class QualityResult:
    """The outcome of one rule in one run, with the columns of `ops/quality_results` in their order.

    Attributes:
        run_id: The run, as in `ops/runs`.
        started_at: When the quality step of the run began; the same in all rows of a run.
        checked_at: When this rule was judged.
        layer: `bronze`, `silver`, `gold`, or `source` for what concerns a source as a whole.
        source: The configured source; None for a table that several sources write.
        database: The table as the source names it, with `schema` and `table`; None for what concerns no
            replica.
        schema: None also where the source has two levels.
        table: In the layers bronze and silver the name of the layer's own table (`messages`, `changes`).
        rule: The rule's name, unique within the table: `not_null(id)`, or the name in the configuration.
        kind: The kind of rule: `not_null`, `unique`, `snapshot`, `freshness`, `accounted` …
        columns: The columns of the rule; empty for rules about a whole table.
        severity: `warn` or `error`.
        success: Whether the rule holds; None where it could not be judged, and `detail` says why.
        expected: The rule in words: `between 0 and 100`.
        observed: What was found, in words: `3 of 1,204 rows`.
        checked_count: How many rows, keys or messages the rule read.
        failed_count: How many of them break it.
        failing_keys: Some of these, at most MOST_KEYS, smallest first: `id=7`, or a message as
            `topic/partition/offset`.
        detail: More for people: how to trace it, what a difference is; None where there is nothing to add.
        is_gate: The rule judged the rows of a batch before they were merged.
        engine: `great_expectations` if that gave the verdict, else `mainstem`.
        version: The Delta version of the table that was judged; None where there is no one table.
        batch: The silver batch up to which the table was applied.
        suite: A digest of the table's rules: when they change, the table is judged again.
    """

    run_id: str
    started_at: datetime
    checked_at: datetime
    layer: str
    source: str | None
    database: str | None
    schema: str | None
    table: str | None
    rule: str
    kind: str
    columns: tuple[str, ...]
    severity: str
    success: bool | None
    expected: str
    observed: str
    checked_count: int
    failed_count: int
    failing_keys: tuple[str, ...]
    detail: str | None
    is_gate: bool
    engine: str
    version: int | None
    batch: int | None
    suite: str

    @property
    def is_unmeasured(self) -> bool:
        """Whether the rule counts as broken because measuring it failed, which may pass."""
        return self.success is False and self.observed.startswith(UNMEASURED)

    @property
    def is_error(self) -> bool:
        """Whether this verdict makes the run end with exit code 3."""
        return self.success is False and self.severity == Severity.ERROR
