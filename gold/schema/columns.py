"""The columns of a replica: their current names, their order in the source, and their types.

Everything here is a pure function of the evidence (schemas, statements, the widths of numbers). Evidence
joins in any order, so that any order of arrival and any split into batches leads to the same columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from framework.config.model import TableSettings
from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import AddColumn, ChangeType, DropColumn, RenameColumn
from framework.contracts.events import Token
from framework.naming import in_one_case
from gold.schema.lineage import ColumnAction, Lineage
from gold.schema.type_inference import ColumnEvidence, infer_type, is_plain_number, widths_of


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """The columns of one schema in their order, with the naming and the highest sequence of its rows."""

    naming: int
    last_sequence: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnNaming:
    """How the columns of rows between two column changes are named today.

    Attributes:
        names: The current name of each column whose name has changed; None for a removed column.
        defaults: The constant defaults of columns added later, by current name.
        readings: How cells are read whose column had another type then, by current name (`cell_readings`).
    """

    names: Mapping[str, str | None] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    readings: Mapping[str, str] = field(default_factory=dict)

    @property
    def keeps_images(self) -> bool:
        """Whether images are today as they were sent."""
        return not (self.names or self.defaults or self.readings)

    def current_name(self, name: str) -> str | None:
        """The current name of a column of these rows; None where the column is removed."""
        return self.names.get(name, name)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a replica: its current name in the source, its type, and what the source says of it.

    `declared` is the source's own type text, `comment` the source's comment; None where there is none.
    """

    name: str
    type: str
    declared: str | None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names of columns that do not come from statements.

    Attributes:
        shown: The columns of all rows; no dropped column gets one of these names.
        stored: The columns of the stored replica.
    """

    shown: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()


def column_namings(
    lineage: Lineage,
    policy: SchemaPolicy,
    reused: Iterable[str],
    replaced: Mapping[int, str] | None = None,
    known: KnownNames = KnownNames(),
) -> tuple[ColumnNaming, ...]:
    """The namings of a table's rows: naming `i` is for rows after `i` column changes.

    No row lies between two changes of one statement, so a naming there has no defaults. A dropped column
    whose name comes back gets another one. The policy `ignore` freezes the columns of a replica: there it is
    one column with the one that is added with its name, unless the replica keeps the two apart already.

    Args:
        lineage: The table's lineage, with names as the rows spell them.
        policy: What happens to dropped columns.
        reused: Names that rows use again after a drop of that name: the dropped column is renamed then.
        replaced: The columns that `replaced_columns` gives.
        known: Other names of columns.
    """
    added_later = {in_one_case(name): name for name in reused}
    used_later = set(added_later)
    gone = {} if replaced is None else replaced
    drops = len(gone) + sum(isinstance(action, DropColumn) for _, action in lineage.column_changes)
    set_aside = _DroppedNames(drops, lineage, known.shown)
    names: dict[str, str | None] = {}
    defaults: dict[str, str] = {}
    backwards = [ColumnNaming()]
    repeated = repeated_additions(lineage)
    for at in range(len(lineage.column_changes) - 1, -1, -1):
        sequence, action = lineage.column_changes[at]
        match action:
            case RenameColumn(old, new):
                names[old] = names.get(new, new)
                used_later.add(in_one_case(new))
                added_later.pop(in_one_case(new), None)  # the name is that of a column from before
                if at in gone:
                    is_kept = policy is not SchemaPolicy.EVOLVE
                    names[gone[at]] = set_aside.name_of(gone[at], drops) if is_kept else None
                    drops -= 1
            case DropColumn(name):
                aside, added = set_aside.name_of(name, drops), added_later.get(in_one_case(name))
                is_one = policy is SchemaPolicy.IGNORE and aside not in known.stored
                if policy is SchemaPolicy.EVOLVE:
                    names[name] = None
                elif is_one and added is not None:
                    names[name] = names.get(added, added)
                else:
                    names[name] = aside if in_one_case(name) in used_later else name
                drops -= 1
            case AddColumn(name):
                target = names.get(name, name)
                if action.default is not None and target is not None and at not in repeated:
                    defaults.setdefault(target, action.default)
                used_later.add(in_one_case(name))
                added_later[in_one_case(name)] = name
            case _:
                pass
        is_inside = at > 0 and lineage.column_changes[at - 1][0] == sequence
        changed = {n: t for n, t in names.items() if n != t}
        backwards.append(ColumnNaming(changed, {} if is_inside else dict(defaults)))
    return tuple(reversed(backwards))


class _DroppedNames:
    """The names of dropped columns whose names came back: those that no column of the source has."""

    def __init__(self, drops: int, lineage: Lineage, shown: Iterable[str]) -> None:
        self._drops, self._taken = drops, {in_one_case(name) for name in shown}
        for _, action in lineage.column_changes:
            name = action.new if isinstance(action, RenameColumn) else action.name
            self._taken.add(in_one_case(name))

    def name_of(self, name: str, number: int) -> str:
        """The name of the column that is dropped as the `number`th of all."""
        while in_one_case(f"_cdc_dropped_{number}_{name}") in self._taken:
            number += self._drops  # no other drop gets one of these numbers
        return f"_cdc_dropped_{number}_{name}"


def replaced_columns(lineage: Lineage, column_orders: Iterable[ColumnOrder]) -> dict[int, str]:
    """The columns whose names others take by a rename, by the place of the rename among the column changes.

    The source must have dropped such a column before: the statement is lost, or was not understood. Only
    rows that have both columns show it: a full load without positions has the new name in rows that count as
    older than the rename.

    Args:
        lineage: The table's lineage, with names as the rows spell them.
        column_orders: The columns of the rows.
    """
    renames = [action for _, action in lineage.column_changes if isinstance(action, RenameColumn)]
    names = {in_one_case(name) for action in renames for name in (action.old, action.new)}
    changes = [
        (at, action)
        for at, (_, action) in enumerate(lineage.column_changes)
        if not isinstance(action, ChangeType)
        and (isinstance(action, RenameColumn) or in_one_case(action.name) in names)
    ]
    rows = {(o.naming, frozenset(n for n in o.columns if in_one_case(n) in names)) for o in column_orders}
    replaced: dict[int, str] = {}
    for naming, columns in sorted(rows, key=lambda row: (row[0], sorted(row[1]))):
        there = {in_one_case(name): name for name in sorted(columns)}
        replaced.update(_replaced_in(there, (change for change in changes if change[0] >= naming)))
    return replaced


def _replaced_in(
    there: dict[str, str], changes: Iterable[tuple[int, ColumnAction]]
) -> Iterator[tuple[int, str]]:
    """The columns of one row that others replace; `there` has their spelling by the name in lower case."""
    for at, action in changes:
        match action:
            case AddColumn(name):
                there.setdefault(in_one_case(name), name)
            case DropColumn(name):
                there.pop(in_one_case(name), None)
            case RenameColumn(old, new):
                if there.pop(in_one_case(old), None) is not None:
                    if in_one_case(new) in there:
                        yield at, there[in_one_case(new)]
                    there[in_one_case(new)] = new
            case _:
                pass


def repeated_additions(lineage: Lineage) -> set[int]:
    """Which column changes add a column that is there by an earlier one: IF NOT EXISTS does nothing then."""
    added: set[str] = set()
    repeated: set[int] = set()
    for at, (_, action) in enumerate(lineage.column_changes):
        match action:
            case AddColumn(name):
                if name in added:
                    repeated.add(at)
                added.add(name)
            case DropColumn(name):
                added.discard(name)
            case RenameColumn(old, new):
                added.discard(old)
                added.add(new)
            case _:
                pass
    return repeated


def evidence_by_column(
    evidence: Mapping[tuple[int, str], ColumnEvidence], namings: Sequence[ColumnNaming]
) -> dict[str, ColumnEvidence]:
    """The evidence of rows of all namings, by current names, without removed columns.

    Numbers that earlier rows take as the default of a column count for its widths as those of its rows do.
    """
    merged: dict[str, ColumnEvidence] = {}
    for (naming, name), shown in sorted(evidence.items()):
        column = namings[naming].current_name(name)
        if column is not None:
            merged[column] = merged.get(column, ColumnEvidence()) | shown
    for naming in {naming for naming, _ in evidence}:
        for column, default in namings[naming].defaults.items():
            if column in merged and merged[column].is_numeric and is_plain_number(default):
                merged[column] |= widths_of((default,))
    return merged


def needed_orders(column_orders: Iterable[ColumnOrder]) -> tuple[ColumnOrder, ...]:
    """Those that `ordered_names` needs: an older order whose columns newer ones have changes nothing.

    The longest one of each naming stays, too: it shows which columns rows have at once. Rows may have any
    subset of a table's columns. For each naming, there is at most one order more than columns.
    """
    needed: list[ColumnOrder] = []
    known: dict[int, set[str]] = {}
    longest: dict[int, ColumnOrder] = {}
    orders = _newest_first(column_orders)
    for order in orders:
        other = longest.setdefault(order.naming, order)
        longest[order.naming] = order if len(order.columns) > len(other.columns) else other
    for order in orders:
        names = known.setdefault(order.naming, set())
        if order is longest[order.naming] or not names.issuperset(order.columns):
            names.update(order.columns)
            needed.append(order)
    return tuple(sorted(needed, key=lambda o: (o.naming, o.columns)))


def _newest_first(column_orders: Iterable[ColumnOrder]) -> list[ColumnOrder]:
    return sorted(column_orders, key=lambda o: (o.naming, o.last_sequence, o.columns), reverse=True)


def ordered_names(
    column_orders: Iterable[ColumnOrder], lineage: Lineage, namings: Sequence[ColumnNaming]
) -> list[str]:
    """The current names in the source's order.

    The newest schema gives the order. A column that only older schemas have follows its neighbour there,
    and one that only statements add takes the place that its statement gives it.
    """
    order = _Order()
    for column_order in _newest_first(column_orders):
        previous: str | None = None
        for name in column_order.columns:
            column = namings[column_order.naming].current_name(name)
            if column is None:
                continue
            if column not in order.following:
                order.insert(column, after=previous)
            previous = column
    for at, (_, action) in enumerate(lineage.column_changes):
        if isinstance(action, AddColumn):
            naming = namings[at + 1]
            column = naming.current_name(action.name)
            if column is not None and column not in order.following:
                anchor = naming.current_name(action.after) if action.after else None
                order.insert(
                    column,
                    after=None
                    if action.first
                    else anchor
                    if anchor and anchor in order.following
                    else order.last,
                )
    return order.names()


class _Order:
    """A linked list of names; `following` has the name after each, and the first one after None."""

    def __init__(self) -> None:
        self.following: dict[str | None, str | None] = {None: None}
        self.last: str | None = None

    def insert(self, name: str, after: str | None) -> None:
        """Inserts a new name after another one; after None: as the first."""
        self.following[name] = self.following[after]
        self.following[after] = name
        if self.last == after:
            self.last = name

    def names(self) -> list[str]:
        ordered: list[str] = []
        name = self.following[None]
        while name is not None:
            ordered.append(name)
            name = self.following[name]
        return ordered


def types_from_statements(
    lineage: Lineage, namings: Sequence[ColumnNaming]
) -> dict[str, tuple[str | None, str | None]]:
    """The type and type text that statements declare, by current names; for columns without rows."""
    types: dict[str, tuple[str | None, str | None]] = {}
    for at, (_, action) in enumerate(lineage.column_changes):
        if isinstance(action, AddColumn | ChangeType):
            column = namings[at + 1].current_name(action.name)
            if column is not None:
                types[column] = (action.type, action.declared)
    return types


def resolve_columns(
    order: Sequence[str],
    evidence: Mapping[str, ColumnEvidence],
    statements: Mapping[str, tuple[str | None, str | None]],
    settings: TableSettings,
) -> tuple[TableColumn, ...]:
    """The typed columns of the replica. A type in the configuration overrides everything else.

    Args:
        order: The current names, in order.
        evidence: What rows show of each column.
        statements: What statements declare of each column: type and type text.
        settings: The table's settings.
    """
    columns = []
    for name in order:
        shown = evidence.get(name, ColumnEvidence())
        rule = settings.columns.get(name)
        declared = ", ".join(sorted(shown.declared)) or None
        if rule is not None and rule.type:
            kind = str(rule.type)
        elif rule is not None and rule.decode:
            # silver has not decoded the messages of such a column: it reads them as before
            kind = "binary" if infer_type(shown) == "binary" else "string"
        elif not shown.types and not (shown.tokens - {Token.NULL}):
            kind = statements.get(name, (None, None))[0] or "string"
            declared = declared or statements.get(name, (None, None))[1]
        else:
            kind = infer_type(shown)
        columns.append(TableColumn(name, kind, declared))
    return tuple(columns)
