"""The range of keys that few changes touch: a merge then reads only the files that can have one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.naming import text_literal
from gold.changes.few_changes import FewChange
from gold.planning.plan import Plan
from gold.schema.columns import TableColumn
from gold.schema.type_inference import INTEGERS
from gold.writing.certain_fit import certainly_fits

LONGEST = 200
"""Characters of the longest key whose range is named in a statement."""


def key_bounds(few: Sequence[FewChange] | None, plan: Plan) -> Mapping[str, tuple[str, str]] | None:
    """The lowest and the highest value of each key column in these changes, as SQL, by the column's name.

    Key columns of other types than whole numbers and texts are left out.

    Args:
        few: All changes that a merge applies; None where they are too many.
        plan: The plan, whose changes keep the keys of their rows.

    Returns:
        None where a key may be null, or where the texts do not surely show it; then nothing is known.
    """
    if not few or not all(plan.namings[change.naming].keeps_images for change in few):
        return None
    if plan.has_new_former_keys or plan.batch_profile.has_key_changes:
        return None
    found: dict[str, tuple[str, str]] = {}
    for column in plan.layout.key_columns:
        texts: set[str] = set()
        for change in few:
            text = None if change.image is None else change.image.get(column.name)
            if text is None or not certainly_fits(text, column.type):
                return None
            texts.add(text)
        if column.type in INTEGERS:
            numbers = [int(text) for text in texts]
            found[column.name] = as_sql(min(numbers), max(numbers))
        elif column.type == "string" and max(map(len, texts)) <= LONGEST:
            found[column.name] = as_sql(min(texts), max(texts))
    return found


def key_measures(keys: Sequence[TableColumn], is_counted: Column) -> list[Column]:
    """Aggregates over rows with k0… that show where the keys are, for `measured_bounds`.

    They are null0…, whether a key is null, and of whole numbers and texts low0… and high0…, their extremes;
    all null without rows.

    Args:
        keys: The key columns.
        is_counted: Which rows count.
    """
    found = [F.max(is_counted & F.col(f"k{i}").isNull()).alias(f"null{i}") for i in range(len(keys))]
    for i in _bounded(keys):
        key = F.when(is_counted, F.col(f"k{i}"))
        found += [F.min(key).alias(f"low{i}"), F.max(key).alias(f"high{i}")]
    return found


def measured_bounds(
    keys: Sequence[TableColumn], measured: Mapping[str, Any]
) -> Mapping[str, tuple[str, str]] | None:
    """The bounds of the key columns, as `key_bounds` returns them, by what `key_measures` has measured."""
    if any(measured[f"null{i}"] is not False for i in range(len(keys))):
        return None
    bounds = {}
    for i in _bounded(keys):
        low, high = measured[f"low{i}"], measured[f"high{i}"]
        if low is None:
            return None  # there are no rows
        if keys[i].type in INTEGERS or max(len(low), len(high)) <= LONGEST:
            bounds[keys[i].name] = as_sql(low, high)
    return bounds


def _bounded(keys: Sequence[TableColumn]) -> list[int]:
    return [i for i, key in enumerate(keys) if key.type in INTEGERS or key.type == "string"]


def as_sql(low: int | str, high: int | str) -> tuple[str, str]:
    """The lowest and the highest value of a key column, as SQL writes them."""
    first, last = (text_literal(end) if isinstance(end, str) else str(end) for end in (low, high))
    return first, last
