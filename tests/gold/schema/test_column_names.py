"""The names of columns against their plain definitions,
and at a size where a definition taken at its word would take hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import AddColumn, ChangeType, DropColumn, RenameColumn, TableName
from framework.naming import in_one_case
from gold.changes import profile
from gold.changes.profile import Profile, merge_profiles, namings_for
from gold.schema.case_matching import match_case
from gold.schema.columns import (
    ColumnNaming,
    ColumnOrder,
    column_namings,
    needed_orders,
    ordered_names,
    replaced_columns,
)
from gold.schema.lineage import ColumnAction, Lineage
from gold.schema.type_inference import ColumnEvidence

ORDERS = TableName("shop", None, "orders")
NAMES = ("a", "A", "b", "B", "c", "d")

_NAME = st.sampled_from(NAMES)


def steps_with(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[int, ColumnAction]]]:
    """Changes of columns with their positions, in order."""
    step: st.SearchStrategy[ColumnAction] = st.one_of(
        st.builds(
            AddColumn,
            names,
            st.just("int"),
            st.just("int"),
            st.booleans(),
            st.none() | names,
            st.none() | st.sampled_from(("1", "2")),
        ),
        st.builds(DropColumn, names),
        st.builds(RenameColumn, names, names),
        st.builds(ChangeType, names, st.just("int"), st.just("int")),
    )
    return st.lists(st.tuples(st.integers(0, 4), step), max_size=8).map(
        lambda steps: sorted(steps, key=lambda step: step[0])
    )


_STEPS = steps_with(_NAME)
_LOWER = st.sampled_from("abcd")
_SHAPES = st.lists(st.tuples(st.integers(0, 8), st.lists(_NAME, unique=True, max_size=5)), max_size=4)


def lineage(steps: Iterable[tuple[object, ColumnAction]]) -> Lineage:
    return Lineage(ORDERS, (), tuple((str(sequence), action) for sequence, action in steps))


def today(
    name: str, steps: Sequence[ColumnAction], start: int, policy: SchemaPolicy, reused: set[str]
) -> str | None:
    """What a column is called today that rows behind `start` steps call `name`."""
    for at in range(start, len(steps)):
        action = steps[at]
        if isinstance(action, RenameColumn) and action.old == name:
            name = action.new
        elif isinstance(action, DropColumn) and action.name == name:
            if policy is SchemaPolicy.EVOLVE:
                return None
            made = [
                s.name if isinstance(s, AddColumn) else s.new
                for s in steps[at + 1 :]
                if isinstance(s, AddColumn | RenameColumn)
            ]
            if name.lower() in reused | {other.lower() for other in made}:
                return f"_cdc_dropped_{sum(isinstance(s, DropColumn) for s in steps[: at + 1])}_{name}"
            return name
    return name


def is_there(name: str, steps: Sequence[ColumnAction]) -> bool:
    """Whether the last of these steps that says whether a column has this name says that one has."""
    for step in reversed(steps):
        match step:
            case AddColumn() if step.name == name:
                return True
            case RenameColumn(old, new) if name in (old, new):
                return name == new
            case DropColumn() if step.name == name:
                return False
            case _:
                pass
    return False


@settings(max_examples=300, deadline=None)
@given(
    steps=_STEPS,
    policy=st.sampled_from((SchemaPolicy.LENIENT, SchemaPolicy.EVOLVE)),
    reused=st.sets(_NAME, max_size=2),
)
def test_every_stretch_names_columns_as_its_steps_do(
    steps: list[tuple[int, ColumnAction]], policy: SchemaPolicy, reused: set[str]
) -> None:
    found = column_namings(lineage(steps), policy, reused)
    actions, reused_names = [action for _, action in steps], {name.lower() for name in reused}
    assert len(found) == len(steps) + 1
    for start, naming in enumerate(found):
        in_lineage = {
            a.old if isinstance(a, RenameColumn) else a.name
            for a in actions[start:]
            if isinstance(a, RenameColumn | DropColumn)
        }
        assert {n: naming.current_name(n) for n in NAMES} == {
            n: today(n, actions, start, policy, reused_names) if n in in_lineage else n for n in NAMES
        }
        defaults: dict[str, str] = {}
        for at, action in enumerate(actions[start:], start):
            target = (
                today(action.name, actions, at + 1, policy, reused_names)
                if isinstance(action, AddColumn)
                else None
            )
            if (
                isinstance(action, AddColumn)
                and action.default is not None
                and target is not None
                and not is_there(action.name, actions[:at])
            ):
                defaults[target] = action.default
        is_inside = 0 < start < len(steps) and steps[start - 1][0] == steps[start][0]
        assert naming.defaults == ({} if is_inside else defaults)


@settings(max_examples=300, deadline=None)
@given(steps=_STEPS, column_orders=_SHAPES)
def test_columns_stand_where_the_newest_schema_and_the_statements_put_them(
    steps: list[tuple[int, ColumnAction]], column_orders: list[tuple[int, list[str]]]
) -> None:
    known = lineage(steps)
    found = column_namings(known, SchemaPolicy.LENIENT, ())
    seen = [
        ColumnOrder(min(naming, len(steps)), str(n), tuple(names))
        for n, (naming, names) in enumerate(column_orders)
    ]
    order: list[str] = []
    for shape in sorted(seen, key=lambda s: (s.naming, s.last_sequence), reverse=True):
        at = -1
        for name in shape.columns:
            column = found[shape.naming].current_name(name)
            if column is not None and column not in order:
                order.insert(at + 1, column)
            at = order.index(column) if column is not None else at
    for at, (_, action) in enumerate(steps, 1):
        column = found[at].current_name(action.name) if isinstance(action, AddColumn) else None
        if isinstance(action, AddColumn) and column is not None and column not in order:
            anchor = found[at].current_name(action.after) if action.after else None
            order.insert(
                0 if action.first else order.index(anchor) + 1 if anchor in order else len(order), column
            )
    assert ordered_names(seen, known, found) == order


def spelled(name: str, among: set[str]) -> str:
    close = [other for other in among if other.lower() == name.lower()]
    return name if name in among or len(close) != 1 else close[0]


@settings(max_examples=300, deadline=None)
@given(steps=_STEPS, seen=st.sets(st.tuples(st.integers(0, 8), _NAME), max_size=6))
def test_statements_spell_columns_as_rows_do(
    steps: list[tuple[int, ColumnAction]], seen: set[tuple[int, str]]
) -> None:
    known: set[str] = set()
    expected: list[ColumnAction] = []
    for at, (_, action) in enumerate(steps):
        known |= {name for naming, name in seen if naming == at}
        later = {name for naming, name in seen if naming > at}
        if isinstance(action, RenameColumn):
            old, new = spelled(action.old, known), spelled(action.new, later)
            known = known - {old} | {new}
            expected.append(RenameColumn(old, new))
            continue
        name = spelled(action.name, known)
        if isinstance(action, AddColumn):
            name = name if name in known else spelled(action.name, later)
            action = replace(action, after=action.after and spelled(action.after, known))
            known |= {name}
        elif isinstance(action, DropColumn):
            known -= {name}
        expected.append(replace(action, name=name))
    assert [action for _, action in match_case(lineage(steps), seen).column_changes] == expected


@settings(max_examples=300, deadline=None)
@given(steps=_STEPS, column_orders=_SHAPES, first=st.integers(0, 6), moments=st.permutations(range(9)))
def test_orders_that_are_left_out_change_nothing(
    steps: list[tuple[int, ColumnAction]],
    column_orders: list[tuple[int, list[str]]],
    first: int,
    moments: list[int],
) -> None:
    told = lineage(steps)
    found = column_namings(told, SchemaPolicy.LENIENT, ())
    seen = [
        ColumnOrder(min(naming, len(steps)), str(moments[n % 9]), tuple(names))
        for n, (naming, names) in enumerate(column_orders)
    ]
    needed = needed_orders([*needed_orders(seen[:first]), *seen[first:]])
    assert ordered_names(needed, told, found) == ordered_names(seen, told, found)


def test_a_table_with_rows_of_any_columns_keeps_as_many_orders_as_columns() -> None:
    columns = tuple(f"c{n}" for n in range(10))
    subsets = [
        ColumnOrder(0, str(bits), tuple(name for n, name in enumerate(columns) if bits >> n & 1))
        for bits in range(1, 1 << len(columns))
    ]
    assert len(needed_orders(subsets)) <= len(columns) + 1
    one = Profile(rows=1, column_orders=tuple(subsets[:500]))
    other = Profile(rows=1, column_orders=tuple(subsets[500:]))
    assert merge_profiles(one, other).column_orders == needed_orders(subsets)


def test_two_thousand_columns_added_one_by_one_and_at_once() -> None:
    """As many pairs of steps and columns are 4 million:
    what looks at a third thing for each pair does not end in a test's time.
    """
    added = [AddColumn(f"C{i}", "int", "int", default="1") for i in range(2000)]
    columns = tuple(f"c{i}" for i in range(2000))
    column_orders = [ColumnOrder(2000, str(n), columns[: 2000 - n]) for n in range(40)]
    for steps in (list(enumerate(added)), [(0, action) for action in added]):
        known = match_case(lineage(steps), [(2000, name) for name in columns])
        found = column_namings(known, SchemaPolicy.LENIENT, ())
        assert ordered_names(column_orders, known, found) == list(columns)
        assert found[0] == ColumnNaming({}, dict.fromkeys(columns, "1"))
    assert not any(naming.defaults for naming in found[1:]), "no row stands inside of one statement"


@pytest.mark.parametrize(
    ("policy", "kept"), [(SchemaPolicy.LENIENT, "_cdc_dropped_1_b"), (SchemaPolicy.EVOLVE, None)]
)
def test_a_column_whose_name_another_one_takes_is_dropped_before(
    policy: SchemaPolicy, kept: str | None
) -> None:
    known = lineage([(1, RenameColumn("a", "b"))])
    seen = [ColumnOrder(0, "0", ("a", "b")), ColumnOrder(1, "1", ("b",))]
    found = column_namings(known, policy, (), replaced_columns(known, seen))
    assert [(naming.current_name("a"), naming.current_name("b")) for naming in found] == [
        ("b", kept),
        ("a", "b"),
    ]


def test_a_rename_that_is_told_twice_replaces_no_column() -> None:
    known = lineage([(1, RenameColumn("a", "b")), (2, RenameColumn("a", "b"))])
    assert replaced_columns(known, [ColumnOrder(n, str(n), (name,)) for n, name in enumerate("abb")]) == {}


def whole_rows(seen: Iterable[tuple[int, str]]) -> tuple[ColumnOrder, ...]:
    """The orders of rows that have all columns of their naming."""
    names: dict[int, list[str]] = {}
    for naming, name in seen:
        names.setdefault(naming, []).append(name)
    return tuple(ColumnOrder(naming, str(naming), tuple(mine)) for naming, mine in names.items())


def test_rows_of_a_full_load_without_positions_replace_no_column() -> None:
    """They have the new name, and count as older than the rename."""
    known = lineage([(1, RenameColumn("a", "b"))])
    assert replaced_columns(known, [ColumnOrder(0, "0", ("a",)), ColumnOrder(0, "0", ("b",))]) == {}


def test_whole_rows_show_a_replaced_column_after_any_number_of_partial_ones() -> None:
    known = lineage([(1, RenameColumn("a", "b"))])
    partial = [ColumnOrder(0, "4", ("id", "a")), ColumnOrder(0, "5", ("id", "b"))]
    needed = needed_orders([ColumnOrder(0, "3", ("id", "a", "b")), *partial])
    assert replaced_columns(known, needed) == {0: "b"}


@settings(max_examples=300, deadline=None)
@given(
    steps=steps_with(_LOWER),
    policy=st.sampled_from((SchemaPolicy.LENIENT, SchemaPolicy.EVOLVE)),
    seen=st.sets(st.tuples(st.integers(0, 6), _LOWER), max_size=8),
)
def test_two_columns_of_one_row_never_get_one_name(
    steps: list[tuple[int, ColumnAction]], policy: SchemaPolicy, seen: set[tuple[int, str]]
) -> None:
    """Whatever statements are lost."""
    shown = {(naming, name): ColumnEvidence() for naming, name in seen if naming <= len(steps)}
    known = match_case(lineage(steps), shown)
    found = namings_for(known, policy, Profile(evidence=shown, column_orders=whole_rows(shown)))
    for number, naming in enumerate(found):
        names = [naming.current_name(name) for at, name in shown if at == number]
        kept = [name for name in names if name is not None]
        assert len(set(kept)) == len(kept)


def test_what_rows_show_is_not_read_for_each_dropped_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six hundred statements about a table of three hundred columns took seconds, several times a run."""
    compared: list[str] = []
    monkeypatch.setattr(profile, "in_one_case", lambda name: compared.append(name) or in_one_case(name))
    steps: list[tuple[int, ColumnAction]] = [(at, DropColumn(f"gone_{at}")) for at in range(1, 101)]
    shown = {(naming, f"c{number}"): ColumnEvidence() for naming in range(101) for number in range(10)}
    shown |= {(0, "gone_7"): ColumnEvidence(), (50, "GONE_7"): ColumnEvidence()}
    found = namings_for(lineage(steps), SchemaPolicy.LENIENT, Profile(evidence=shown))
    assert found[0].current_name("gone_7") == "_cdc_dropped_7_gone_7"
    assert len(compared) <= len(shown) + len(steps)
