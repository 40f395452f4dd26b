"""The rules of tables: those of the configuration, and those that every replica has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from framework.config.quality import KINDS, QualityRule
from framework.contracts.expectations import Rule

# Kinds that the configuration cannot write: layers state them for their own tables.
PRIVATE_KINDS = (
    "types",
    "bad_values",
    "inserts_met",
    "implied_keys",
    "accounted",
    "traceable",
    "offset_gaps",
    "late",
    "transactions",
    "waiting",
    "positions",
)


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
        columns, more = (
            entry.relationship.columns,
            {"to": entry.relationship.to, "to_keys": entry.relationship.keys or ()},
        )
    else:
        more = {
            "limit": entry.freshness,
            "percent": entry.row_count_change,
            "text": entry.sql,
            "snapshot": entry.snapshot,
        }
    described = ", ".join(columns) or entry.sql
    name = entry.name or (f"{kind}({described})" if described else kind)
    return Rule(name=name, columns=columns, **common, **more)  # type: ignore[arg-type]


def default_rules(keys: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of every replica with a key: each row has a key, and each key one row."""
    if not keys:
        return ()
    names = ", ".join(keys)
    return (
        Rule(f"not_null({names})", "not_null", tuple(keys)),
        Rule(f"unique({names})", "unique", tuple(keys), nulls_equal=True),
    )


def for_keys(rule: Rule, keys: Sequence[str]) -> Rule:
    """The rule; one that the key is unique takes nulls as equal, as everything in gold that compares keys."""
    is_of_key = rule.kind == "unique" and rule.columns == tuple(keys)
    return replace(rule, nulls_equal=True) if is_of_key else rule


def unique_by_name(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules, each name once: a later rule replaces an earlier one of the same name."""
    return tuple({rule.name: rule for rule in rules}.values())


def digest(rules: Iterable[Rule], *more: object) -> str:
    """A short text that changes with the rules."""
    return hashlib.sha256(repr((tuple(rules), more)).encode()).hexdigest()[:16]


def is_known(kind: str) -> bool:
    """Whether a kind is one of the documented ones."""
    return kind in KINDS or kind in PRIVATE_KINDS
