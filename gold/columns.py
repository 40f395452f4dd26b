"""The columns of a replica: today's names of what its rows called them, in the source's order, with the types that hold all.

Everything here is a pure function of what was seen (schemas, statements, the widths of numbers), and joins are
commutative, so that any order of arrival and any split into batches ends in the same columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from framework.config import TableSettings
from framework.config_rules import SchemaPolicy
from framework.contracts.actions import AddColumn, ChangeType, DropColumn, RenameColumn
from framework.contracts.events import Token
from gold.lineage import Lineage

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
MAX_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Seen:
    """What one stretch of a table's rows showed of one column under its name then.

    `types` and `declared` are what the feed declared, `tokens` what undeclared values looked like. `digits` and `scale`
    are the most digits before and after the point among plain numbers, `low` and `high` the extremes of whole numbers,
    `has_others` says that a value was no plain number of at most 38 digits.
    """

    types: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    tokens: frozenset[str] = frozenset()
    digits: int = 0
    scale: int = 0
    low: int = 0
    high: int = 0
    has_others: bool = False

    def __or__(self, other: Seen) -> Seen:
        return Seen(
            self.types | other.types,
            self.declared | other.declared,
            self.tokens | other.tokens,
            max(self.digits, other.digits),
            max(self.scale, other.scale),
            min(self.low, other.low),
            max(self.high, other.high),
            self.has_others or other.has_others,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of one schema in their order, at the highest position where it was seen."""

    stretch: int
    last_sequence: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """How the columns of the rows between two steps are named today: old name to column, None where it is removed."""

    names: Mapping[str, str | None] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str | None:
        """Today's name of a column of this stretch."""
        return self.names.get(name, name)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a replica: the source's name today, its type, and the source's own type text for the comment."""

    name: str
    type: str
    declared: str | None


def stretches(lineage: Lineage, policy: SchemaPolicy, reused: Iterable[str]) -> tuple[Stretch, ...]:
    """One more than there are steps: stretch `i` holds the rows after `i` steps.

    `reused` are names that rows use again after a drop of that name; the dropped column steps aside then. No row stands
    between two steps of one statement: such stretches have names alone.
    """
    again = {name.casefold() for name in reused}
    drops = sum(isinstance(action, DropColumn) for _, action in lineage.steps)
    names: dict[str, str | None] = {}
    defaults: dict[str, str] = {}
    found = [Stretch()]
    for at in range(len(lineage.steps) - 1, -1, -1):
        sequence, action = lineage.steps[at]
        match action:
            case RenameColumn(old, new):
                names[old] = names.get(new, new)
                again.add(new.casefold())
            case DropColumn(name):
                is_reused = name.casefold() in again
                names[name] = None if policy is SchemaPolicy.EVOLVE else f"_cdc_dropped_{drops}_{name}" if is_reused else name
                drops -= 1
            case AddColumn(name):
                target = names.get(name, name)
                if action.default is not None and target is not None:
                    defaults.setdefault(target, action.default)
                again.add(name.casefold())
            case _:
                pass
        is_inside = at > 0 and lineage.steps[at - 1][0] == sequence
        found.append(Stretch({n: t for n, t in names.items() if n != t}, {} if is_inside else dict(defaults)))
    return tuple(reversed(found))


def seen_today(seen: Mapping[tuple[int, str], Seen], mapped: Sequence[Stretch]) -> dict[str, Seen]:
    """What rows of all stretches showed, by today's names; removed columns are left out."""
    joined: dict[str, Seen] = {}
    for (stretch, name), what in sorted(seen.items()):
        column = mapped[stretch].column(name)
        if column is not None:
            joined[column] = joined.get(column, Seen()) | what
    return joined


def ordered_names(shapes: Iterable[Shape], lineage: Lineage, mapped: Sequence[Stretch]) -> list[str]:
    """Today's names in the source's own order: the newest schema's, older columns behind their neighbours, DDL's at its place."""
    order = _Order()
    newest_first = sorted(shapes, key=lambda s: (s.stretch, s.last_sequence, s.columns), reverse=True)
    for shape in newest_first:
        previous: str | None = None
        for name in shape.columns:
            column = mapped[shape.stretch].column(name)
            if column is None:
                continue
            if column not in order.following:
                order.put(column, behind=previous)
            previous = column
    for at, (_, action) in enumerate(lineage.steps):
        if isinstance(action, AddColumn):
            column = _today_after(action.name, at + 1, mapped)
            if column is not None and column not in order.following:
                anchor = _today_after(action.after, at + 1, mapped) if action.after else None
                order.put(column, behind=None if action.first else anchor if anchor and anchor in order.following else order.last)
    return order.names()


