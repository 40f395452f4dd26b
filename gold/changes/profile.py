"""The profile of a set of changes: schemas, keys, positions, widths of numbers.

It is made of measurements of the changes: Spark measures many changes (`profile_queries`), this process few
(`few_changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import DropColumn, RenameColumn
from framework.contracts.events import Op, Token
from framework.naming import in_one_case
from gold.schema.columns import (
    ColumnNaming,
    ColumnOrder,
    KnownNames,
    TableColumn,
    column_namings,
    needed_orders,
    replaced_columns,
)
from gold.schema.lineage import Lineage
from gold.schema.type_inference import ColumnEvidence, is_decimal


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


NOTHING_APPLIED = Progress()


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

    def namings_before(self, at: int, truncated_at: str | None) -> set[int]:
        """The namings before a column change that have rows behind a truncate (None: there was none)."""
        last = ((order.naming, order.last_sequence) for order in self.column_orders)
        return {naming for naming, high in last if naming <= at and high > (truncated_at or "")}


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """What changes of one naming, schema, key and operation have in common.

    Attributes:
        naming: Which of the table's namings they have.
        schema_id: Their schema in `silver/schemas`.
        keys: The columns of their key; None where they name none.
        op: Their operation.
        rows: How many they are.
        new: How many of them are not applied yet.
        late: How many of the new ones have a sequence that is not above the applied one.
        low: Their lowest sequence.
        high: Their highest sequence.
        event_time: Their newest event time.
        loaded: How many of them are rows of a full load.
        has_partials: Whether some images leave columns out.
        has_key_changes: Whether some updates may change the key.
        has_partial_key_changes: Whether some of those leave columns out.
    """

    naming: int
    schema_id: str | None
    keys: tuple[str, ...] | None
    op: str
    rows: int
    new: int
    late: int
    low: str
    high: str
    event_time: datetime | None
    loaded: int
    has_partials: bool
    has_key_changes: bool
    has_partial_key_changes: bool


class Measurements(Protocol):
    """What can be measured of some row changes of one table."""

    def groups(self) -> Sequence[ChangeGroup]:
        """One group for each naming, schema, key and operation of the changes."""

    def names_with_values(self, names: Set[str]) -> Set[tuple[int, str | None, str]]:
        """The naming, schema and name of those of the columns that have a value in some image."""

    def widths(self, names: Set[str]) -> Mapping[tuple[int, str], ColumnEvidence]:
        """The widths of the numbers in these columns, by naming and name; after `groups`."""


def profile_of(
    changes: Measurements,
    lineage: Lineage,
    schemas: Mapping[str, Sequence[SchemaColumn]],
    earlier: Profile | None = None,
) -> Profile:
    """The profile of row changes with the column names of their time.

    Args:
        changes: Measurements of the row changes of one table.
        lineage: The table's lineage.
        schemas: The columns of every schema that the changes name.
        earlier: What earlier changes show; widths are measured of their columns of numbers as well.
    """
    groups = changes.groups()
    if not groups:
        return Profile()
    column_orders, evidence = _column_orders(
        groups, schemas, _null_throughout(changes, groups, lineage, schemas)
    )
    known = set() if earlier is None else numeric_names(earlier) & {name for _, name in evidence}
    evidence = _with_widths(changes, evidence, _untold(groups, schemas) | known)
    newest = max(groups, key=lambda g: (g.high, g.keys or ()))
    keyed = max((g for g in groups if g.keys), key=lambda g: (g.high, g.keys or ()), default=None)
    has_keys = {g.keys for g in groups if g.keys}
    seen_keys: dict[tuple[int, tuple[str, ...]], str] = {}
    for group in groups:
        if group.keys:
            named_key = (group.naming, group.keys)
            seen_keys[named_key] = min(group.low, seen_keys.get(named_key, group.low))
    ops: dict[str, int] = {}
    for group in groups:
        ops[group.op] = ops.get(group.op, 0) + group.new
    return Profile(
        ops=ops,
        late=sum(g.late for g in groups),
        additions=sum(g.rows if g.op == Op.INSERT else g.loaded for g in groups),
        rows=sum(g.rows for g in groups),
        min_sequence=min(g.low for g in groups),
        max_sequence=newest.high,
        event_time=max((g.event_time for g in groups if g.event_time is not None), default=None),
        keys=None if keyed is None else keyed.keys,
        keys_naming=0 if keyed is None else keyed.naming,
        keys_sequence="" if keyed is None else keyed.high,
        seen_keys=seen_keys,
        has_partials=any(g.has_partials for g in groups),
        has_key_changes=any(g.has_key_changes for g in groups) or len(has_keys) > 1,
        has_partial_key_changes=any(
            g.has_partial_key_changes or (g.has_partials and len(has_keys) > 1) for g in groups
        ),
        column_orders=column_orders,
        evidence=evidence,
    )


def _null_throughout(
    changes: Measurements,
    groups: Iterable[ChangeGroup],
    lineage: Lineage,
    schemas: Mapping[str, Sequence[SchemaColumn]],
) -> set[tuple[int, str | None, str]]:
    """The naming, schema and name of undeclared columns without a value, whose name changed columns.

    A schema has the kinds of values of all rows that came together. Where a name went from one column to
    another, these nulls would get the kind of the other column's values. Statements name columns in any case.
    """
    moved_names: set[str] = set()
    for _, action in lineage.column_changes:
        match action:
            case DropColumn(name):
                moved_names.add(in_one_case(name))
            case RenameColumn(old, new):
                moved_names |= {in_one_case(old), in_one_case(new)}
            case _:
                pass
    undeclared = {
        (group.naming, group.schema_id, column.name)
        for group in groups
        for column in schemas.get(group.schema_id or "", ())
        if column.token is not None and in_one_case(column.name) in moved_names
    }
    if not undeclared:
        return set()
    return undeclared - changes.names_with_values({name for _, _, name in undeclared})


def _column_orders(
    groups: Iterable[ChangeGroup],
    schemas: Mapping[str, Sequence[SchemaColumn]],
    all_null: Set[tuple[int, str | None, str]],
) -> tuple[tuple[ColumnOrder, ...], dict[tuple[int, str], ColumnEvidence]]:
    newest: dict[tuple[int, tuple[str, ...]], str] = {}
    evidence: dict[tuple[int, str], ColumnEvidence] = {}
    for group in groups:
        columns = schemas.get(group.schema_id or "", ())
        naming, high = group.naming, group.high
        names = tuple(c.name for c in columns)
        newest[naming, names] = max(newest.get((naming, names), ""), high)
        for column in columns:
            is_null = (naming, group.schema_id, column.name) in all_null
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


def _untold(groups: Iterable[ChangeGroup], schemas: Mapping[str, Sequence[SchemaColumn]]) -> set[str]:
    """Columns that may have numbers although their schema does not say so: those of dumps without types."""
    return {
        column.name
        for group in groups
        if group.op == Op.READ
        for column in schemas.get(group.schema_id or "", ())
        if column.type is None and column.token == Token.NULL
    }


def _with_widths(
    changes: Measurements, evidence: Mapping[tuple[int, str], ColumnEvidence], names: Set[str]
) -> dict[tuple[int, str], ColumnEvidence]:
    numeric = names | {name for (_, name), shown in evidence.items() if shown.is_numeric}
    widened = dict(evidence)
    for column, shown in changes.widths(numeric).items() if numeric else ():
        widened[column] = widened.get(column, ColumnEvidence()) | shown
    return widened


def numeric_names(profile: Profile) -> set[str]:
    """The names of columns whose type depends on the widths of their numbers."""
    return {name for (_, name), shown in profile.evidence.items() if shown.is_numeric}


def has_unmeasured(earlier: Profile, new: Profile) -> bool:
    """Whether widths of earlier changes count now that were not measured.

    Those of a column that had only decimals, and now has numbers of no declared type or integers too.
    """
    became_numeric = numeric_names(new) - numeric_names(earlier)
    return any(
        name in became_numeric and any(map(is_decimal, shown.types))
        for (_, name), shown in earlier.evidence.items()
    )


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


def namings_for(
    lineage: Lineage, policy: SchemaPolicy, profile: Profile, stored: Iterable[TableColumn] = ()
) -> tuple[ColumnNaming, ...]:
    """The namings of a table's rows.

    Args:
        lineage: The table's lineage, with names as the rows spell them.
        policy: What happens to dropped columns.
        profile: The profile of the rows.
        stored: The columns of the stored replica.
    """
    replaced = replaced_columns(lineage, profile.column_orders)
    known = KnownNames(frozenset(name for _, name in profile.evidence), frozenset(c.name for c in stored))
    return column_namings(lineage, policy, _reused_names(lineage, profile), replaced, known)


def _reused_names(lineage: Lineage, profile: Profile) -> set[str]:
    """The names that rows use again after a drop of that name."""
    drops: dict[str, int] = {}
    for at, (_, action) in enumerate(lineage.column_changes):
        if isinstance(action, DropColumn):
            drops.setdefault(in_one_case(action.name), at)
    return {name for naming, name in profile.evidence if naming > drops.get(in_one_case(name), naming)}
