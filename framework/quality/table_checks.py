"""Rules that read more than the table's own rows: another replica, or a snapshot of the source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.expectations import Finding, Rule, Snapshot
from framework.contracts.quality import MOST_KEYS
from framework.naming import quoted
from framework.quality.exact_numbers import is_same
from framework.quality.row_checks import key_text, named_texts
from framework.text.formatting import noun_for, quantity
from framework.text.row_trace import trace_command

_EXACT_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")
_FLOATING = ("float", "double")
_PLAIN = (*_EXACT_NUMBERS, *_FLOATING, "boolean", "date", "timestamp", "timestamp_ntz")
"""Types of which a value can be cast to another one and back."""


def check_relationship(rows: DataFrame, others: DataFrame, rule: Rule, keys: Sequence[str]) -> Finding:
    """Finds rows whose columns match no row of another replica; `rule.to_keys` are the columns there."""
    wanted = others.select(
        *(F.col(quoted(name)).alias(f"_k{i}") for i, name in enumerate(rule.to_keys))
    ).distinct()
    on = _all(F.col(quoted(name)) == F.col(f"_k{i}") for i, name in enumerate(rule.columns))
    told = rows.where(_all(F.col(quoted(name)).isNotNull() for name in rule.columns))
    orphans = told.join(wanted, on, "left_anti").select(
        key_text([*keys, *(c for c in rule.columns if c not in keys)]).alias("key")
    )
    failed = orphans.count()
    named = _first(orphans) if failed else ()
    return Finding(
        rule, rows.count(), failed, named, f"{quantity(failed, 'row names', 'rows name')} no row of {rule.to}"
    )


def read_snapshot(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """The dump as Spark reads it; every column of CSV is text, under the name in the first line."""
    options = {"header": "true", **snapshot.options} if snapshot.format == "csv" else snapshot.options
    reader = spark.read.format(snapshot.format).options(**options)
    return reader.load(snapshot.path) if snapshot.path else reader.load()


def compare_snapshot(
    rows: DataFrame, dump: DataFrame, rule: Rule, keys: Sequence[str], table: str
) -> Finding:
    """Compares a replica with a dump of its source: by count, by key, and by a hash of the common columns.

    Args:
        rows: The rows of the replica.
        dump: The rows of the source.
        rule: The rule, with the columns to compare.
        keys: The columns of the key.
        table: The name of the table, as `mainstem trace` takes it.
    """
    snapshot = rule.snapshot
    have = {name.lower(): name for name in dump.columns}
    wanted = (
        snapshot.columns
        if snapshot and snapshot.columns
        else [c for c in rows.columns if c.lower() in have and not c.startswith("_cdc_")]
    )
    columns = [*keys, *(name for name in wanted if name not in keys)]
    absent = [name for name in columns if name.lower() not in have]
    if absent or not keys:
        what = f"no column {', '.join(absent)} in the snapshot" if absent else "the table has no key"
        return Finding(rule, 0, 1, (), what, f"the snapshot has {', '.join(dump.columns)}"[:500])
    kinds, values = dict(rows.dtypes), [F.col(quoted(name)) for name in columns]
    mine = _hashed(rows, values, [value.cast("string") for value in values], keys, "mine")
    cells = [_as_type(dump, have[name.lower()], kinds[name]) for name in columns]
    theirs = _hashed(dump, [value for value, _ in cells], [text for _, text in cells], keys, "theirs")
    both = mine.join(
        theirs,
        _all(F.col(f"mine.k{i}").eqNullSafe(F.col(f"theirs.k{i}")) for i in range(len(keys))),
        "full_outer",
    )
    difference = (
        F.when(F.col("theirs.row").isNull(), F.lit("not in the snapshot"))
        .when(F.col("mine.row").isNull(), F.lit("not in the replica"))
        .when(F.col("mine.hash") != F.col("theirs.hash"), _differing(columns, len(keys)))
    )
    key = F.coalesce(F.col("mine.key"), F.col("theirs.key"))
    differing = both.select(
        key.alias("key"), difference.alias("difference"), F.col("mine.row").isNotNull().alias("is_mine")
    )
    counts = differing.agg(F.count("*"), F.count_if("is_mine"), F.count("difference")).first()
    total, own, failed = (int(counts[0]), int(counts[1]), int(counts[2])) if counts else (0, 0, 0)
    named = (
        differing.where("difference is not null").orderBy("key").limit(MOST_KEYS).collect() if failed else []
    )
    differ = noun_for(failed, "differs", "differ")
    observed = f"{quantity(own, 'row')}, {failed:,} of {quantity(total, 'key')} {differ}"
    return Finding(
        rule,
        total,
        failed,
        tuple(f"{r[0]}: {r[1]}" for r in named),
        observed,
        f"trace a key: {trace_command(table, keys, [named[0][0]], kinds)}" if named else None,
    )


def _hashed(
    frame: DataFrame, values: Sequence[Column], texts: Sequence[Column], keys: Sequence[str], alias: str
) -> DataFrame:
    """The key's values, the texts of all cells, their hash, and the key for people; the key comes first."""
    cells = F.struct(*(text.alias(f"v{i}") for i, text in enumerate(texts)))
    # a null leaves a hash as it was: which cells are null is hashed as well
    hashed = F.xxhash64(*texts, *(text.isNull() for text in texts))
    return frame.select(
        *(values[i].alias(f"k{i}") for i in range(len(keys))),
        cells.alias("row"),
        hashed.alias("hash"),
        named_texts(dict(zip(keys, texts, strict=False))).alias("key"),
    ).alias(alias)


