"""A table's changes as gold reads them: with current column names, and as effects on keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from gold.schema.casting import typed_key
from gold.schema.cell_readings import read_column
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.lineage import START, Lineage, Segment

_FEW_SEGMENTS = 8
ORDER = ("sequence", "rank", "is_whole_change", "change_id")
"""The columns that order the effects on a key; no two effects are equal in all of them."""
_CARRIED = ("sequence", "event_time", "change_id", "transaction_id", "op", "partial")


def in_segment(segment: Segment, source: str) -> Column:
    """Whether a row of `silver/changes` belongs to a segment of a source's table."""
    table = segment.table
    is_after_start = (
        (F.col("source") == source)
        & F.col("database").eqNullSafe(F.lit(table.database))
        & F.col("schema").eqNullSafe(F.lit(table.schema))
        & (F.col("table") == table.table)
        & (F.col("sequence") >= segment.start)
    )
    return is_after_start if segment.end is None else is_after_start & (F.col("sequence") < segment.end)


def table_rows(changes: DataFrame, source: str, lineage: Lineage) -> DataFrame:
    """The row changes of a table: those of `changes` (rows of `silver/changes`) in all its segments."""
    return changes.where(in_any_segment(lineage.segments, source) & (F.col("kind") == "row"))


def in_any_segment(segments: Sequence[Segment], source: str) -> Column:
    """Whether a row of `silver/changes` belongs to one of the segments of a source's table.

    Many segments become one look-up instead of many conditions: the plan stays small, but skips no files.
    """
    if len(segments) <= _FEW_SEGMENTS:
        return reduce(lambda a, b: a | b, (in_segment(segment, source) for segment in segments))
    ends: dict[str, list[dict[str, str | None]]] = {}
    for segment in segments:
        its = ends.setdefault(_joined(_name_parts(segment)), [])
        its.append({"start": segment.start, "end": segment.end})
    known = F.from_json(F.lit(json.dumps(ends)), "map<string,array<struct<start:string,end:string>>>")
    mine = F.try_element_at(known, _joined_columns(F.array("database", "schema", "table")))

    def is_inside(segment: Column) -> Column:
        return (F.col("sequence") >= segment["start"]) & F.coalesce(
            F.col("sequence") < segment["end"], F.lit(True)
        )

    return (F.col("source") == source) & F.coalesce(F.exists(mine, is_inside), F.lit(False))


def _name_parts(segment: Segment) -> tuple[str | None, str | None, str]:
    return segment.table.database, segment.table.schema, segment.table.table


def _joined(texts: Iterable[str | None]) -> str:
    """Joins texts to one, each after its length, so that different lists have different texts."""
    return ",".join("-" if text is None else f"{len(text)}:{text}" for text in texts)


def _joined_columns(texts: Column) -> Column:
    """Joins the texts of an array column in the same way."""
    lengthened = F.transform(
        texts, lambda t: F.coalesce(F.concat(F.length(t).cast("string"), F.lit(":"), t), F.lit("-"))
    )
    return F.array_join(lengthened, ",")


def lookup(values: Mapping[tuple[int, tuple[str, ...]], int], number: Column, names: Column) -> Column:
    """The value for a number and names, null where there is none: one expression for all values."""
    known = {f"{at},{_joined(texts)}": value for (at, texts), value in values.items()}
    return F.try_element_at(
        F.from_json(F.lit(json.dumps(known)), "map<string,int>"),
        F.concat(number.cast("string"), F.lit(","), _joined_columns(names)),
    )


def naming_index(lineage: Lineage) -> Column:
    """Which of the table's namings a row has: the number of column changes before its `sequence`."""
    if not lineage.column_changes:
        return F.lit(0)
    counts = column_change_counts(lineage)
    if len(counts) == len(lineage.column_changes):
        return F.size(
            F.filter(
                F.from_json(F.lit(json.dumps(list(counts))), "array<string>"),
                lambda s: s <= F.col("sequence"),
            )
        )
    text = json.dumps([{"sequence": sequence, "count": count} for sequence, count in counts.items()])
    statements = F.from_json(F.lit(text), "array<struct<sequence:string,count:int>>")
    earlier = F.filter(statements, lambda statement: statement["sequence"] <= F.col("sequence"))
    return F.coalesce(F.array_max(F.transform(earlier, lambda statement: statement["count"])), F.lit(0))


