"""Gates: rules that a batch's rows must pass before they are merged. A batch that fails is not merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.expectations import Rule
from framework.contracts.quality import MOST_KEYS
from framework.errors import MainstemError
from framework.quality.row_checks import is_broken_where_there, key_text
from framework.text.formatting import noun_for, quantity
from gold.schema.casting import typed
from gold.schema.layout import Layout


class GateFailed(MainstemError):
    """A batch is refused by a gate; `keys` are some of the rows' keys, at most MOST_KEYS, smallest first.

    Keys may be personal data. They are not in the text, which logs keep.
    """

    def __init__(
        self, condition: str, *, found: str, where: str, action: str, keys: Sequence[str] = ()
    ) -> None:
        super().__init__(condition, found=found, where=where, action=action)
        self.keys = tuple(keys)

    def __reduce__(self) -> tuple[object, ...]:
        parts = partial(GateFailed, found=self.found, where=self.where, action=self.action, keys=self.keys)
        return parts, (self.condition,)


def refuse_failing_rows(rows: DataFrame, layout: Layout, rules: Sequence[Rule], table: str) -> None:
    """Raises for the first rule that an upserted row breaks.

    Columns that a partial image leaves out are not checked: the replica has them, and they were checked
    when they came.

    Args:
        rows: The newest states to merge: `after`, `is_upsert`, `is_whole`, and `is_deleted` where deletes
            mark rows.
        layout: The replica's columns.
        rules: The rules with `gate: true`.
        table: The table's name, for the error.

    Raises:
        GateFailed: With the number of rows that break the rule, and the keys of some.
    """
    if not rules:
        return
    upserts = (
        rows.where("is_upsert AND NOT is_deleted")
        if "is_deleted" in rows.columns
        else rows.where("is_upsert")
    )
    kinds = {column.name: column.type for column in layout.columns}
    known = [rule for rule in rules if all(name in kinds for name in rule.columns)]
    for rule in rules:
        if rule not in known:
            raise _refused(rule, f"no column {', '.join(n for n in rule.columns if n not in kinds)}", table)
    tests = [_fails(rule, kinds) for rule in known]
    counted = upserts.agg(F.count("*"), *(F.count_if(test) for test in tests)).first()
    counts = [int(value) for value in counted] if counted else [0]
    for rule, test, failed in zip(known, tests, counts[1:], strict=True):
        if failed:
            names = [key.name for key in layout.key_columns] or [column.name for column in layout.columns[:3]]
            image = [F.try_element_at("after", F.lit(name)).alias(name) for name in names]
            keys = (
                upserts.where(test)
                .select(*image)
                .select(key_text(names).alias("key"))
                .orderBy("key")
                .limit(MOST_KEYS)
                .collect()
            )
            breaks = noun_for(failed, "breaks", "break")
            found = f"{failed:,} of {quantity(counts[0], 'row')} of the batch {breaks} {rule.name}"
            raise _refused(rule, found, table, [row[0] for row in keys])


def _fails(rule: Rule, kinds: dict[str, str]) -> Column:
    broken = is_broken_where_there(
        rule,
        lambda name: typed(F.try_element_at(F.col("after"), F.lit(name)), kinds[name]),
        lambda name: F.col("is_whole") | F.map_contains_key("after", F.lit(name)),
    )
    return F.coalesce(broken, F.lit(False))


def _refused(rule: Rule, found: str, table: str, keys: Sequence[str] = ()) -> GateFailed:
    return GateFailed(
        "GATE_FAILED",
        found=found,
        where=f"table {table}, rule {rule.name} with `gate: true`",
        action="correct the rows in the source, or change the rule, and run again: the batch waits in silver",
        keys=keys,
    )
