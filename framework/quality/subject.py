"""What a layer hands to the quality step: tables with their rules, and findings that it has measured itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from framework.contracts.actions import TableName
from framework.contracts.quality import QualityResult
from framework.quality.finding import Finding
from framework.quality.question import Look, Question
from framework.quality.rules import Rule

Place = tuple[str, str | None, str | None, str | None, str | None]
"""Layer, source, database, schema, table."""


@dataclass(frozen=True, slots=True)
class Past:
    """The last verdicts of each place, and when the step last ran."""

    results: Mapping[Place, Sequence[QualityResult]] = field(default_factory=dict)

    def of(self, place: Place, rule: str) -> QualityResult | None:
        """The last verdict of one rule of a place."""
        return next((result for result in self.results.get(place, ()) if result.rule == rule), None)

    def started_at(self, place: Place) -> datetime | None:
        """When the place was last judged."""
        return max((result.started_at for result in self.results.get(place, ())), default=None)

    def version(self, place: Place) -> int | None:
        """The Delta version of the place that was last judged."""
        return max((result.version for result in self.results.get(place, ()) if result.version is not None), default=None)

    def batch(self, place: Place) -> int:
        """The silver batch up to which the place was last judged, -1 where it never was."""
        return max((result.batch for result in self.results.get(place, ()) if result.batch is not None), default=-1)


def _nothing(_: SparkSession) -> Sequence[Finding]:
    return ()


def _no_questions(_: Look) -> Sequence[Question]:
    return ()


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to judge: a table's rows against its rules, and what its layer asks and measures by other means.

    `size` says how many rows are looked at, as far as that is known without looking. `keys` name a row; `version` and
    `batch` tell whether it has changed since it was judged; `replica` is the place of its table in gold. Without a version it
    is judged in every run, which must cost next to nothing, and is written down when its verdict changes.
    """

    layer: str
    source: str | None
    name: TableName | None
    rules: tuple[Rule, ...] = ()
    rows: Callable[[SparkSession], DataFrame] | None = None
    keys: tuple[str, ...] = ()
    questions: Callable[[Look], Sequence[Question]] = _no_questions
    measured: Callable[[SparkSession], Sequence[Finding]] = _nothing
    size: int = 0
    version: int | None = None
    batch: int | None = None
    suite: str = ""
    replica: str | None = None

    @property
    def place(self) -> Place:
        """Where its results belong."""
        name = self.name
        return (self.layer, self.source, *((name.database, name.schema, name.table) if name else (None, None, None)))

    @property
    def title(self) -> str:
        """Its name for people."""
        return (self.name.dotted if self.name else "") or self.source or self.layer