def column_change_counts(lineage: Lineage) -> dict[str, int]:
    """How many column changes there are up to each statement."""
    return {sequence: count for count, (sequence, _) in enumerate(lineage.column_changes, 1)}


def with_current_names(rows: DataFrame, lineage: Lineage, namings: Sequence[ColumnNaming]) -> DataFrame:
    """Renames the columns of both images to current names, and adds the defaults of columns added later.

    `rows` need `before`, `after`, `partial` and `sequence`. The image before a change gets defaults as
    well: it has the key of the row, and a column of the current key may have been added with a default.
    """
    if all(naming.keeps_images for naming in namings):
        return rows
    by_count = {0: namings[0], **{count: namings[count] for count in column_change_counts(lineage).values()}}
    return _with_names(rows, by_count, naming_index(lineage))


def _with_names(rows: DataFrame, namings: Mapping[int, ColumnNaming], number: Column) -> DataFrame:
    """Renames the columns of both images as the naming with the number of their row says."""
    names = _spans({at: {n: t or "" for n, t in naming.names.items()} for at, naming in namings.items()})
    added = _values_at(_spans({at: naming.defaults for at, naming in namings.items()}), number)
    before, after = _renamed(F.col("before"), names, number), _renamed(F.col("after"), names, number)
    if any(naming.readings for naming in namings.values()):
        readings = _values_at(_spans({at: naming.readings for at, naming in namings.items()}), number)
        before, after = _read(before, readings), _read(after, readings)
    is_whole = ~F.coalesce(F.col("partial"), F.lit(False))
    return rows.withColumns(
        {
            "before": F.when(before.isNotNull(), overlay(added, before)).otherwise(before),
            "after": F.when(after.isNotNull() & is_whole, overlay(added, after)).otherwise(after),
        }
    )


def with_names_of_each(
    changes: DataFrame, source: str, tables: Sequence[tuple[Lineage, Sequence[ColumnNaming]]]
) -> DataFrame:
    """The rows of several tables, of any kind, with the current names that each table gives its columns.

    It is one look-up for any number of tables. A row that lies in several of them comes once for each way in
    which they name its columns.

    Args:
        changes: Rows of `silver/changes`.
        source: The source of the tables.
        tables: The lineages of the tables with their namings.
    """
    segments = [segment for lineage, _ in tables for segment in lineage.segments]
    namings: dict[object, tuple[int, ColumnNaming]] = {_content(ColumnNaming()): (0, ColumnNaming())}
    spans: dict[str, list[tuple[str, str | None, int]]] = {}
    for lineage, own in tables:
        for segment, start, end, count in _naming_spans(lineage):
            number, _ = namings.setdefault(_content(own[count]), (len(namings), own[count]))
            spans.setdefault(_joined(_name_parts(segment)), []).append((start, end, number))
    if len(namings) == 1:
        return changes.where(in_any_segment(segments, source) if segments else F.lit(False))
    is_near = (
        in_any_segment(segments, source) if len(segments) <= _FEW_SEGMENTS else F.col("source") == source
    )
    steps = {name: _steps(found) for name, found in spans.items()}
    known = F.from_json(
        F.lit(json.dumps(steps)), "map<string,array<struct<start:string,numbers:array<int>>>>"
    )
    its_steps = F.try_element_at(known, _joined_columns(F.array("database", "schema", "table")))
    step = _last_step(F.col("steps"), max(map(len, steps.values())))
    mine = changes.where(is_near).withColumn("steps", its_steps).where("steps IS NOT NULL")
    numbered = mine.withColumn("naming", F.explode(step["numbers"]))
    return _with_names(numbered, dict(namings.values()), F.col("naming")).drop("steps", "naming")


def _naming_spans(lineage: Lineage) -> Iterator[tuple[Segment, str, str | None, int]]:
    """From where to where in each segment rows have which naming."""
    counts = {START: 0, **column_change_counts(lineage)}
    starts = list(counts)
    for segment in lineage.segments:
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            first = max(start, segment.start)
            last = min((at for at in (end, segment.end) if at is not None), default=None)
            if last is None or first < last:
                yield segment, first, last, counts[start]


