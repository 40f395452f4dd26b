"""The `quality` part of the configuration: rules by table pattern."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from framework.config.java_regex import check_expression
from framework.config.range_bounds import moment_of, number_of
from framework.config.tables import Patterns
from framework.config.value_types import Duration, Pattern, ReplicaName, absolute_place
from framework.contracts.ddl_actions import TableName
from framework.contracts.quality import Severity

KINDS = (
    "not_null",
    "unique",
    "accepted",
    "range",
    "regex",
    "length",
    "relationship",
    "freshness",
    "row_count_change",
    "sql",
    "snapshot",
)
ROW_KINDS = ("not_null", "accepted", "range", "regex", "length")
"""Kinds that a single row breaks or keeps: they can check changes and gate."""

_STRICT = ConfigDict(extra="forbid", frozen=True)


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


_NAMES_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
)
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1), _NAMES_SCHEMA]
Bound = StrictInt | StrictFloat | str
Value = StrictBool | StrictInt | StrictFloat | str


def _is_above(low: Bound, high: Bound) -> bool:
    """Whether no value is between two bounds, as far as both are numbers, or both are dates or times."""
    numbers, moments = (number_of(low), number_of(high)), (moment_of(low), moment_of(high))
    if numbers[0] is not None and numbers[1] is not None:
        return not numbers[0].is_nan() and not numbers[1].is_nan() and numbers[0] > numbers[1]
    return moments[0] is not None and moments[1] is not None and moments[0] > moments[1]


class OnChange(StrEnum):
    """What happens to a change that breaks a rule, before it is applied."""

    QUARANTINE = "quarantine"
    WARN = "warn"


class Accepted(BaseModel):
    """A column with certain values only; null is always allowed."""

    model_config = _STRICT

    column: str = Field(description="The column.")
    values: tuple[Value, ...] = Field(min_length=1, description="The values that are allowed, beside null.")


class Range(BaseModel):
    """A column between two bounds, both included; null is allowed.

    Texts of numbers, dates and times are compared by their value.
    """

    model_config = _STRICT

    column: str = Field(description="The column.")
    min: Bound | None = Field(default=None, description="The lowest value that is allowed.")
    max: Bound | None = Field(default=None, description="The highest value that is allowed.")

    @model_validator(mode="after")
    def _refuse_nothing(self) -> Range:
        if self.min is None and self.max is None:
            raise ValueError("write `min`, `max` or both")
        if self.min is not None and self.max is not None and _is_above(self.min, self.max):
            raise ValueError("write a `min` that is not above `max`: no value would pass")
        return self


class Regex(BaseModel):
    """A column whose whole text matches a regular expression; null is allowed."""

    model_config = _STRICT

    column: str = Field(description="The column.")
    pattern: str = Field(
        min_length=1, description="A Java regular expression that the whole text must match."
    )

    @field_validator("pattern")
    @classmethod
    def _refuse_broken(cls, pattern: str) -> str:
        check_expression(pattern)
        return pattern


class Length(BaseModel):
    """A column whose text has so many characters; null is allowed."""

    model_config = _STRICT

    column: str = Field(description="The column.")
    min: StrictInt = Field(default=0, ge=0, description="The least number of characters.")
    max: StrictInt | None = Field(default=None, ge=0, description="The greatest number of characters.")


class Relationship(BaseModel):
    """Columns whose values are the key of a row of another replica; a null in one of them is allowed."""

    model_config = _STRICT

    columns: Names = Field(description="The columns that refer to a row of the other table.")
    to: ReplicaName = Field(description="The replica that has the other rows.")
    keys: Names | None = Field(
        default=None, description="The columns of the other table; its key if they are not written."
    )


class Snapshot(BaseModel):
    """A dump of the source's table: a location of a format that Spark reads, or a query through JDBC."""

    model_config = _STRICT

    format: Literal["csv", "parquet", "delta", "jdbc"] = Field(description="The format of the dump.")
    path: str | None = Field(
        default=None, min_length=1, description="Where the dump is; not written for jdbc."
    )
    columns: Names | None = Field(
        default=None, description="The columns to compare; without it, those that both tables have."
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Options of Spark's reader: for jdbc url, dbtable or query, user, password.",
    )

    @model_validator(mode="after")
    def _check_place(self) -> Snapshot:
        if (self.path is None) != (self.format == "jdbc"):
            raise ValueError(
                "write `options:` with url and dbtable or query" if self.format == "jdbc" else "write `path:`"
            )
        return self


