"""What a set of changes shows of its table: schemas, keys, positions, widths of numbers. Two small jobs, no pass a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.actions import DropColumn, RenameColumn
from framework.contracts.events import Token
from gold.changes import stretch_number
from gold.columns import INTEGERS, MAX_DIGITS, Seen, Shape
from gold.lineage import Lineage

_WHOLE = rf"^-?\d{{1,{MAX_DIGITS}}}$"
_PLAIN = r"^-?\d+(\.\d+)?$"


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a row of `silver/schemas`."""

    name: str
    type: str | None
    declared: str | None
    token: str | None


@dataclass(frozen=True, slots=True)
class Past:
    """How far a table has come: the last silver batch and the highest sequence applied to it."""

    batch: int = -1
    sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What some changes of one table show. `keys` are those of the newest change that has any, as named in `keys_stretch`.

    `told_keys` are all keys, each with the stretch in which it was named so and the lowest position where it was.
    """

    rows: int = 0
    min_sequence: str | None = None
    max_sequence: str | None = None
    event_time: datetime | None = None
    keys: tuple[str, ...] | None = None
    keys_stretch: int = 0
    keys_sequence: str = ""
    told_keys: Mapping[tuple[int, tuple[str, ...]], str] = field(default_factory=dict)
    has_partials: bool = False
    has_moves: bool = False
    has_partial_moves: bool = False
    shapes: tuple[Shape, ...] = ()
    seen: Mapping[tuple[int, str], Seen] = field(default_factory=dict)
    ops: Mapping[str, int] = field(default_factory=dict)
    late: int = 0


def measure(rows: DataFrame, lineage: Lineage, schemas: Mapping[str, Sequence[SchemaColumn]], past: Past = Past()) -> Profile:
    """The profile of row changes under their names then. `schemas` has every schema that they name.

    `ops` counts the changes that are new after `past` by operation, and `late` those of them not above its sequence.
    """
    numbered = rows.withColumn("stretch", stretch_number(lineage))
    is_new = F.col("batch") > past.batch
    is_update = (F.col("op") == "update") & F.col("before").isNotNull()
    moved = F.exists("keys", lambda k: ~F.try_element_at("before", k).eqNullSafe(F.try_element_at("after", k)))
    is_move = is_update & F.coalesce(moved, F.lit(True))
    groups = (
        numbered.groupBy("stretch", "schema_id", "keys", "op")
        .agg(
            F.count("*").alias("rows"),
            F.sum(is_new.cast("long")).alias("new"),
            F.sum((is_new & (F.col("sequence") <= F.lit(past.sequence or ""))).cast("long")).alias("late"),
            F.min("sequence").alias("low"),
            F.max("sequence").alias("high"),
            F.max("event_time").alias("event_time"),
            F.max(F.coalesce("partial", F.lit(False))).alias("has_partials"),
            F.max(is_move).alias("has_moves"),
            F.max(is_move & F.coalesce("partial", F.lit(False))).alias("has_partial_moves"),
        )
        .collect()
    )
    if not groups:
        return Profile()
    shapes, seen = _shapes(groups, schemas, _null_throughout(numbered, groups, lineage, schemas))
    seen = _with_widths(numbered, seen)
    newest = max(groups, key=lambda g: (g["high"], g["keys"] or []))
    keyed = max((g for g in groups if g["keys"]), key=lambda g: (g["high"], g["keys"]), default=None)
    has_keys = {tuple(g["keys"]) for g in groups if g["keys"]}
    told_keys: dict[tuple[int, tuple[str, ...]], str] = {}
    for group in groups:
        if group["keys"]:
            told = (group["stretch"], tuple(group["keys"]))
            told_keys[told] = min(group["low"], told_keys.get(told, group["low"]))
    times = [g["event_time"] for g in groups if g["event_time"] is not None]
    ops: dict[str, int] = {}
    for group in groups:
        ops[group["op"]] = ops.get(group["op"], 0) + group["new"]
    return Profile(
        ops=ops,
        late=sum(g["late"] for g in groups),
        rows=sum(g["rows"] for g in groups),
        min_sequence=min(g["low"] for g in groups),
        max_sequence=newest["high"],
        event_time=max(times, default=None),
        keys=None if keyed is None else tuple(keyed["keys"]),
        keys_stretch=0 if keyed is None else keyed["stretch"],
        keys_sequence="" if keyed is None else keyed["high"],
        told_keys=told_keys,
        has_partials=any(g["has_partials"] for g in groups),
        has_moves=any(g["has_moves"] for g in groups) or len(has_keys) > 1,
        has_partial_moves=any(g["has_partial_moves"] or (g["has_partials"] and len(has_keys) > 1) for g in groups),
        shapes=shapes,
        seen=seen,
    )


def _null_throughout(
    rows: DataFrame, groups: Iterable[Row], lineage: Lineage, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> set[tuple[int, str, str]]:
    """The stretch, schema and name of undeclared columns under names that changed hands, whose rows are all null there.

    A schema tells the kinds of all rows that came together: where a name went from one column to another, these nulls
    would be given the kind of the other column's values.
    """
    moving: set[str] = set()
    for _, action in lineage.steps:
        match action:
            case DropColumn(name):
                moving.add(name)
            case RenameColumn(old, new):
                moving |= {old, new}
            case _:
                pass
    told = {
        (group["stretch"], group["schema_id"], column.name)
        for group in groups
        for column in schemas.get(group["schema_id"] or "", ())
        if column.token is not None and column.name in moving
    }
    if not told:
        return set()
    names = F.array(*(F.lit(name) for name in sorted({name for _, _, name in told})))
    has_value = F.filter(
        names,
        lambda name: F.coalesce(F.try_element_at("before", name), F.try_element_at("after", name)).isNotNull(),
    )
    shown = rows.select("stretch", "schema_id", F.explode(has_value).alias("name")).distinct().collect()
    return told - {(row["stretch"], row["schema_id"], row["name"]) for row in shown}


def _shapes(
    groups: Iterable[Row], schemas: Mapping[str, Sequence[SchemaColumn]], nulls: set[tuple[int, str, str]]
) -> tuple[tuple[Shape, ...], dict[tuple[int, str], Seen]]:
    newest: dict[tuple[int, tuple[str, ...]], str] = {}
    seen: dict[tuple[int, str], Seen] = {}
    for group in groups:
        columns = schemas.get(group["schema_id"] or "", ())
        stretch, high = group["stretch"], group["high"]
        names = tuple(c.name for c in columns)
        newest[stretch, names] = max(newest.get((stretch, names), ""), high)
        for column in columns:
            is_null = (stretch, group["schema_id"], column.name) in nulls
            what = Seen(
                types=frozenset((column.type,)) if column.type else frozenset(),
                declared=frozenset((column.declared,)) if column.declared else frozenset(),
                tokens=frozenset((Token.NULL,)) if is_null else frozenset((column.token or "").split(",")) - {""},
            )
            seen[stretch, column.name] = seen.get((stretch, column.name), Seen()) | what
    return tuple(Shape(stretch, high, names) for (stretch, names), high in sorted(newest.items())), seen


def _with_widths(rows: DataFrame, seen: dict[tuple[int, str], Seen]) -> dict[tuple[int, str], Seen]:
    numeric = sorted({name for (_, name), what in seen.items() if what.types & set(INTEGERS) or Token.NUMBER in what.tokens})
    if not numeric:
        return seen
    cells = F.explode(
        F.concat(
            *(
                F.coalesce(F.map_entries(F.map_filter(image, lambda k, v: v.isNotNull() & k.isin(numeric))), F.array())
                for image in ("before", "after")
            )
        )
    )
    text = F.col("cell.value")
    whole = F.when(text.rlike(_WHOLE), text.cast("decimal(38,0)"))
    is_plain = text.rlike(_PLAIN)
    digits = F.length(F.regexp_replace(F.regexp_extract(text, r"^-?(\d+)", 1), "^0+(?=.)", ""))
    scale = F.length(F.regexp_extract(text, r"\.(\d+)$", 1))
    widths = (
        rows.select("stretch", cells.alias("cell"))
        .groupBy("stretch", F.col("cell.key").alias("name"))
        .agg(
            F.max(F.when(is_plain, digits)),
            F.max(F.when(is_plain, scale)),
            F.min(whole),
            F.max(whole),
            F.max(~is_plain | (digits + scale > MAX_DIGITS)),
        )
    )
    found = dict(seen)
    for stretch, name, *values in widths.collect():
        digits_seen, scale_seen, low, high, others = values
        what = Seen(digits=digits_seen or 0, scale=scale_seen or 0, low=int(low or 0), high=int(high or 0), has_others=bool(others))
        found[stretch, name] = found.get((stretch, name), Seen()) | what
    return found


def joined(one: Profile, other: Profile) -> Profile:
    """The profile of both sets of changes."""
    if not one.rows or not other.rows:
        return one if one.rows else other
    newest = max(one, other, key=lambda p: p.keys_sequence)
    seen = dict(one.seen)
    for key, what in other.seen.items():
        seen[key] = seen.get(key, Seen()) | what
    shapes: dict[tuple[int, tuple[str, ...]], str] = {}
    for shape in (*one.shapes, *other.shapes):
        at = (shape.stretch, shape.columns)
        shapes[at] = max(shapes.get(at, ""), shape.last_sequence)
    times = [t for t in (one.event_time, other.event_time) if t is not None]
    has_partials = one.has_partials or other.has_partials
    is_rekeyed = one.keys is not None and other.keys is not None and one.keys != other.keys
    return Profile(
        rows=one.rows + other.rows,
        min_sequence=min(one.min_sequence or "", other.min_sequence or ""),
        max_sequence=max(one.max_sequence or "", other.max_sequence or ""),
        event_time=max(times, default=None),
        keys=newest.keys,
        keys_stretch=newest.keys_stretch,
        keys_sequence=newest.keys_sequence,
        told_keys={**one.told_keys, **{told: min(low, one.told_keys.get(told, low)) for told, low in other.told_keys.items()}},
        has_partials=has_partials,
        has_moves=one.has_moves or other.has_moves or is_rekeyed,
        has_partial_moves=one.has_partial_moves or other.has_partial_moves or (is_rekeyed and has_partials),
        shapes=tuple(Shape(stretch, high, names) for (stretch, names), high in sorted(shapes.items())),
        seen=seen,
    )