def _steps(spans: Iterable[tuple[str, str | None, int]]) -> list[dict[str, str | list[int]]]:
    """Where the numbers of the spans around a position change, in order, and what they are from there on."""
    changes: dict[str, Counter[int]] = {}
    for start, end, number in spans:
        changes.setdefault(start, Counter())[number] += 1
        if end is not None:
            changes.setdefault(end, Counter())[number] -= 1
    around, numbers, steps = Counter[int](), list[int](), list[dict[str, str | list[int]]]()
    for at in sorted(changes):
        around.update(changes[at])
        around = +around  # without those that have ended
        if sorted(around) != numbers:
            numbers = sorted(around)
            steps.append({"start": at, "numbers": numbers})
    return steps


def _last_step(steps: Column, most: int) -> Column:
    """The last of the steps that begins at or before a row, null before the first: found by halving."""
    strides = F.array(*(F.lit(1 << bit) for bit in reversed(range(most.bit_length()))))

    def further(passed: Column, stride: Column) -> Column:
        is_passed = F.get(steps, passed + stride - 1)["start"] <= F.col("sequence")
        return F.when(is_passed, passed + stride).otherwise(passed)

    return F.get(steps, F.aggregate(strides, F.lit(0), further) - 1)


def _content(naming: ColumnNaming) -> object:
    """Equal for namings that name all columns alike."""
    return tuple(frozenset(each.items()) for each in (naming.names, naming.defaults, naming.readings))


def _spans(values: Mapping[int, Mapping[str, str]]) -> Column:
    """The value of each name from which naming to which: it grows with changes, not namings times names."""
    spans: dict[str, list[dict[str, int | str]]] = {}
    numbers = sorted(values)
    for number, before in zip(numbers, [None, *numbers], strict=False):
        for name, value in values[number].items():
            mine = spans.setdefault(name, [])
            if mine and mine[-1]["last"] == before and mine[-1]["value"] == value:
                mine[-1]["last"] = number
            else:
                mine.append({"first": number, "last": number, "value": value})
    return F.from_json(F.lit(json.dumps(spans)), "map<string,array<struct<first:int,last:int,value:string>>>")


def _value_at(spans: Column, number: Column) -> Column:
    """The value of the span that contains a naming, null where none does."""
    return F.try_element_at(
        F.filter(spans, lambda s: (s["first"] <= number) & (number <= s["last"])), F.lit(1)
    )["value"]


def _values_at(spans: Column, number: Column) -> Column:
    """The values of a naming, by name."""
    return F.map_filter(
        F.transform_values(spans, lambda _, mine: _value_at(mine, number)), lambda _, value: value.isNotNull()
    )


def _renamed(image: Column, names: Column, number: Column) -> Column:
    def today(name: Column) -> Column:
        return F.coalesce(_value_at(F.try_element_at(names, name), number), name)

    return F.transform_keys(
        F.map_filter(image, lambda name, _: today(name) != ""), lambda name, _: today(name)
    )


def _read(image: Column, readings: Column) -> Column:
    return F.transform_values(image, lambda name, text: read_column(text, F.try_element_at(readings, name)))


def overlay(base: Column, image: Column) -> Column:
    """The image, with the columns of `base` that it lacks."""
    return F.map_concat(F.map_filter(base, lambda k, v: ~F.map_contains_key(image, k)), image)


def key_names(count: int) -> list[str]:
    """The names k0… of the typed key columns of effects."""
    return [f"k{i}" for i in range(count)]


def by_key(keys: Sequence[str]) -> WindowSpec:
    """The window over the effects of each key, in their order."""
    return Window.partitionBy(*keys).orderBy(*ORDER)


def effects(rows: DataFrame, keys: Sequence[TableColumn], carried: Sequence[str] = ()) -> DataFrame:
    """The effects of row changes on keys, one row for each effect.

    A delete removes its key (`rank` 2), a key change leaves the old key (0) and upserts the new one (1),
    every other change upserts its key (1). Key columns are typed. A change whose key does not fit its type
    has no effect: it is listed as a bad value. A key change to such a key does not leave the old one either.

    Args:
        rows: Row changes with current column names: `sequence`, `event_time`, `change_id`,
            `transaction_id`, `op`, `partial`, `half`, `before`, `after`.
        keys: The key columns.
        carried: More columns of the rows to keep.

    Returns:
        `sequence`, `event_time`, `change_id`, `transaction_id`, `op`, `partial`, `before` and `after` of
        the change, k0…, `rank`, `is_upsert`, `is_key_change`, `has_key`, and `is_whole_change`: the change
        is no half of an update. In a partial key change, `after` has the columns that it leaves out as they
        were before.
    """
    new_key = zip(keys, _key_texts(F.col("after"), keys), strict=True)
    is_lost = F.col("is_key_change") & _any(_does_not_fit(text, key) for key, text in new_key)
    return effects_of_all(rows, keys, carried).where(~F.col("is_bad") & ~is_lost).drop("is_bad")


