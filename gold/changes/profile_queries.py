"""Measurements of many row changes: a Spark job for their groups, and one for the widths of columns.

The first job also measures the columns of which small whole numbers are expected: often the second one has
nothing left to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gold.changes.effects import naming_index
from gold.changes.full_loads import is_of_load
from gold.changes.profile import (
    NOTHING_APPLIED,
    ChangeGroup,
    Profile,
    Progress,
    SchemaColumn,
    numeric_names,
    profile_of,
)
from gold.changes.wide_images import WIDE
from gold.schema.lineage import Lineage
from gold.schema.type_inference import MAX_DIGITS, ColumnEvidence

# Patterns end in \z, as those of the casts do: in Java, $ also matches before a line break at the end.
_WHOLE = rf"^-?\d{{1,{MAX_DIGITS}}}\z"
_PLAIN = r"^-?\d+(\.\d+)?\z"
_GROUP = ("naming", "schema_id", "keys", "op")
MOST_EXPECTED = 30
"""For more columns than this the first job has too many aggregates; the second one then measures them."""
_Range = tuple[int | None, int | None, bool]


def profile_rows(
    rows: DataFrame,
    lineage: Lineage,
    schemas: Mapping[str, Sequence[SchemaColumn]],
    applied: Progress = NOTHING_APPLIED,
    earlier: Profile | None = None,
) -> Profile:
    """The profile of row changes with the column names of their time.

    Args:
        rows: Row changes of one table: `batch`, `op`, `sequence`, `event_time`, `keys`, `before`, `after`,
            `partial`, `schema_id`.
        lineage: The table's lineage.
        schemas: The columns of every schema that the rows name.
        applied: What is applied already; changes after it are new.
        earlier: What earlier changes show. A column of whole numbers probably has such numbers again.
    """
    expected = set() if earlier is None else whole_numbers(earlier)
    return profile_of(_Queries(rows, lineage, applied, expected), lineage, schemas, earlier)


def whole_numbers(profile: Profile) -> set[str]:
    """The columns of which these changes show only whole numbers."""
    return numeric_names(profile) - {
        name for (_, name), shown in profile.evidence.items() if shown.scale or shown.has_others
    }


class _Queries:
    """Measures row changes with Spark."""

    def __init__(self, rows: DataFrame, lineage: Lineage, applied: Progress, expected: Set[str]) -> None:
        self._rows = rows.withColumn("naming", naming_index(lineage))
        self._applied = applied
        self._expected = sorted(expected) if len(expected) <= MOST_EXPECTED else []
        self._ranges: dict[tuple[int, str], _Range] = {}

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
        ranges = [measure for name in self._expected for measure in _range(name)]
        measures = [value.alias(name) for name, value in aggregates.items()]
        found: list[ChangeGroup] = []
        for naming, schema_id, keys, op, *measured in (
            self._rows.groupBy(*_GROUP).agg(*measures, *ranges).collect()
        ):
            own = measured[: len(measures)]
            found.append(ChangeGroup(naming, schema_id, None if keys is None else tuple(keys), op, *own))
            for name, low, high, is_other in zip(
                self._expected, *(measured[len(measures) + at :: 3] for at in range(3)), strict=True
            ):
                self._note(naming, name, (low, high, bool(is_other)))
        return found

    def _note(self, naming: int, name: str, found: _Range) -> None:
        known = self._ranges.get((naming, name), (None, None, False))
        low = min((each for each in (known[0], found[0]) if each is not None), default=None)
        high = max((each for each in (known[1], found[1]) if each is not None), default=None)
        self._ranges[naming, name] = (low, high, known[2] or found[2])

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
        """The widths of the numbers in these columns, by naming and name; after `groups`."""
        others = {name for (_, name), (*_, is_other) in self._ranges.items() if is_other}
        known = {name for _, name in self._ranges} - others
        found = {
            column: ColumnEvidence(digits=max(_digits(low), _digits(high)), low=low, high=high)
            for column, (low, high, _) in self._ranges.items()
            if column[1] in known & names and low is not None and high is not None
        }
        return {**found, **self._measured_widths(names - known)} if names - known else found

    def _measured_widths(self, names: Set[str]) -> Mapping[tuple[int, str], ColumnEvidence]:
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


def _range(name: str) -> list[Column]:
    """The lowest and highest small whole number of a column in both images, and whether it has other values.

    A small whole number is one of 64 bits as it is usually written.
    """
    texts = [F.try_element_at(image, F.lit(name)) for image in ("before", "after")]
    numbers = [text.try_cast("bigint") for text in texts]
    small = [
        F.when(number.cast("string") == text, number) for number, text in zip(numbers, texts, strict=True)
    ]
    are_other = (text.isNotNull() & number.isNull() for text, number in zip(texts, small, strict=True))
    before, after = are_other
    return [F.min(F.least(*small)), F.max(F.greatest(*small)), F.max(before | after)]


def _digits(number: int) -> int:
    return len(str(abs(number)))


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
