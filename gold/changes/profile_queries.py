"""Measurements of many row changes: a Spark job for their groups, and one for the widths of all columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gold.changes.effects import naming_index
from gold.changes.full_loads import is_of_load
from gold.changes.profile import NOTHING_APPLIED, ChangeGroup, Profile, Progress, SchemaColumn, profile_of
from gold.changes.wide_images import WIDE
from gold.schema.lineage import Lineage
from gold.schema.type_inference import MAX_DIGITS, ColumnEvidence

# Patterns end in \z, as those of the casts do: in Java, $ also matches before a line break at the end.
_WHOLE = rf"^-?\d{{1,{MAX_DIGITS}}}\z"
_PLAIN = r"^-?\d+(\.\d+)?\z"
_GROUP = ("naming", "schema_id", "keys", "op")


def profile_rows(
    rows: DataFrame,
    lineage: Lineage,
    schemas: Mapping[str, Sequence[SchemaColumn]],
    applied: Progress = NOTHING_APPLIED,
) -> Profile:
    """The profile of row changes with the column names of their time.

    Args:
        rows: Row changes of one table: `batch`, `op`, `sequence`, `event_time`, `keys`, `before`, `after`,
            `partial`, `schema_id`.
        lineage: The table's lineage.
        schemas: The columns of every schema that the rows name.
        applied: What is applied already; changes after it are new.
    """
    return profile_of(_Queries(rows, lineage, applied), lineage, schemas)


class _Queries:
    """Measures row changes with Spark."""

    def __init__(self, rows: DataFrame, lineage: Lineage, applied: Progress) -> None:
        self._rows = rows.withColumn("naming", naming_index(lineage))
        self._applied = applied

    def groups(self) -> Sequence[ChangeGroup]:
        """One group for each naming, schema, key and operation of the changes."""
        is_new = F.col("batch") > self._applied.batch
        is_late = is_new & (F.col("sequence") <= F.lit(self._applied.sequence or ""))
        is_update = (F.col("op") == "update") & F.col("before").isNotNull()
        moved = F.exists(
            "keys", lambda k: ~F.try_element_at("before", k).eqNullSafe(F.try_element_at("after", k))
        )
        is_partial = F.coalesce("partial", F.lit(False))
        is_key_change = is_update & F.coalesce(moved, F.lit(True))
        aggregates = {
            "rows": F.count("*"),
            "new": F.sum(is_new.cast("long")),
            "late": F.sum(is_late.cast("long")),
            "low": F.min("sequence"),
            "high": F.max("sequence"),
            "event_time": F.max("event_time"),
            "loaded": F.count_if(is_of_load(F.col("op"), F.col("sequence"))),
            "has_partials": F.max(is_partial),
            "has_key_changes": F.max(is_key_change),
            "has_partial_key_changes": F.max(is_key_change & is_partial),
        }
        grouped = self._rows.groupBy(*_GROUP).agg(*(value.alias(name) for name, value in aggregates.items()))
        return [
            ChangeGroup(naming, schema_id, None if keys is None else tuple(keys), op, *measured)
            for naming, schema_id, keys, op, *measured in grouped.collect()
        ]

    def names_with_values(self, names: Set[str]) -> Set[tuple[int, str | None, str]]:
        """The naming, schema and name of those of the columns that have a value in some image."""
        has_value = F.filter(
            F.array(*(F.lit(name) for name in sorted(names))),
            lambda name: F.coalesce(
                F.try_element_at("before", name), F.try_element_at("after", name)
            ).isNotNull(),
        )
        shown = self._rows.select("naming", "schema_id", F.explode(has_value).alias("name")).distinct()
        return {(row["naming"], row["schema_id"], row["name"]) for row in shown.collect()}

    def widths(self, names: Set[str]) -> Mapping[tuple[int, str], ColumnEvidence]:
        """The widths of the numbers in these columns, by naming and name."""
        text = F.col("cell.value")
        small = text.try_cast("bigint")  # patterns only for what is no small number as it is usually written
        is_small = F.coalesce(small.cast("string") == text, F.lit(False))
        whole = F.when(is_small, small.cast("decimal(38,0)")).when(
            text.rlike(_WHOLE), text.cast("decimal(38,0)")
        )
        is_plain = is_small | text.rlike(_PLAIN)
        digits = F.when(is_small, F.length(text) - (small < 0).cast("int")).otherwise(
            F.length(F.regexp_replace(F.regexp_extract(text, r"^-?(\d+)", 1), "^0+(?=.)", ""))
        )
        scale = F.when(is_small, F.lit(0)).otherwise(F.length(F.regexp_extract(text, r"\.(\d+)$", 1)))
        measured = (
            self._rows.select("naming", F.explode(_cells(sorted(names))).alias("cell"))
            .where("cell.value IS NOT NULL")
            .groupBy("naming", F.col("cell.key").alias("name"))
            .agg(
                F.max(F.when(is_plain, digits)),
                F.max(F.when(is_plain, scale)),
                F.min(whole),
                F.max(whole),
                F.max(~is_plain | (digits + scale > MAX_DIGITS)),
            )
        )
        return {
            (naming, name): ColumnEvidence(
                digits=digits_seen or 0,
                scale=scale_seen or 0,
                low=int(low or 0),
                high=int(high or 0),
                has_others=bool(others),
            )
            for naming, name, digits_seen, scale_seen, low, high, others in measured.collect()
        }


def _cells(names: Sequence[str]) -> Column:
    """The key and value of these columns in both images; the value may be null."""
    images = ("before", "after")
    if len(names) < WIDE:
        looked_up = [
            F.struct(F.lit(name).alias("key"), F.try_element_at(image, F.lit(name)).alias("value"))
            for image in images
            for name in names
        ]
        return F.array(*looked_up)
    wanted = [F.map_filter(image, lambda key, _: key.isin(*names)) for image in images]
    return F.concat(*(F.coalesce(F.map_entries(image), F.array()) for image in wanted))