def effects_of_all(rows: DataFrame, keys: Sequence[TableColumn], carried: Sequence[str] = ()) -> DataFrame:
    """The same, with the columns `carried` of the rows, and with `is_bad`: the key does not fit its type.

    With them are the effects of leaving a key for one that does not fit.

    Every row has exactly one effect that is no upsert of a key change.
    """
    return _exploded(rows, keys, carried).withColumn("is_bad", _is_bad(keys)).drop("texts")


def _is_bad(keys: Sequence[TableColumn]) -> Column:
    tests = [
        (F.col("texts")[i].isNotNull() & F.col(f"k{i}").isNull()) | ~F.col("has_key")
        for i in range(len(keys))
    ]
    return _any(tests)


def _does_not_fit(text: Column, key: TableColumn) -> Column:
    return text.isNotNull() & typed_key(text, key.type).isNull()


def _any(tests: Iterable[Column]) -> Column:
    return reduce(lambda a, b: a | b, tests)


def _exploded(rows: DataFrame, keys: Sequence[TableColumn], carried: Sequence[str]) -> DataFrame:
    before, after = _texts(F.col("before"), keys), _texts(F.col("after"), keys)
    has_before, has_after = _has_key(F.col("before"), keys), _has_key(F.col("after"), keys)
    is_delete = F.col("op") == "delete"
    is_key_change = (F.col("op") == "update") & has_before & has_after & ~before.eqNullSafe(after)
    deleted = F.when(
        is_delete,
        _effect(2, False, False, F.when(has_before, before).otherwise(after), has_before | has_after),
    )
    leave = F.when(is_key_change, _effect(0, False, True, before, F.lit(True)))
    upsert = F.when(~is_delete, _effect(1, True, is_key_change, after, has_after))
    exploded = rows.select(
        *_CARRIED,
        *carried,
        F.col("half").isNull().alias("is_whole_change"),
        "before",
        _filled_after(is_key_change).alias("after"),
        F.explode(F.filter(F.array(deleted, leave, upsert), lambda e: e.isNotNull())).alias("e"),
    ).select("*", "e.*")
    typed_keys = [typed_key(F.col("texts")[i], key.type).alias(f"k{i}") for i, key in enumerate(keys)]
    return exploded.drop("e").select("*", *typed_keys)


def _filled_after(is_key_change: Column) -> Column:
    """The image after a change. In a partial key change, missing columns are as they were before."""
    is_partial = F.coalesce(F.col("partial"), F.lit(False))
    return F.when(is_key_change & is_partial, overlay(F.col("before"), F.col("after"))).otherwise(
        F.col("after")
    )


def _texts(image: Column, keys: Sequence[TableColumn]) -> Column:
    return F.array(*_key_texts(image, keys))


def _key_texts(image: Column, keys: Sequence[TableColumn]) -> list[Column]:
    return [F.try_element_at(image, F.lit(key.name)) for key in keys]


def _has_key(image: Column, keys: Sequence[TableColumn]) -> Column:
    has = reduce(lambda a, b: a & b, (F.map_contains_key(image, F.lit(key.name)) for key in keys))
    return F.coalesce(has, F.lit(False))


def _effect(
    rank: int, is_upsert: bool, is_key_change: Column | bool, texts: Column, has_key: Column
) -> Column:
    flag = is_key_change if isinstance(is_key_change, Column) else F.lit(is_key_change)
    return F.struct(
        F.lit(rank).alias("rank"),
        F.lit(is_upsert).alias("is_upsert"),
        flag.alias("is_key_change"),
        texts.alias("texts"),
        has_key.alias("has_key"),
    )
