"""The profile of a set of changes: schemas, keys, positions, widths of numbers.

It takes two small jobs for all columns together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import DropColumn, RenameColumn
from framework.contracts.events import Op, Token
from gold.changes.effects import naming_index
from gold.changes.full_loads import is_of_load
from gold.schema.columns import ColumnNaming, ColumnOrder, column_namings, needed_orders
from gold.schema.lineage import Lineage
from gold.schema.type_inference import INTEGERS, MAX_DIGITS, ColumnEvidence

_WHOLE = rf"^-?\d{{1,{MAX_DIGITS}}}$"
_PLAIN = r"^-?\d+(\.\d+)?$"


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a schema in `silver/schemas`."""

    name: str
    type: str | None
    declared: str | None
    token: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """What is applied to a table: the last silver batch, and the highest sequence."""

    batch: int = -1
    sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What some changes of one table show.

    Attributes:
        rows: How many row changes there are.
        min_sequence: Their lowest sequence.
        max_sequence: Their highest sequence.
        event_time: Their newest event time.
        keys: The key of the newest change that has one.
        keys_naming: The naming of that change, in which the names of `keys` are.
        keys_sequence: The sequence of that change.
        seen_keys: All keys, each with its naming and its lowest sequence.
        has_partials: Whether some images leave columns out.
        has_key_changes: Whether some updates may change the key.
        has_partial_key_changes: Whether some of those leave columns out.
        column_orders: The orders of columns that schemas show, as many as the table's order needs.
        evidence: What the changes show of each column, by naming and name.
        ops: How many changes are new, by operation.
        late: How many new changes have a sequence that is not above the applied one.
        additions: How many of all changes are inserts or rows of a full load.
    """

    rows: int = 0
    min_sequence: str | None = None
    max_sequence: str | None = None
    event_time: datetime | None = None
    keys: tuple[str, ...] | None = None
    keys_naming: int = 0
    keys_sequence: str = ""
    seen_keys: Mapping[tuple[int, tuple[str, ...]], str] = field(default_factory=dict)
    has_partials: bool = False
    has_key_changes: bool = False
    has_partial_key_changes: bool = False
    column_orders: tuple[ColumnOrder, ...] = ()
    evidence: Mapping[tuple[int, str], ColumnEvidence] = field(default_factory=dict)
    ops: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    additions: int = 0


def profile_rows(
    rows: DataFrame,
    lineage: Lineage,
    schemas: Mapping[str, Sequence[SchemaColumn]],
    applied: Progress = Progress(),
) -> Profile:
    """The profile of row changes with the column names of their time.

    Args:
        rows: Row changes of one table: `batch`, `op`, `sequence`, `event_time`, `keys`, `before`, `after`,
            `partial`, `schema_id`.
        lineage: The table's lineage.
        schemas: The columns of every schema that the rows name.
        applied: What is applied already; changes after it are new.
    """
    numbered = rows.withColumn("naming", naming_index(lineage))
    is_new = F.col("batch") > applied.batch
    is_update = (F.col("op") == "update") & F.col("before").isNotNull()
    moved = F.exists(
        "keys", lambda k: ~F.try_element_at("before", k).eqNullSafe(F.try_element_at("after", k))
    )
    is_key_change = is_update & F.coalesce(moved, F.lit(True))
    groups = (
        numbered.groupBy("naming", "schema_id", "keys", "op")
        .agg(
            F.count("*").alias("rows"),
            F.sum(is_new.cast("long")).alias("new"),
            F.sum((is_new & (F.col("sequence") <= F.lit(applied.sequence or ""))).cast("long")).alias("late"),
            F.min("sequence").alias("low"),
            F.max("sequence").alias("high"),
            F.max("event_time").alias("event_time"),
            F.count_if(is_of_load(F.col("op"), F.col("sequence"))).alias("loaded"),
            F.max(F.coalesce("partial", F.lit(False))).alias("has_partials"),
            F.max(is_key_change).alias("has_key_changes"),
            F.max(is_key_change & F.coalesce("partial", F.lit(False))).alias("has_partial_key_changes"),
        )
        .collect()
    )
    if not groups:
        return Profile()
    column_orders, evidence = _column_orders(
        groups, schemas, _null_throughout(numbered, groups, lineage, schemas)
    )
    evidence = _with_widths(numbered, evidence)
    newest = max(groups, key=lambda g: (g["high"], g["keys"] or []))
    keyed = max((g for g in groups if g["keys"]), key=lambda g: (g["high"], g["keys"]), default=None)
    has_keys = {tuple(g["keys"]) for g in groups if g["keys"]}
    seen_keys: dict[tuple[int, tuple[str, ...]], str] = {}
    for group in groups:
        if group["keys"]:
            named_key = (group["naming"], tuple(group["keys"]))
            seen_keys[named_key] = min(group["low"], seen_keys.get(named_key, group["low"]))
    times = [g["event_time"] for g in groups if g["event_time"] is not None]
    ops: dict[str, int] = {}
    for group in groups:
        ops[group["op"]] = ops.get(group["op"], 0) + group["new"]
    return Profile(
        ops=ops,
        late=sum(g["late"] for g in groups),
        additions=sum(g["rows"] if g["op"] == Op.INSERT else g["loaded"] for g in groups),
        rows=sum(g["rows"] for g in groups),
        min_sequence=min(g["low"] for g in groups),
        max_sequence=newest["high"],
        event_time=max(times, default=None),
        keys=None if keyed is None else tuple(keyed["keys"]),
        keys_naming=0 if keyed is None else keyed["naming"],
        keys_sequence="" if keyed is None else keyed["high"],
        seen_keys=seen_keys,
        has_partials=any(g["has_partials"] for g in groups),
        has_key_changes=any(g["has_key_changes"] for g in groups) or len(has_keys) > 1,
        has_partial_key_changes=any(
            g["has_partial_key_changes"] or (g["has_partials"] and len(has_keys) > 1) for g in groups
        ),
        column_orders=column_orders,
        evidence=evidence,
    )


def _null_throughout(
    rows: DataFrame, groups: Iterable[Row], lineage: Lineage, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> set[tuple[int, str, str]]:
    """The naming, schema and name of undeclared columns without a value, whose name changed columns.

    A schema has the kinds of values of all rows that came together. Where a name went from one column to
    another, these nulls would get the kind of the other column's values.
    """
    moved_names: set[str] = set()
    for _, action in lineage.column_changes:
        match action:
            case DropColumn(name):
                moved_names.add(name)
            case RenameColumn(old, new):
                moved_names |= {old, new}
            case _:
                pass
    undeclared = {
        (group["naming"], group["schema_id"], column.name)
        for group in groups
        for column in schemas.get(group["schema_id"] or "", ())
        if column.token is not None and column.name in moved_names
    }
    if not undeclared:
        return set()
    names = F.array(*(F.lit(name) for name in sorted({name for _, _, name in undeclared})))
    has_value = F.filter(
        names,
        lambda name: F.coalesce(
            F.try_element_at("before", name), F.try_element_at("after", name)
        ).isNotNull(),
    )
    shown = rows.select("naming", "schema_id", F.explode(has_value).alias("name")).distinct().collect()
    return undeclared - {(row["naming"], row["schema_id"], row["name"]) for row in shown}


def _column_orders(
    groups: Iterable[Row], schemas: Mapping[str, Sequence[SchemaColumn]], all_null: set[tuple[int, str, str]]
) -> tuple[tuple[ColumnOrder, ...], dict[tuple[int, str], ColumnEvidence]]:
    newest: dict[tuple[int, tuple[str, ...]], str] = {}
    evidence: dict[tuple[int, str], ColumnEvidence] = {}
    for group in groups:
        columns = schemas.get(group["schema_id"] or "", ())
        naming, high = group["naming"], group["high"]
        names = tuple(c.name for c in columns)
        newest[naming, names] = max(newest.get((naming, names), ""), high)
        for column in columns:
            is_null = (naming, group["schema_id"], column.name) in all_null
            shown = ColumnEvidence(
                types=frozenset((column.type,)) if column.type else frozenset(),
                declared=frozenset((column.declared,)) if column.declared else frozenset(),
                tokens=frozenset((Token.NULL,))
                if is_null
                else frozenset((column.token or "").split(",")) - {""},
            )
            evidence[naming, column.name] = evidence.get((naming, column.name), ColumnEvidence()) | shown
    orders = (ColumnOrder(naming, high, names) for (naming, names), high in newest.items())
    return needed_orders(orders), evidence


def _with_widths(
    rows: DataFrame, evidence: dict[tuple[int, str], ColumnEvidence]
) -> dict[tuple[int, str], ColumnEvidence]:
    numeric = sorted(
        {
            name
            for (_, name), shown in evidence.items()
            if shown.types & set(INTEGERS) or Token.NUMBER in shown.tokens
        }
    )
    if not numeric:
        return evidence
    cells = F.explode(
        F.concat(
            *(
                F.coalesce(
                    F.map_entries(F.map_filter(image, lambda k, v: v.isNotNull() & k.isin(numeric))),
                    F.array(),
                )
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
        rows.select("naming", cells.alias("cell"))
        .groupBy("naming", F.col("cell.key").alias("name"))
        .agg(
            F.max(F.when(is_plain, digits)),
            F.max(F.when(is_plain, scale)),
            F.min(whole),
            F.max(whole),
            F.max(~is_plain | (digits + scale > MAX_DIGITS)),
        )
    )
    widened = dict(evidence)
    for naming, name, *values in widths.collect():
        digits_seen, scale_seen, low, high, others = values
        shown = ColumnEvidence(
            digits=digits_seen or 0,
            scale=scale_seen or 0,
            low=int(low or 0),
            high=int(high or 0),
            has_others=bool(others),
        )
        widened[naming, name] = widened.get((naming, name), ColumnEvidence()) | shown
    return widened


def merge_profiles(one: Profile, other: Profile) -> Profile:
    """The profile of both sets of changes."""
    if not one.rows or not other.rows:
        return one if one.rows else other
    newest = max(one, other, key=lambda p: p.keys_sequence)
    evidence = dict(one.evidence)
    for key, shown in other.evidence.items():
        evidence[key] = evidence.get(key, ColumnEvidence()) | shown
    column_orders: dict[tuple[int, tuple[str, ...]], str] = {}
    for order in (*one.column_orders, *other.column_orders):
        at = (order.naming, order.columns)
        column_orders[at] = max(column_orders.get(at, ""), order.last_sequence)
    times = [t for t in (one.event_time, other.event_time) if t is not None]
    has_partials = one.has_partials or other.has_partials
    has_other_key = one.keys is not None and other.keys is not None and one.keys != other.keys
    return Profile(
        rows=one.rows + other.rows,
        min_sequence=min(one.min_sequence or "", other.min_sequence or ""),
        max_sequence=max(one.max_sequence or "", other.max_sequence or ""),
        event_time=max(times, default=None),
        keys=newest.keys,
        keys_naming=newest.keys_naming,
        keys_sequence=newest.keys_sequence,
        seen_keys={
            **one.seen_keys,
            **{key: min(low, one.seen_keys.get(key, low)) for key, low in other.seen_keys.items()},
        },
        has_partials=has_partials,
        has_key_changes=one.has_key_changes or other.has_key_changes or has_other_key,
        has_partial_key_changes=one.has_partial_key_changes
        or other.has_partial_key_changes
        or (has_other_key and has_partials),
        column_orders=needed_orders(
            ColumnOrder(naming, high, names) for (naming, names), high in column_orders.items()
        ),
        evidence=evidence,
    )


def namings_for(lineage: Lineage, policy: SchemaPolicy, profile: Profile) -> tuple[ColumnNaming, ...]:
    """The namings of a table whose rows have this profile; `lineage` has names as the rows spell them."""
    return column_namings(lineage, policy, _reused_names(lineage, profile))


def _reused_names(lineage: Lineage, profile: Profile) -> set[str]:
    """The names that rows use again after a drop of that name."""
    reused: set[str] = set()
    for at, (_, action) in enumerate(lineage.column_changes):
        if isinstance(action, DropColumn):
            reused.update(
                name
                for naming, name in profile.evidence
                if naming > at and name.casefold() == action.name.casefold()
            )
    return reused