def _differing(columns: Sequence[str], key_count: int) -> Column:
    names = [
        F.when(~F.col(f"mine.row.v{i}").eqNullSafe(F.col(f"theirs.row.v{i}")), F.lit(name))
        for i, name in enumerate(columns)
        if i >= key_count
    ]
    return F.concat(F.lit("differs in "), F.concat_ws(", ", *names))


def _as_type(dump: DataFrame, name: str, kind: str) -> tuple[Column, Column]:
    """A cell of a dump as the replica's type, and its text there.

    A value that the type does not hold with all its digits is null, and its text is none of the replica's.
    """
    cell, own = F.col(quoted(name)), dict(dump.dtypes)[name]
    value = _exact(cell, own, kind)
    unfit = F.concat(F.coalesce(cell.cast("string"), F.lit("a value")), F.lit(" does not fit"))
    return value, F.when(cell.isNotNull() & value.isNull(), unfit).otherwise(value.cast("string"))


def _exact(cell: Column, own: str, kind: str) -> Column:
    """A cell of the type `own` as another type; null where it would be rounded or cut.

    A floating number is rounded to one of the other size: its digits are no exact value.
    """
    value = cell.try_cast(kind)
    if own == "string" and _is_one_of(kind, _EXACT_NUMBERS):
        if not kind.startswith("decimal"):
            value = cell.try_cast("decimal(38,0)").try_cast(kind)  # `1.0` is an integer, too
        return F.when(is_same(cell, value.cast("string")), value)
    if own == "string" and kind == "date":
        return F.when(F.coalesce(cell.try_cast("timestamp_ntz") == value, F.lit(True)), value)
    are_floating = own in _FLOATING and kind in _FLOATING
    if own == kind or are_floating or not (_is_one_of(own, _PLAIN) and _is_one_of(kind, _PLAIN)):
        return value
    return F.when(value.try_cast(own) == cell, value)


def _is_one_of(kind: str, kinds: Sequence[str]) -> bool:
    return kind.partition("(")[0] in kinds


def _first(frame: DataFrame) -> tuple[str, ...]:
    return tuple(row[0] for row in frame.orderBy("key").limit(MOST_KEYS).collect())


def _all(tests: object) -> Column:
    return reduce(lambda a, b: a & b, list(tests))  # type: ignore[call-overload, no-any-return]
