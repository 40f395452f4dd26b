"""The newest rows of few plain changes, made in this process: Spark merges them as they are.

Where Spark has the texts of so few changes, it computes their cells row by row while it plans, and again in
each plan of a merge. A property test holds these rows against those of Spark (`plain_changes`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from framework.config.tables import Deletes
from framework.contracts.events import Op
from framework.spark.arrow_schemas import arrow_schema
from framework.spark.local_frame import arrow_frame, parsed
from gold.changes.effects import key_names
from gold.changes.few_changes import FewChange
from gold.changes.merge_policy import MergePolicy
from gold.planning.plan import Plan
from gold.schema.layout import Layout
from gold.writing.certain_fit import certainly_fit, is_only_text
from gold.writing.plain_changes import have_one_effect

_READ: Mapping[str, Callable[[str], Any]] = {
    "boolean": "true".__eq__,
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
    "double": float,
    "date": date.fromisoformat,
    "binary": base64.b64decode,
}
"""How the texts of a type are read; Arrow reads those of the others."""


def certain_rows(
    spark: SparkSession, few: Sequence[FewChange] | None, plan: Plan, policy: MergePolicy
) -> DataFrame | None:
    """What `plain_rows` makes of changes, where their texts surely show it.

    Args:
        spark: The session.
        few: All changes that a merge or a rewrite applies; None where they are not in this process.
        plan: The plan of their table.
        policy: How its changes are merged.

    Returns:
        k0…, c0…, the system columns and, if a key has no row any more, `is_upsert`. None where Spark must
        read the changes: a cell may not fit its column, a key may have another text, or an image alone does
        not make a row. None also where a row must be tested before it is written.
    """
    if few is None or plan.task.gates or not have_one_effect(plan, policy) or not certainly_fit(few, plan):
        return None
    newest = newest_changes(few, plan.layout, policy)
    return None if newest is None else _typed(spark, newest, plan.layout)


def newest_changes(
    few: Iterable[FewChange], layout: Layout, policy: MergePolicy
) -> Sequence[FewChange] | None:
    """The newest change of each key; None where two texts of keys may be one value.

    Args:
        few: Changes whose cells all fit.
        layout: The columns of the table.
        policy: How deletes and truncates are treated.
    """
    kinds = [(column.name, column.type) for column in layout.key_columns]
    newest: dict[tuple[str | None, ...], FewChange] = {}
    for change in few:
        image = change.image or {}
        key = tuple(image.get(name) for name, _ in kinds)
        texts = zip(key, kinds, strict=True)
        if not all(text is None or is_only_text(text, kind) for text, (_, kind) in texts):
            return None
        if policy.truncated_at is not None and change.sequence < policy.truncated_at:
            continue
        if policy.deletes is Deletes.IGNORE and change.op == Op.DELETE:
            continue
        last = newest.get(key)
        if last is None or _place(last) < _place(change):
            newest[key] = change
    return list(newest.values())


def _place(change: FewChange) -> tuple[str, bool, bool, str]:
    """The place of a change among those of a key, as `effects.ORDER` has it."""
    return change.sequence, change.op == Op.DELETE, not change.is_half, change.change_id


def _typed(spark: SparkSession, changes: Sequence[FewChange], layout: Layout) -> DataFrame:
    kinds = {name: column.type for name, column in zip(layout.cells, layout.columns, strict=True)}
    at = {column.name: cell for cell, column in zip(layout.cells, layout.columns, strict=True)}
    keys = dict(zip(key_names(len(layout.keys)), (at[name] for name in layout.keys), strict=True))
    are_upserts = [change.op != Op.DELETE for change in changes]
    flags = {} if all(are_upserts) else {"is_upsert": "boolean"}
    kinds |= {**{key: kinds[cell] for key, cell in keys.items()}, **layout.system, **flags}
    schema = parsed(spark, ", ".join(f"{name} {kind}" for name, kind in kinds.items()))
    types = {field.name: field.type for field in arrow_schema(schema)}
    images = [change.image or {} for change in changes]
    found = {
        at[column.name]: cells(
            [image.get(column.name) for image in images], column.type, types[at[column.name]]
        )
        for column in layout.columns
    }
    own: dict[str, list[Any]] = {
        "_cdc_sequence": [change.sequence for change in changes],
        "_cdc_event_time": [change.event_time for change in changes],
        "_cdc_change_id": [change.change_id for change in changes],
        "_cdc_deleted": [False] * len(changes),
        "is_upsert": are_upserts,
    }
    found |= {key: found[cell] for key, cell in keys.items()}
    found |= {name: pa.array(own[name], types[name]) for name in (*layout.system, *flags)}
    return arrow_frame(spark, pa.table({name: found[name] for name in kinds}), schema)


def cells(texts: Sequence[str | None], kind: str, stored: pa.DataType) -> pa.Array[Any]:
    """The values of texts that surely fit a type, as `casting.typed` gives them.

    Args:
        texts: Texts for which `certainly_fits` is true, and nulls.
        kind: The type.
        stored: The same as Arrow has it.
    """
    if kind.startswith("decimal"):
        return pa.array([None if text is None else Decimal(text) for text in texts], stored)
    read = _READ.get(kind)
    if read is None:
        return pa.array(texts, pa.string()).cast(stored)
    return pa.array([None if text is None else read(text) for text in texts], stored)
