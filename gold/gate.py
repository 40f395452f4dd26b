"""Gates: rules that judge a batch's reduced rows before they are merged. A batch that fails is not merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.quality import MOST_KEYS
from framework.errors import MainstemError
from framework.quality.measure import is_broken, key_text
from framework.quality.rules import Rule
from gold.cast import typed
from gold.merge import Layout

CONDITION = "GATE_FAILED"


def refuse_broken(rows: DataFrame, layout: Layout, rules: Sequence[Rule], table: str) -> None:
    """Raise for the first rule that rows about to be put break; `rows` have `after`, `is_put` and `is_whole`.

    Columns that a partial image leaves out are not judged: they are in the replica, and were judged when they came.
    """
    if not rules:
        return
    put = rows.where("is_put AND NOT is_deleted") if "is_deleted" in rows.columns else rows.where("is_put")
    kinds = {column.name: column.type for column in layout.columns}
    known = [rule for rule in rules if all(name in kinds for name in rule.columns)]
    for rule in rules:
        if rule not in known:
            raise _refused(rule, f"no column {', '.join(n for n in rule.columns if n not in kinds)}", table)
    tests = [_fails(rule, kinds) for rule in known]
    counted = put.agg(F.count("*"), *(F.count_if(test) for test in tests)).first()
    counts = [int(value) for value in counted] if counted else [0]
    for rule, test, failed in zip(known, tests, counts[1:], strict=True):
        if failed:
            names = [key.name for key in layout.key_columns] or [column.name for column in layout.columns[:3]]
            image = [F.try_element_at("after", F.lit(name)).alias(name) for name in names]
            keys = put.where(test).select(*image).select(key_text(names).alias("key")).orderBy("key").limit(MOST_KEYS).collect()
            named = ", ".join(f"[{row[0]}]" for row in keys)
            raise _refused(rule, f"{failed:,} of {counts[0]:,} rows of the batch break {rule.name}: {named}", table)


def _fails(rule: Rule, kinds: dict[str, str]) -> Column:
    has = reduce(lambda a, b: a & b, (F.map_contains_key("after", F.lit(name)) for name in rule.columns))
    broken = is_broken(rule, lambda name: typed(F.try_element_at(F.col("after"), F.lit(name)), kinds[name]))
    return F.coalesce((F.col("is_whole") | has) & broken, F.lit(False))


def _refused(rule: Rule, found: str, table: str) -> MainstemError:
    return MainstemError(
        CONDITION,
        found=found,
        where=f"table {table}, rule {rule.name} with `gate: true`",
        action="correct the rows in the source, or change the rule, and run again: the batch waits in silver",
    )