class _Order:
    """A chain of names; `following` has the name behind each, and the first one behind None."""

    def __init__(self) -> None:
        self.following: dict[str | None, str | None] = {None: None}
        self.last: str | None = None

    def put(self, name: str, behind: str | None) -> None:
        """Take a new name in behind another; behind None: as the first."""
        self.following[name] = self.following[behind]
        self.following[behind] = name
        if self.last == behind:
            self.last = name

    def names(self) -> list[str]:
        found: list[str] = []
        name = self.following[None]
        while name is not None:
            found.append(name)
            name = self.following[name]
        return found


def _today_after(name: str, stretch: int, mapped: Sequence[Stretch]) -> str | None:
    return mapped[stretch].column(name)


def declared_by_statements(lineage: Lineage, mapped: Sequence[Stretch]) -> dict[str, tuple[str | None, str | None]]:
    """Type and type text that statements declare, by today's names; used only for columns that no row has shown yet."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for at, (_, action) in enumerate(lineage.steps):
        if isinstance(action, AddColumn | ChangeType):
            column = mapped[at + 1].column(action.name)
            if column is not None:
                found[column] = (action.type, action.declared)
    return found


def resolve(
    order: Sequence[str], seen: Mapping[str, Seen], statements: Mapping[str, tuple[str | None, str | None]], settings: TableSettings
) -> tuple[TableColumn, ...]:
    """The columns of the replica, typed. A type in the configuration stands above everything."""
    columns = []
    for name in order:
        what = seen.get(name, Seen())
        rule = settings.columns.get(name)
        declared = ", ".join(sorted(what.declared)) or None
        if rule is not None and rule.type:
            kind = str(rule.type)
        elif rule is not None and rule.decode:
            kind = "string"
        elif not what.types and not (what.tokens - {Token.NULL}):
            kind = statements.get(name, (None, None))[0] or "string"
            declared = declared or statements.get(name, (None, None))[1]
        else:
            kind = type_of(what)
        columns.append(TableColumn(name, kind, declared))
    return tuple(columns)


def type_of(seen: Seen) -> str:
    """The narrowest canonical type that holds everything that was seen without loss."""
    types = set(seen.types)
    tokens = seen.tokens - {Token.NULL}
    if tokens:
        types.add(_inferred(tokens, seen))
    found: str | None = None
    for kind in sorted(types):
        found = kind if found is None else join(found, kind)
    return _wide_enough(found, seen) if found in INTEGERS else found or "string"


def _wide_enough(kind: str, seen: Seen) -> str:
    """The integer type, or one that holds the numbers beyond it: feeds declare `bigint` for unsigned columns."""
    for wider in INTEGERS[INTEGERS.index(kind) :]:
        limit = 1 << (_BITS[wider] - 1)
        if -limit <= seen.low and seen.high < limit:
            return wider
    return _decimal(max(20, seen.digits), 0)


def _inferred(tokens: frozenset[str] | set[str], seen: Seen) -> str:
    if tokens == {Token.NUMBER}:
        if seen.has_others:
            return "string"
        if seen.scale == 0:
            return _wide_enough("bigint", seen)
        return _decimal(max(20, seen.digits) + seen.scale, seen.scale)
    if tokens == {Token.BOOLEAN}:
        return "boolean"
    return "string"


def _decimal(precision: int, scale: int) -> str:
    return f"decimal({precision},{scale})" if precision <= MAX_DIGITS else "string"


def join(one: str, other: str) -> str:
    """The narrowest type that holds the values of both; `string` where nothing else does."""
    if one == other:
        return one
    if one in INTEGERS and other in INTEGERS:
        return max(one, other, key=INTEGERS.index)
    a, b = _digits(one), _digits(other)
    if a is not None and b is not None:
        scale = max(a[1], b[1])
        return _decimal(max(a[0], b[0]) + scale, scale)
    if {one, other} == {"float", "double"}:
        return "double"
    return "string"


def _digits(kind: str) -> tuple[int, int] | None:
    if kind in INTEGERS:
        return _INTEGER_DIGITS[kind] + (1 if kind == "bigint" else 0), 0
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


def widens_in_place(old: str, new: str) -> bool:
    """Whether Delta changes the column's type without rewriting the table."""
    if old in INTEGERS and new in INTEGERS:
        return INTEGERS.index(old) < INTEGERS.index(new)
    if (old, new) == ("float", "double"):
        return True
    a, b = _digits(old), _digits(new)
    if a is None or b is None or new in INTEGERS:
        return False
    if old in INTEGERS:
        return b[0] >= (20 if old == "bigint" else 10) and old in ("int", "bigint", "smallint", "tinyint")
    return b[0] >= a[0] and b[1] >= a[1]