class QualityRule(BaseModel):
    """One entry of `quality.rules`: its tables, one kind of rule, and what a failure means."""

    model_config = _STRICT

    match: Pattern = Field(description="The tables, as under `tables`.")
    name: str | None = Field(default=None, min_length=1, description="The name of the rule in results.")
    severity: Severity = Field(
        default=Severity.ERROR,
        description="`error` sets the exit code 3 if the rule fails, `warn` only reports it.",
    )
    gate: StrictBool = Field(
        default=False, description="Whether a batch that breaks the rule is not merged: the table is parked."
    )
    on_change: OnChange | None = Field(
        default=None,
        description="What happens to a change that breaks the rule, before it is committed: `quarantine` "
        "or `warn`.",
    )
    not_null: Names | None = Field(default=None, description="Columns that are never null.")
    unique: Names | None = Field(default=None, description="Columns whose values together occur once.")
    accepted: Accepted | None = Field(default=None, description="A column that has only certain values.")
    range: Range | None = Field(default=None, description="A column between two bounds, both included.")
    regex: Regex | None = Field(default=None, description="A column that matches a regular expression.")
    length: Length | None = Field(default=None, description="A column whose texts have a certain length.")
    relationship: Relationship | None = Field(
        default=None, description="Columns whose values are the key of a row in another replica."
    )
    freshness: Duration | None = Field(default=None, description="How old the newest event may be.")
    row_count_change: StrictInt | StrictFloat | None = Field(
        default=None, ge=0, description="By how many per cent the number of rows may change between checks."
    )
    sql: str | None = Field(
        default=None, min_length=1, description="A condition in Spark SQL that holds for every row."
    )
    snapshot: Snapshot | None = Field(
        default=None, description="A dump of the source's table, to compare with."
    )

    @property
    def kind(self) -> str:
        """The kind that the entry writes."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _check_kind(self) -> QualityRule:
        written = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(written) != 1:
            raise ValueError(f"write exactly one of {', '.join(KINDS)}")
        if (self.gate or self.on_change) and written[0] not in ROW_KINDS:
            raise ValueError(f"`gate` and `on_change` judge row by row: {', '.join(ROW_KINDS)}")
        if self.gate and self.on_change:
            raise ValueError("write `gate` or `on_change`, in two entries where both are wanted")
        return self


class Scan(StrEnum):
    """How the rules of a table are judged.

    `counted`: one pass counts; a rule holds where nothing breaks it. `measured`: the same, and Great
    Expectations gives the verdict on the counts. `full`: Great Expectations scans the tables itself.
    """

    COUNTED = "counted"
    MEASURED = "measured"
    FULL = "full"


class Quality(BaseModel):
    """What the replicas must fulfil. `sources` has the greatest age of the newest event of each source."""

    model_config = _STRICT

    enabled: StrictBool = Field(default=True, description="Whether the quality step runs at all.")
    defaults: StrictBool = Field(default=True, description="Whether the default rules are checked.")
    reconciliation: StrictBool = Field(
        default=True, description="Whether messages, outcomes and replicas are compared with each other."
    )
    scan: Scan = Field(
        default=Scan.MEASURED,
        description="Who gives the verdict. `measured`: Great Expectations, on what one Spark job has "
        "counted. `counted`: the counts alone. `full`: Great Expectations reads the tables itself.",
    )
    sources: dict[str, Duration] = Field(
        default_factory=dict,
        description="How old the newest event of each source may be; heartbeats count.",
    )
    rules: tuple[QualityRule, ...] = Field(default=(), description="Your own rules.")

    _patterns: Patterns = PrivateAttr()

    def model_post_init(self, context: object, /) -> None:
        """Prepare the patterns of the rules; pydantic calls this after the fields are set."""
        self._patterns = Patterns(rule.match for rule in self.rules)

    def rules_of(self, name: TableName) -> tuple[QualityRule, ...]:
        """The rules that match a table, in their order."""
        found = self._patterns.of(name.database, name.schema, name.table)
        return tuple(self.rules[number] for number in found)

    def freshness_of(self, source: str) -> timedelta | None:
        """The greatest age of the newest event of a source; None where the configuration has none."""
        return self.sources.get(source)

    def with_absolute_paths(self, folder: Path) -> Quality:
        """The same with absolute paths of snapshots."""
        return self.model_copy(
            update={"rules": tuple(_with_absolute_paths(rule, folder) for rule in self.rules)}
        )


UNWRITTEN = Quality(scan=Scan.COUNTED)
"""A configuration without `quality`: the default rules, so cheap that every run checks them."""


def _switched(value: object) -> object:
    return {"enabled": value} if isinstance(value, bool) else value


QualityOrNone = Annotated[Quality, BeforeValidator(_switched)]
"""`quality: false` is the short form of `quality: {enabled: false}`, and `true` of `{}`."""


def _with_absolute_paths(rule: QualityRule, folder: Path) -> QualityRule:
    if rule.snapshot is None or rule.snapshot.path is None:
        return rule
    path = absolute_place(rule.snapshot.path, folder)
    return rule.model_copy(update={"snapshot": rule.snapshot.model_copy(update={"path": path})})
