"""The groups in which changes may be repeats, where a position does not identify a change.

A group has the changes of a table at one position. In a partition whose order is not that of its times (see
`silver/changes/partition_order.py`), it has those of the position that the partition had reached, whatever
their own times: a row may have been changed back at an earlier time. A change that comes again when more has
been reached is a repeat; it joins the group in which it came first.

    offset   time   reached   change of a row   group
    7        1      1         A to B            1
    8        0      1         B to A            1
    9        1      1         A to B            1: it happened again
    10       2      2         B to C            2
    11       1      2         A to B            1: a repeat

Rows of tables without a key stay with those of their own time, because equal rows of one record are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from silver.changes.pairing import KNOWN, NEW
from silver.changes.staged_rows import STAGED
from silver.values.sequence import epoch_part_sql, without_tie_sql

TABLE = ("source", "database", "schema", "table")
IS_NEW = f"origin = '{NEW}'"
_PARTITION = ["_group", "topic", "partition"]


def table_key(*more: str) -> Column:
    """A text that identifies the table (and more columns) of a row; nulls count as values."""
    return F.to_json(
        F.struct(*(F.col(f"`{name}`") for name in (*TABLE, *more))), {"ignoreNullFields": "false"}
    )


@dataclass(frozen=True)
class DuplicateGroups:
    """The groups of the rows of a batch and of earlier changes.

    Attributes:
        rows: New rows and earlier changes (STAGED with `origin`).
        repeats: The ids (`change_id`) of new rows that occur more than once.
        are_few: Whether the ids are few.
        in_partitions: Whether rows are ordered by their partition.
    """

    rows: DataFrame
    repeats: DataFrame
    are_few: bool
    in_partitions: bool

    def members(self) -> DataFrame:
        """The rows of the groups with repeats, with their `_group`."""
        return self.among(self.rows)

    def among(self, rows: DataFrame) -> DataFrame:
        """The rows that belong to these groups, with their `_group`."""
        grouped = self._with_groups(rows)
        if self.in_partitions:
            return self._marked(grouped).where("_is_member").drop("_is_member")
        return grouped.join(self._places, "_group", "left_semi")

    def rest(self) -> DataFrame:
        """The new rows (STAGED) that belong to none of them."""
        grouped = self._with_groups(self.rows.where(IS_NEW))
        if self.in_partitions:
            rest = self._marked(grouped).where("NOT _is_member")
        else:
            rest = grouped.join(self._places, "_group", "left_anti")
        return rest.select(*(F.col(f"`{name}`") for name in STAGED.names))

    @cached_property
    def _suspects(self) -> DataFrame:
        """The rows that have one of the ids."""
        return self.rows.join(self._small(self.repeats), "change_id", "left_semi")

    @cached_property
    def _places(self) -> DataFrame:
        """The groups of new rows that have one of the ids."""
        grouped = self._with_groups(self._suspects.where(IS_NEW))
        return self._small(grouped.select("_group").distinct())

    @cached_property
    def _first(self) -> DataFrame:
        """What the partition had reached where each id and ordinal came first, and if a row has a key."""
        order = F.struct(F.col("origin") != KNOWN, "topic", "partition", "offset")
        first = F.min_by(F.expr(without_tie_sql("sequence")), order)
        by = self._suspects.groupBy("change_id", "ordinal")
        return self._small(by.agg(first.alias("_first"), F.max(_has_key()).alias("_may_move")))

    def _with_groups(self, rows: DataFrame) -> DataFrame:
        if not self.in_partitions:
            return rows.withColumn("_group", _group(F.col("position")))
        found = rows.join(self._first, ["change_id", "ordinal"], "left")
        reached = F.coalesce("_first", F.expr(without_tie_sql("sequence")))
        place = F.when(F.coalesce("_may_move", _has_key()), reached).otherwise(F.col("position"))
        return found.withColumn("_group", _group(place)).select(*rows.columns, "_group")

    def _marked(self, grouped: DataFrame) -> DataFrame:
        """Rows of partitions, with `_is_member`.

        Where the times of a partition are behind for long, a group is large; what came before all of its
        repeats and the changes that they may repeat is no member.
        """
        suspects = self._with_groups(self._suspects)
        begins = self._small(suspects.groupBy(*_PARTITION).agg(F.min("offset").alias("_begin")))
        places = self._places.withColumn("_is_open", F.lit(True))
        is_behind = F.col("position") < F.expr(without_tie_sql("sequence"))
        is_before = _has_key() & is_behind & (F.col("offset") < F.col("_begin"))
        is_member = F.col("_is_open").isNotNull() & ~F.coalesce(is_before, F.lit(False))
        joined = grouped.join(places, "_group", "left").join(begins, _PARTITION, "left")
        return joined.withColumn("_is_member", is_member).select(*grouped.columns, "_is_member")

    def _small(self, frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if self.are_few else frame


def _has_key() -> Column:
    return F.coalesce(F.size("keys") > 0, F.lit(False))


def _group(place: Column) -> Column:
    """A text for a table and position, or for its epoch and the key or values where it has no position."""
    values = F.transform("keys", lambda name: F.try_element_at(F.col("after"), name))
    content = _content("after").cast("string")
    row = F.when(_has_key(), F.to_json(F.struct(values.alias("key")))).otherwise(content)
    copied = F.concat_ws("|", F.expr(epoch_part_sql("sequence")), table_key(), row)
    read = F.when((F.col("op") == "read") & ~_has_key(), F.lit("read"))
    placed = F.concat_ws("|", table_key(), place, read)
    return F.when(F.col("position").isNull(), copied).otherwise(placed)


def split_groups(members: DataFrame) -> DataFrame:
    """Split the groups, so that not a whole statement is decided by one call of Python.

    Rows that share a key, before or after the change, stay together, because one continues from the other; in
    a record (with a `run`), rows that are equal. A group stays whole where rows leave and reach one key
    (`id = id + 1`) or reach it from two, or where rows name different keys.

    Args:
        members: Rows (STAGED) with `_group`.

    Returns:
        The same with smaller groups, with `is_in_record`, and with `delivery`: the first offset of the
        message's delivery, as `deliveries` of `silver/changes/record_runs.py` finds it in the whole group.
    """
    place = Window.partitionBy("_group")
    is_before = (F.col("op") == "delete") | F.col("after").isNull()
    key = F.coalesce(_key_text(F.when(is_before, F.col("before")).otherwise(F.col("after"))), F.lit("-"))
    left = F.when(key != _key_text(F.col("before")), _key_text(F.col("before")))
    keys = F.coalesce(F.to_json("keys"), F.lit("[]"))
    content = F.xxhash64("op", _content("before"), _content("after"))
    start = F.coalesce("run", "offset")
    in_order = Window.partitionBy("_group", "topic", "partition").orderBy(start, "offset")
    end = F.max(F.coalesce("run_end", "offset")).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    own, here = F.col("_at") == F.col("_key"), Window.partitionBy("_group", "_at")
    reached = F.when(own, F.col("_left"))
    is_left = F.max(~own).over(here) & F.max(reached.isNotNull()).over(here)
    is_tangled = F.coalesce(is_left | (F.min(reached).over(here) != F.max(reached).over(here)), F.lit(False))
    spread = members.withColumns({"_key": key, "_left": left, "_keys": keys, "_content": content})
    spread = spread.withColumn("_at", F.explode(F.array_compact(F.array("_key", "_left"))))
    spread = spread.withColumns({"_tangled": is_tangled, "_from": F.min(reached).over(here)})
    whole = F.max("_tangled").over(place) | (F.min("_keys").over(place) != F.max("_keys").over(place))
    marked = spread.where(own).withColumns(
        {
            "_is_whole": whole,
            "is_in_record": F.max(F.col("run").isNotNull()).over(place),
            "_begin": F.when(end.isNull() | (start - 1 > end), start),
        }
    )
    marked = marked.withColumn(
        "delivery",
        F.max("_begin").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)),
    )
    part = F.when(F.col("is_in_record"), F.col("_content").cast("string"))
    part = part.when(~F.col("_is_whole"), F.coalesce("_from", "_key"))
    return marked.withColumn("_group", F.concat_ws("|", "_group", part)).select(
        *members.columns, "is_in_record", "delivery"
    )


def _content(image: str) -> Column:
    """A number for the values of an image, whatever the order of its columns."""
    return F.xxhash64(F.array_sort(F.map_entries(image)))


def _key_text(image: Column) -> Column:
    """The values of the key in an image as a text; null if there is no key or the image lacks part of it."""
    has_key = (F.size("keys") > 0) & F.forall("keys", lambda name: F.map_contains_key(image, name))
    values = F.transform("keys", lambda name: F.try_element_at(image, name))
    return F.when(has_key, F.to_json(F.struct(values.alias("key")), {"ignoreNullFields": "false"}))
