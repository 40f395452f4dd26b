"""Finding what silver and gold store of rows by the values of their keys.

A row may have had thousands of keys and a table thousands of names. They are data of a join, so that the plan
has the same size for any number of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.naming import quoted
from framework.spark.local_frame import local_frame
from gold.changes.effects import in_any_segment, with_names_of_each
from gold.planning.task import Task
from gold.schema.casting import typed_key
from gold.schema.columns import column_namings
from gold.schema.lineage import Lineage

RowKey = tuple[tuple[str, str | None], ...]
"""The names of columns with their texts, sorted by name; None is null."""


def changes_of_table(changes: DataFrame, task: Task) -> DataFrame:
    """The rows of `silver/changes`, of any kind, that belong to a table."""
    return changes.where(in_any_segment(task.lineage.segments, task.source))


def changes_of_earlier(
    changes: DataFrame, task: Task, earlier: Sequence[Lineage], keys: Sequence[str]
) -> DataFrame:
    """The rows of `silver/changes`, of any kind, of tables that had the name of this one and are gone.

    Their columns have the newest names that each table gave them. A key of one column has the name of this
    table's key.

    Args:
        changes: Rows of `silver/changes`.
        task: The table.
        earlier: The tables before it.
        keys: The columns of its key.
    """
    policy = task.settings.schema_policy
    found = with_names_of_each(
        changes, task.source, [(each, column_namings(each, policy, ())) for each in earlier]
    )
    if len(keys) != 1:
        return found
    images = {side: _with_key(F.col(side), keys[0]) for side in ("before", "after")}
    return found.withColumns(images)


def _with_key(image: Column, name: str) -> Column:
    """The image; if it lacks this column and its own key is another one, that one has this name, too."""
    own = F.when(F.size("keys") == 1, F.try_element_at("keys", F.lit(1)))
    is_other = ~F.map_contains_key(image, name) & F.map_contains_key(image, own)
    named = F.map_concat(image, F.create_map(F.lit(name), F.try_element_at(image, own)))
    return F.when(F.coalesce(is_other, F.lit(False)), named).otherwise(image)


def changes_with_keys(changes: DataFrame, keys: Sequence[RowKey], types: Mapping[str, str]) -> DataFrame:
    """The changes with an image that has one of the keys; columns that a partial image omits are as before.

    Keys are compared as gold compares them: `1` and `01` are one number, and null is null. Texts that do not
    fit the type are compared as texts. An image without a column of the key has none of the keys.

    Args:
        changes: Rows with `before` and `after`.
        keys: At least one key; all have the same columns.
        types: The type of each column of the key.

    Returns:
        The changes, with the columns `has_before` and `has_after`: whether that image has one of the keys.
    """
    names = [name for name, _ in keys[0]]
    before = [F.try_element_at("before", F.lit(name)) for name in names]
    after = [
        F.when(_has("after", name), F.try_element_at("after", F.lit(name))).otherwise(text)
        for name, text in zip(names, before, strict=True)
    ]
    is_whole = {
        "before": _all(_has("before", name) for name in names),
        "after": _all(_has("after", name) | _has("before", name) for name in names),
    }
    own = [types[name] for name in names]
    texts = _frame(changes.sparkSession, keys)
    wanted = texts.select(*_cells([F.col(name) for name in texts.columns], own, "_key")).distinct()
    found = changes
    for side, image in (("before", before), ("after", after)):
        mine = found.select("*", *_cells(image, own, f"_{side}"))
        named = wanted.toDF(*(f"_{side}{name}" for name in wanted.columns)).withColumn(
            f"_has_{side}", F.lit(True)
        )
        same = _all(
            F.col(f"_{side}{name.removeprefix('_key')}").eqNullSafe(F.col(f"_{side}{name}"))
            for name in wanted.columns
        )
        found = mine.join(F.broadcast(named), is_whole[side] & same, "left")
    has = {side: F.coalesce(F.col(f"_has_{side}"), F.lit(False)) for side in ("before", "after")}
    return found.where(has["before"] | has["after"]).select(
        *(F.col(quoted(name)) for name in changes.columns),
        *(test.alias(f"has_{side}") for side, test in has.items()),
    )


def _has(side: str, name: str) -> Column:
    return F.coalesce(F.map_contains_key(side, F.lit(name)), F.lit(False))


def _cells(texts: Sequence[Column], types: Sequence[str], prefix: str) -> Iterator[Column]:
    """The typed value of each text, and the text where it does not fit: both are null for null alone."""
    for i, (text, kind) in enumerate(zip(texts, types, strict=True)):
        value = typed_key(text, kind)
        if kind != "string":
            yield value.alias(f"{prefix}_value{i}")
        yield (text if kind == "string" else F.when(value.isNull(), text)).alias(f"{prefix}_text{i}")


def rows_with_keys(
    rows: DataFrame, keys: Sequence[RowKey], types: Mapping[str, str], names: Mapping[str, str]
) -> DataFrame:
    """The rows of a replica or a history that have one of the keys. A key that does not fit is of none.

    Args:
        rows: The rows of the table.
        keys: At least one key; all have the same columns.
        types: The type of each column of the key.
        names: The name of each column of the key in the table.
    """
    columns = [name for name, _ in keys[0]]
    texts = _frame(rows.sparkSession, keys)
    values = [typed_key(F.col(f"k{i}"), types[name]) for i, name in enumerate(columns)]
    fits = _all(value.isNotNull() | F.col(f"k{i}").isNull() for i, value in enumerate(values))
    wanted = texts.where(fits).select(*(value.alias(f"_cdc_key{i}") for i, value in enumerate(values)))
    same = _all(
        F.col(quoted(names[name])).eqNullSafe(F.col(f"_cdc_key{i}")) for i, name in enumerate(columns)
    )
    return rows.join(F.broadcast(wanted), same, "left_semi")


def _frame(spark: SparkSession, keys: Sequence[RowKey]) -> DataFrame:
    """The texts of the keys as rows of k0…, each key once."""
    texts = sorted({tuple(text for _, text in key) for key in keys}, key=repr)
    return local_frame(spark, texts, ", ".join(f"k{i} string" for i in range(len(texts[0]))))


def _all(tests: Iterable[Column]) -> Column:
    return reduce(lambda a, b: a & b, tests)
