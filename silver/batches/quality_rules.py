"""Quality rules that check changes before they are committed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.config.quality import OnChange, Quality, QualityRule
from framework.config.value_types import split_name
from framework.contracts.quarantine_reasons import Reason
from framework.quality.row_checks import is_broken_where_there
from framework.quality.rules import rule_of


def change_rules(quality: Quality, on_change: OnChange) -> tuple[QualityRule, ...]:
    """The rules that apply to changes with this action."""
    return tuple(entry for entry in quality.rules if quality.enabled and entry.on_change is on_change)


def quarantine_broken(rows: DataFrame, rules: Sequence[QualityRule]) -> DataFrame:
    """Quarantine the rows (STAGED) that break a rule. Their messages keep the images, for a replay."""
    if not rules:
        return rows
    marked = rows.withColumn("_rule", _first((breaks(entry), F.lit(rule_of(entry).name)) for entry in rules))
    is_broken_row = F.col("_rule").isNotNull()
    changed = {
        "kind": F.when(is_broken_row, F.lit("quarantined")).otherwise(F.col("kind")),
        "reason": F.when(is_broken_row, F.lit(str(Reason.RULE_BROKEN))).otherwise(F.col("reason")),
        "detail": F.coalesce("_rule", "detail"),
        "before": F.when(~is_broken_row, F.col("before")),
        "after": F.when(~is_broken_row, F.col("after")),
    }
    return marked.select(*(changed[n].alias(n) if n in changed else F.col(f"`{n}`") for n in rows.columns))


def breaks(entry: QualityRule) -> Column:
    """Whether the `after` image of a change breaks a rule; columns that the image lacks are not checked."""
    is_whole = ~F.coalesce(F.col("partial"), F.lit(False))
    is_image = (F.col("kind") == "row") & (F.col("op") != "delete") & F.col("after").isNotNull()
    broken = is_broken_where_there(
        rule_of(entry),
        lambda name: F.try_element_at(F.col("after"), _own_name(name)),
        lambda name: is_whole | _own_name(name).isNotNull(),
    )
    return F.coalesce(is_image & _is_of(entry.match) & broken, F.lit(False))


def breaks_by_name(entries: Sequence[QualityRule]) -> dict[str, Column]:
    """Whether a change breaks the rule of each name; the later entry counts where two match its table."""
    named: dict[str, list[QualityRule]] = {}
    for entry in entries:
        named.setdefault(rule_of(entry).name, []).append(entry)
    return {
        name: _first((_is_of(entry.match), breaks(entry)) for entry in reversed(same)).otherwise(F.lit(False))
        for name, same in named.items()
    }


def _first(cases: Iterable[tuple[Column, Column]]) -> Column:
    """The value of the first case that holds: one flat chain, as deep nesting overflows the stack."""
    (holds, value), *rest = cases
    return reduce(lambda chain, case: chain.when(*case), rest, F.when(holds, value))


def _own_name(name: str) -> Column:
    """The image's own spelling of a column's name, of which letters may differ in case; null without one."""
    names = F.map_keys("after")
    alike = F.get(F.filter(names, lambda own: F.lower(own) == F.lower(F.lit(name))), F.lit(0))
    return F.when(F.array_contains(names, F.lit(name)), F.lit(name)).otherwise(alike)


def _is_of(pattern: str) -> Column:
    """Whether a row is of a table that the pattern matches, part by part."""
    parts = [f"^{fnmatch.translate(part).removesuffix('Z')}z" for part in split_name(pattern)]
    names = {1: ("table",), 2: ("database", "table"), 3: ("database", "schema", "table")}[len(parts)]
    fits = reduce(
        lambda a, b: a & b, (F.col(f"`{name}`").rlike(part) for name, part in zip(names, parts, strict=True))
    )
    absent = [name for name in ("database", "schema") if name not in names]
    return reduce(lambda a, b: a & b, (F.col(f"`{name}`").isNull() for name in absent), fits)
