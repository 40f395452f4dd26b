"""Expectations as data: what a table is held against, whoever asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from framework.config_quality import KINDS, Bound, QualityRule, Snapshot, Value
from framework.config_rules import matches
from framework.contracts.actions import TableName
from framework.contracts.quality import Severity

# Shapes that the configuration does not write: layers state them of their own tables.
PRIVATE_KINDS = (
    "types",
    "bad_values",
    "implied_keys",
    "accounted",
    "traceable",
    "offset_gaps",
    "late",
    "transactions",
    "waiting",
    "positions",
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one table. Only the fields of its kind are set; `columns` are those of the table that is judged.

    `values`, `low`, `high`, `pattern` are of the kinds accepted, range, length and regex; `text` of sql; `to` and
    `to_keys` of relationship; `limit` of freshness; `percent` of row_count_change.
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
            "implied_keys": "the keys that the changes imply",
        }.get(self.kind, self.name)


def configured(rules: Iterable[QualityRule], name: TableName) -> tuple[QualityRule, ...]:
    """The entries that speak of a table, in their order."""
    return tuple(rule for rule in rules if matches(rule.match, name.database, name.schema, name.table))


def rule_of(entry: QualityRule) -> Rule:
    """A configured entry as a rule."""
    kind = entry.kind
    common = {"kind": kind, "severity": entry.severity, "is_gate": entry.gate}
    columns: tuple[str, ...] = ()
    more: dict[str, object] = {}
    if entry.not_null or entry.unique:
        columns = entry.not_null or entry.unique or ()
    elif entry.accepted:
        columns, more = (entry.accepted.column,), {"values": entry.accepted.values}
    elif entry.range:
        columns, more = (entry.range.column,), {"low": entry.range.min, "high": entry.range.max}
    elif entry.length:
        columns, more = (entry.length.column,), {"low": entry.length.min, "high": entry.length.max}
    elif entry.regex:
        columns, more = (entry.regex.column,), {"pattern": entry.regex.pattern}
    elif entry.relationship:
        columns, more = entry.relationship.columns, {"to": entry.relationship.to, "to_keys": entry.relationship.keys or ()}
    else:
        more = {"limit": entry.freshness, "percent": entry.row_count_change, "text": entry.sql, "snapshot": entry.snapshot}
    shown = ", ".join(columns) or entry.sql
    name = entry.name or (f"{kind}({shown})" if shown else kind)
    return Rule(name=name, columns=columns, **common, **more)  # type: ignore[arg-type]


def default_rules(keys: Sequence[str]) -> tuple[Rule, ...]:
    """What every replica with a key is held against: a key in every row, each key once."""
    if not keys:
        return ()
    names = ", ".join(keys)
    return (Rule(f"not_null({names})", "not_null", tuple(keys)), Rule(f"unique({names})", "unique", tuple(keys)))


def told_apart(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules, each name once: what comes later under a name that is taken replaces it."""
    return tuple({rule.name: rule for rule in rules}.values())


def digest(rules: Iterable[Rule], *more: object) -> str:
    """A short text that changes with the rules."""
    return hashlib.sha256(repr((tuple(rules), more)).encode()).hexdigest()[:16]


def is_known(kind: str) -> bool:
    """Whether a kind is one of the documented ones."""
    return kind in KINDS or kind in PRIVATE_KINDS


def _between(low: Bound | None, high: Bound | None) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"between {low} and {high}"
