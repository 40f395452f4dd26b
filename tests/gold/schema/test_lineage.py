"""Behaviour 5 and 6 of the contract: what statements make of tables, whenever they arrive."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.ddl_actions import (
    IF_EXISTS,
    Action,
    AddColumn,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetKeys,
    TableName,
    TruncateTable,
    Unsupported,
)
from gold.planning.discovery import _batches_at, _Extent
from gold.schema.lineage import START, Lineage, Segment, earlier_lives, trace_tables
from gold.schema.source_statements import Statement


def name(table: str) -> TableName:
    return TableName("shop", None, table)


ORDERS, GHOST, FORMER = name("orders"), name("_orders_gho"), name("_orders_del")
A, B, T, U = name("a"), name("b"), name("t"), name("u")


def statement(sequence: str, table: TableName, *actions: Action, ordinal: int = 0) -> Statement:
    return Statement(sequence, f"{sequence}-{table.table}-{ordinal}", 0, table, actions, None, ordinal)


def segments(lineage: Lineage) -> list[tuple[str, str, str | None]]:
    return [(p.table.table, p.start, p.end) for p in lineage.segments]


def trace(statements: Iterable[Statement], names: Iterable[TableName]) -> dict[TableName, Lineage]:
    """The lineage of names whose rows all came before any statement."""
    return trace_tables(statements, dict.fromkeys(names, "s0"))


def test_a_table_without_statements_is_all_rows_of_its_name() -> None:
    assert trace([], [A]) == {A: Lineage(A, (Segment(A, START, None),))}


def test_actions_on_columns_are_steps_in_order_of_position() -> None:
    add, drop = AddColumn("x", "int", "int"), DropColumn("y")
    found = trace([statement("s2", A, drop), statement("s1", A, add)], [A])[A]
    assert found.column_changes == (("s1", add), ("s2", drop))
    assert segments(found) == [("a", START, None)]


def test_what_a_name_had_before_a_rename_belongs_to_no_table_unless_a_statement_tells_of_it() -> None:
    rename = statement("s2", A, RenameTable(B))
    assert trace([rename], [A, B])[B].unclaimed == (Segment(B, START, "s2"),)
    assert trace([statement("s1", B, DropTable()), rename], [A, B])[B].unclaimed == ()
    assert trace([statement("s2", B, RenameTable(T)), rename], [A, B])[B].unclaimed == ()


def test_a_renamed_table_takes_its_rows_along_and_the_old_name_is_dropped() -> None:
    found = trace([statement("s5", A, RenameTable(B))], [A, B])
    assert segments(found[B]) == [("a", START, "s5"), ("b", "s5", None)]
    assert segments(found[A]) == [("a", START, "s5")]
    assert (found[A].is_dropped, found[A].renamed_to) == (True, B)
    assert (found[B].is_dropped, found[B].renamed_to) == (False, None)


def test_a_table_renamed_twice_takes_all_its_rows_along() -> None:
    found = trace([statement("s5", A, RenameTable(B)), statement("s7", B, RenameTable(T))], [A])
    assert segments(found[T]) == [("a", START, "s5"), ("b", "s5", "s7"), ("t", "s7", None)]
    assert (found[A].renamed_to, found[B].renamed_to) == (B, T)


def test_renames_at_one_position_happen_in_the_order_of_their_messages() -> None:
    """A tool that copies a table swaps the two at one position: `t` to `old`, then `a` to `t`."""
    away = replace(statement("s5", T, RenameTable(name("old"))), message=("shop", 0, 7))
    back = replace(statement("s5", A, RenameTable(T)), message=("shop", 0, 8))
    for statements in ([away, back], [back, away]):
        found = trace(statements, [T, A])
        assert segments(found[T]) == [("a", START, "s5"), ("t", "s5", None)]
        assert segments(found[name("old")]) == [("t", START, "s5"), ("old", "s5", None)]


def test_a_table_renamed_there_and_back_is_one_table() -> None:
    found = trace([statement("s5", A, RenameTable(B)), statement("s7", B, RenameTable(A))], [A])
    assert segments(found[A]) == [("a", START, "s5"), ("b", "s5", "s7"), ("a", "s7", None)]
    assert (found[A].is_dropped, found[B].is_dropped, found[B].renamed_to) == (False, True, A)


def test_a_cycle_of_renames_in_three_statements_swaps_the_tables() -> None:
    found = trace(
        [
            statement("s5", A, RenameTable(T)),
            statement("s6", B, RenameTable(A)),
            statement("s7", T, RenameTable(B)),
        ],
        [A, B],
    )
    assert segments(found[A]) == [("b", START, "s6"), ("a", "s6", None)]
    assert segments(found[B]) == [("a", START, "s5"), ("t", "s5", "s7"), ("b", "s7", None)]
    assert [found[t].is_dropped for t in (A, B, T)] == [False, False, True]


def test_a_cycle_of_renames_in_one_statement_swaps_the_tables() -> None:
    cycle = [
        statement("s5", A, RenameTable(T)),
        statement("s5", B, RenameTable(A), ordinal=1),
        statement("s5", T, RenameTable(B), ordinal=2),
    ]
    for seed in range(6):
        found = trace(random.Random(seed).sample(cycle, 3), [A, B])
        assert segments(found[A]) == [("b", START, "s5"), ("a", "s5", None)]
        assert segments(found[B]) == [("a", START, "s5"), ("t", "s5", "s5"), ("b", "s5", None)]


def test_a_shadow_table_swapped_in_is_the_table_from_then_on() -> None:
    swap = [statement("s5", A, RenameTable(T)), statement("s5", B, RenameTable(A), ordinal=1)]
    found = trace(swap, [A, B])
    assert segments(found[A]) == [("b", START, "s5"), ("a", "s5", None)]
    assert segments(found[T]) == [("a", START, "s5"), ("t", "s5", None)]
    assert (found[B].is_dropped, found[B].renamed_to) == (True, A)


def test_a_rename_onto_a_name_in_use_ends_what_was_there() -> None:
    found = trace(
        [statement("s1", B, AddColumn("x", "int", "int")), statement("s5", A, RenameTable(B))], [A, B]
    )
    assert segments(found[B]) == [("a", START, "s5"), ("b", "s5", None)]
    assert found[B].column_changes == ()


def test_a_rename_to_its_own_name_does_nothing() -> None:
    assert segments(trace([statement("s5", A, RenameTable(A))], [A])[A]) == [("a", START, None)]


def test_a_dropped_table_keeps_its_rows() -> None:
    found = trace([statement("s5", A, DropTable())], [A])[A]
    assert (segments(found), found.is_dropped, found.renamed_to) == ([("a", START, "s5")], True, None)


def test_a_table_dropped_and_created_again_starts_empty() -> None:
    statements = [
        statement("s1", A, AddColumn("x", "int", "int")),
        statement("s2", A, TruncateTable()),
        statement("s5", A, DropTable()),
        statement("s7", A, CreateTable(keys=("id",))),
    ]
    found = trace(statements, [A])[A]
    assert (segments(found), found.is_dropped) == ([("a", "s7", None)], False)
    assert (found.column_changes, found.truncates, found.keys) == ((), (), (("s7", ("id",)),))


def test_a_table_dropped_and_created_in_one_text_starts_empty() -> None:
    for order in ((0, 1), (1, 0)):
        both = [statement("s5", A, DropTable()), statement("s5", A, CreateTable(), ordinal=1)]
        found = trace([both[i] for i in order], [A])[A]
        assert (segments(found), found.is_dropped) == ([("a", "s5", None)], False)


WHOLE = TableName("shop", None, "")


def test_a_dropped_database_drops_its_tables_that_exist_there() -> None:
    other = TableName("shop2", None, "a")
    inner = TableName("shop", "sales", "a")
    steps = [
        statement("s1", B, CreateTable()),
        statement("s2", U, DropTable()),
        statement("s3", T, RenameTable(TableName("shop2", None, "t"))),
        statement("s5", WHOLE, DropDatabase()),
        statement("s7", A, CreateTable()),
    ]
    rows = {A: "s8", name("late"): "s6", other: "s6", inner: "s6", name("stays"): "s6"}
    first = {A: "s4", name("late"): "s6", other: "s4", inner: "s4", name("stays"): "s4"}
    found = trace_tables(steps, rows, first)
    assert segments(found[A]) == [("a", "s7", None)]
    assert segments(found[B]) == [("b", START, "s5")]
    assert (found[B].is_dropped, found[B].renamed_to) == (True, None)
    assert segments(found[U]) == [("u", START, "s2")]
    assert segments(found[name("late")]) == [("late", START, None)]
    assert segments(found[name("stays")]) == [("stays", "s5", None)]
    assert all(not found[table].is_dropped for table in (other, inner, TableName("shop2", None, "t")))
    assert WHOLE not in found
    assert [segments(one) for one in earlier_lives(found[A], steps, rows, first)] == [[("a", START, "s5")]]


class Counted(dict[TableName, Any]):
    """Names that count how often one of them is read."""

    reads = 0

    def __iter__(self) -> Iterator[TableName]:
        for one in super().__iter__():
            Counted.reads += 1
            yield one


def test_the_names_of_all_tables_are_not_read_for_each_dropped_database() -> None:
    """A run took most of a minute where a thousand of the databases of ten thousand tables were dropped."""
    tables = [TableName(f"db{at}", None, table) for at in range(50) for table in "abcd"]
    steps = [statement(f"s5{at:02}", TableName(f"db{at}", None, ""), DropDatabase()) for at in range(49)]
    rows = Counted(dict.fromkeys(tables, "s1"))
    Counted.reads = 0
    found = trace_tables(steps, rows, rows)
    assert {table.database for table in tables if not found[table].is_dropped} == {"db49"}
    dropped = _batches_at(steps, Counted(found))
    assert {table: len(batches) for table, batches in dropped.items()} == dict.fromkeys(tables[:-4], 1)
    assert Counted.reads <= 3 * len(tables)


def test_a_dropped_schema_drops_its_tables_alone() -> None:
    mine, other = TableName("db", "sales", "a"), TableName("db", "public", "a")
    found = trace_tables(
        [statement("s5", TableName("db", "sales", ""), DropDatabase())],
        {mine: "s1", other: "s1"},
        {mine: "s1", other: "s1"},
    )
    assert (found[mine].is_dropped, found[other].is_dropped) == (True, False)


def test_a_drop_twice_is_a_drop() -> None:
    found = trace([statement("s5", A, DropTable()), statement("s6", A, DropTable())], [A])[A]
    assert (segments(found), found.is_dropped) == ([("a", START, "s5")], True)


def test_rows_between_a_drop_and_a_creation_belong_to_no_table() -> None:
    found = trace([statement("s5", A, DropTable()), statement("s7", A, CreateTable())], [A])[A]
    assert not any(p.start <= "s6" and (p.end is None or p.end > "s6") for p in found.segments)


def test_a_name_created_again_after_a_rename_is_a_new_table() -> None:
    found = trace([statement("s5", A, RenameTable(B)), statement("s7", A, CreateTable())], [A, B])
    assert (segments(found[A]), found[A].is_dropped, found[A].renamed_to) == (
        [("a", "s7", None)],
        False,
        None,
    )
    assert segments(found[B]) == [("a", START, "s5"), ("b", "s5", None)]


def test_a_created_table_begins_before_its_rows_that_came_early() -> None:
    found = trace([statement("s5", A, CreateTable(keys=("id",)))], [A])[A]
    assert (segments(found), found.keys) == ([("a", START, None)], (("s5", ("id",)),))


def test_truncates_are_kept_and_the_newest_counts() -> None:
    found = trace([statement("s7", A, TruncateTable()), statement("s5", A, TruncateTable())], [A])[A]
    assert found.truncates == (("s5", "s5-a-0"), ("s7", "s7-a-0"))
    assert found.truncated_at == "s7"
    assert trace([], [A])[A].truncated_at is None


def test_truncates_and_keys_move_along_with_a_renamed_table() -> None:
    statements = [
        statement("s1", A, TruncateTable()),
        statement("s2", A, SetKeys(("id",))),
        statement("s5", A, RenameTable(B)),
    ]
    found = trace([*statements, statement("s6", B, TruncateTable())], [A])
    assert [s for s, _ in found[B].truncates] == ["s1", "s6"]
    assert found[B].keys == (("s2", ("id",)),)
    assert [s for s, _ in found[A].truncates] == ["s1"]


def test_a_change_of_columns_and_a_rename_in_one_statement_both_count() -> None:
    add = AddColumn("x", "int", "int")
    found = trace([statement("s5", A, add, RenameTable(B))], [A])
    assert found[B].column_changes == (("s5", add),)
    assert segments(found[B]) == [("a", START, "s5"), ("b", "s5", None)]


def test_what_is_not_understood_is_kept_and_what_has_no_effect_is_not() -> None:
    found = trace([statement("s5", A, Unsupported("why")), statement("s6", A, NoEffect("index"))], [A])[A]
    assert found.not_understood == (("s5", "why"),)
    assert found.column_changes == ()


def test_tables_of_equal_names_in_other_databases_are_apart() -> None:
    other = TableName("crm", None, "a")
    found = trace([statement("s5", A, DropTable())], [A, other])
    assert (found[A].is_dropped, found[other].is_dropped) == (True, False)


TABLES = st.sampled_from([A, B, T])
ACTIONS = st.one_of(
    st.builds(RenameTable, TABLES),
    st.just(DropTable()),
    st.just(CreateTable(keys=("id",))),
    st.just(TruncateTable()),
    st.builds(AddColumn, st.sampled_from("xyz"), st.just("int"), st.none()),
    st.builds(RenameColumn, st.sampled_from("xyz"), st.sampled_from("xyz")),
    st.just(SetKeys(("id", "x"))),
)
STATEMENTS = st.lists(st.tuples(TABLES, st.lists(ACTIONS, min_size=1, max_size=2)), max_size=8)


def numbered(found: list[tuple[TableName, list[Action]]]) -> list[Statement]:
    """Statements, two at each position."""
    return [
        statement(f"s{n // 2:02d}", table, *actions, ordinal=n % 2)
        for n, (table, actions) in enumerate(found)
    ]


@given(STATEMENTS, st.randoms(use_true_random=False))
def test_any_order_of_arrival_gives_the_same_lineage(
    found: list[tuple[TableName, list[Action]]], rng: random.Random
) -> None:
    statements = numbered(found)
    expected = trace(statements, [A, B])
    assert trace(rng.sample(statements, len(statements)), [B, A]) == expected


@given(STATEMENTS, st.integers(0, 8))
def test_no_row_is_in_two_living_tables(found: list[tuple[TableName, list[Action]]], at: int) -> None:
    lineages = trace(numbered(found), [A, B, T])
    for table in (A, B, T):
        owners = [
            lineage.table
            for lineage in lineages.values()
            if not lineage.is_dropped
            for p in lineage.segments
            if p.table == table and p.start <= f"s{at:02d}x" and (p.end is None or f"s{at:02d}x" < p.end)
        ]
        assert len(owners) <= 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ORDERS, GHOST, FORMER]),
            st.lists(
                st.one_of(
                    st.builds(RenameTable, st.sampled_from([ORDERS, GHOST, FORMER, A])),
                    st.sampled_from([DropTable(), CreateTable(), AddColumn("x", "int", None)]),
                ),
                min_size=1,
                max_size=2,
            ),
        ),
        max_size=8,
    ),
    st.dictionaries(st.sampled_from([ORDERS, GHOST, FORMER]), st.sampled_from(["s00", "s02", "s09"])),
    st.integers(0, 8),
)
def test_no_row_is_in_two_living_tables_of_a_swap(
    found: list[tuple[TableName, list[Action]]], first: dict[TableName, str], at: int
) -> None:
    lineages = trace_tables(numbered(found), {**dict.fromkeys(first, "s09"), ORDERS: "s09"}, first)
    for table in (ORDERS, GHOST, FORMER, A):
        owners = [
            lineage.table
            for lineage in lineages.values()
            if not lineage.is_dropped
            for p in lineage.segments
            if p.table == table and p.start <= f"s{at:02d}x" and (p.end is None or f"s{at:02d}x" < p.end)
        ]
        assert len(owners) <= 1


def test_rows_behind_a_drop_begin_the_table_anew_without_a_create() -> None:
    found = trace_tables([statement("s5", A, DropTable())], {A: "s7"})

    assert found[A] == Lineage(A, (Segment(A, "s5", None),))


def test_rows_behind_a_rename_begin_a_new_table_under_the_old_name() -> None:
    found = trace_tables([statement("s5", A, RenameTable(B))], {A: "s7", B: "s9"})

    assert found[A] == Lineage(A, (Segment(A, "s5", None),))
    assert found[B].segments == (Segment(A, START, "s5"), Segment(B, "s5", None))


NOTE = AddColumn("note", "string", "text")


def test_a_statement_behind_a_drop_begins_the_table_where_it_ended() -> None:
    for action in (NOTE, SetKeys(("id",)), TruncateTable(), CreateTable(if_not_exists=True)):
        found = trace_tables([statement("s5", A, DropTable()), statement("s9", A, action)], {A: "s8"})
        assert segments(found[A]) == [("a", "s5", None)], action


def test_what_has_no_effect_or_is_not_understood_does_not_bring_a_dropped_table_back() -> None:
    statements = [
        statement("s5", A, DropTable()),
        statement("s9", A, NoEffect("index"), Unsupported("why")),
    ]
    found = trace_tables(statements, {A: "s4"})[A]
    assert (segments(found), found.is_dropped, found.not_understood) == (
        [("a", START, "s5")],
        True,
        (("s9", "why"),),
    )
    assert segments(trace_tables(statements, {A: "s7"})[A]) == [("a", "s5", None)]
    assert trace_tables([statement("s1", A, NoEffect("index"))], {}) == {}


def test_rows_between_two_drops_are_not_those_of_a_table_created_later() -> None:
    drops = [statement("s5", A, DropTable()), statement("s7", A, DropTable())]
    assert segments(trace_tables([*drops, statement("s9", A, NOTE)], {A: "s8"})[A]) == [("a", "s7", None)]
    found = trace_tables(drops, {A: "s6"})[A]
    assert found.is_dropped


def test_the_columns_of_a_created_table_are_kept() -> None:
    found = trace_tables(
        [statement("s5", A, DropTable()), statement("s6", A, CreateTable((NOTE,), ("id",)))], {A: "s4"}
    )[A]
    assert (found.created, found.keys, found.is_dropped) == ((NOTE,), (("s6", ("id",)),), False)


def test_a_rename_with_if_exists_of_a_name_that_is_gone_does_nothing() -> None:
    again = [statement(s, A, IF_EXISTS, RenameTable(B)) for s in ("s5", "s8")]
    for rows, first in (({A: "s4", B: "s9"}, {A: "s1", B: "s6"}), ({A: "s9", B: "s9"}, {A: "s1", B: "s6"})):
        found = trace_tables(again, rows, first)
        assert segments(found[B]) == [("a", START, "s5"), ("b", "s5", None)]
    assert segments(trace_tables(again[1:], {B: "s9"}, {B: "s1"})[B]) == [("b", START, None)]


def test_a_rename_with_if_exists_of_a_table_with_rows_takes_them_along() -> None:
    rename = statement("s5", A, IF_EXISTS, RenameTable(B))
    assert segments(trace_tables([rename], {A: "s4"}, {A: "s1"})[B]) == [
        ("a", START, "s5"),
        ("b", "s5", None),
    ]
    back = [statement("s2", A, DropTable()), rename]
    assert segments(trace_tables(back, {A: "s4"}, {A: "s1"})[B]) == [("a", "s2", "s5"), ("b", "s5", None)]


def test_an_alter_with_if_exists_does_not_bring_a_dropped_table_back() -> None:
    add = statement("s8", A, IF_EXISTS, NOTE)
    found = trace_tables([statement("s5", A, DropTable()), add], {A: "s4"}, {A: "s1"})[A]
    assert (segments(found), found.is_dropped, found.column_changes) == ([("a", START, "s5")], True, ())
    assert trace_tables([add], {A: "s4"}, {A: "s1"})[A].column_changes == (("s8", NOTE),)
    assert trace_tables([add], {}) == {}


def test_a_table_without_a_row_that_is_left_stays_known() -> None:
    """All its rows are forgotten, and nothing tells where they were."""
    rows = {A: None, B: "s9"}
    renamed = trace_tables([statement("s5", A, RenameTable(B))], rows, {B: "s9"})
    assert (segments(renamed[B]), renamed[B].not_understood) == ([("a", START, "s5"), ("b", "s5", None)], ())
    drop = statement("s5", A, DropTable())
    assert trace_tables([drop], rows)[A].is_dropped
    again = [statement("s5", A, IF_EXISTS, DropTable()), statement("s6", A, CreateTable())]
    assert segments(trace_tables(again, rows)[A]) == [("a", START, None)]
    assert [segments(each) for each in trace_tables([], rows).values()] == [
        [("a", START, None)],
        [("b", START, None)],
    ]


def test_a_table_is_told_of_the_tables_that_had_its_name_before_and_are_gone() -> None:
    nightly = [
        statement("s1", A, DropTable()),
        statement("s2", A, CreateTable()),
        statement("s3", A, DropTable()),
        statement("s4", A, CreateTable()),
    ]
    swaps = [
        each
        for n in (5, 6)
        for each in (
            statement(f"s{n}0", B, CreateTable()),
            statement(f"s{n}1", A, RenameTable(T)),
            statement(f"s{n}1", B, RenameTable(A), ordinal=1),
            statement(f"s{n}2", T, DropTable()),
        )
    ]
    rows = {A: "s9"}
    found = trace_tables([*nightly, *swaps], rows)[A]
    assert segments(found) == [("b", "s60", "s61"), ("a", "s61", None)]
    earlier = [segments(each) for each in earlier_lives(found, [*nightly, *swaps], rows)]
    assert earlier == [
        [("a", START, "s1")],
        [("a", "s2", "s3")],
        [("a", "s4", "s51"), ("t", "s51", "s52")],
        [("b", START, "s51"), ("a", "s51", "s61"), ("t", "s61", "s62")],
    ]


def test_a_table_that_lives_on_under_another_name_is_no_earlier_one() -> None:
    statements = [statement("s1", A, RenameTable(B)), statement("s2", A, CreateTable())]
    rows = {A: "s3", B: "s3"}
    found = trace_tables(statements, rows)
    assert earlier_lives(found[A], statements, rows) == ()
    assert earlier_lives(found[B], statements, rows) == ()
    dropped = [*statements, statement("s5", B, DropTable())]
    (earlier,) = earlier_lives(found[A], dropped, rows)
    assert segments(earlier) == [("a", START, "s1"), ("b", "s1", "s5")]


SWAP = [
    statement("s5", ORDERS, RenameTable(FORMER)),
    statement("s5", GHOST, RenameTable(ORDERS), ordinal=1),
]


def test_a_shadow_table_whose_rows_the_feed_leaves_out_changes_the_table_in_place() -> None:
    copied = [
        statement("s2", GHOST, CreateTable(like=ORDERS)),
        statement("s3", GHOST, NOTE),
        statement("s8", FORMER, DropTable()),
    ]
    for statements in (SWAP, [*SWAP, *copied]):
        for last in ("s4", "s9"):
            found = trace_tables(statements, {ORDERS: last}, {ORDERS: "s1"})
            assert segments(found[ORDERS]) == [("orders", START, None)]
            assert not found[ORDERS].is_dropped
            assert segments(found[FORMER])[0][:2] == ("_orders_del", "s5")
            assert (found[GHOST].is_dropped, found[GHOST].renamed_to) == (True, ORDERS)
            assert [at for at, _ in found[ORDERS].not_understood] == (
                [] if copied[1] in statements else ["s5"]
            )
    assert found[ORDERS].column_changes == (("s5", NOTE),)


def test_a_shadow_table_goes_on_where_only_the_first_half_of_the_swap_is_in_the_feed() -> None:
    for former in ("_orders_del", "_orders_20240229120000_del", "__orders_old"):
        away = statement("s5", ORDERS, RenameTable(name(former)))
        found = trace_tables([away], {ORDERS: "s9"}, {ORDERS: "s1"})
        dropped = trace_tables(
            [away, statement("s7", name(former), DropTable())], {ORDERS: "s9"}, {ORDERS: "s1"}
        )
        assert (dropped[ORDERS], dropped[name(former)].is_dropped) == (found[ORDERS], True)
        assert segments(found[ORDERS]) == [("orders", START, None)]
        assert [at for at, _ in found[ORDERS].not_understood] == ["s5"]
        assert segments(trace_tables([away], {ORDERS: "s4"}, {ORDERS: "s1"})[name(former)]) == [
            ("orders", START, "s5"),
            (former, "s5", None),
        ]


def test_a_table_is_swapped_twice() -> None:
    again = [
        statement("s7", ORDERS, RenameTable(name("_orders_old"))),
        statement("s7", name("_orders_new"), RenameTable(ORDERS), ordinal=1),
    ]
    for second in (again, [replace(one, sequence="s7") for one in SWAP]):
        found = trace_tables([*SWAP, *second], {ORDERS: "s9"}, {ORDERS: "s1"})
        assert segments(found[ORDERS]) == [("orders", START, None)]


def test_a_shadow_table_whose_rows_are_in_the_feed_brings_its_own() -> None:
    rows = {ORDERS: "s9", GHOST: "s4"}
    for statements in (SWAP, SWAP[:1]):
        found = trace_tables(statements, rows, {ORDERS: "s1", GHOST: "s2"})
        assert segments(found[FORMER]) == [("orders", START, "s5"), ("_orders_del", "s5", None)]
    assert segments(trace_tables(SWAP, rows, {ORDERS: "s1", GHOST: "s2"})[ORDERS]) == [
        ("_orders_gho", START, "s5"),
        ("orders", "s5", None),
    ]


def test_a_shadow_table_whose_last_row_is_forgotten_has_brought_its_own() -> None:
    for statements in (SWAP, SWAP[:1]):
        left, extent = {ORDERS: "s9", GHOST: "s4"}, _Extent(oldest_rows={ORDERS: "s1"})
        expected = trace_tables(statements, left, {ORDERS: "s1", GHOST: "s4"})
        extent.newest_rows[ORDERS] = "s9"
        extent.add_forgotten(GHOST, "s4")
        extent.add_forgotten(ORDERS, "s3")
        assert trace_tables(statements, extent.newest_rows, extent.oldest_rows) == expected
    swap = [statement("s5", A, RenameTable(T)), statement("s5", B, RenameTable(A), ordinal=1)]
    extent = _Extent(oldest_rows={A: "s1"}, newest_rows={A: "s9"})
    extent.add_forgotten(B, "s3")
    assert trace_tables(swap, extent.newest_rows, extent.oldest_rows)[A].not_understood == ()


def test_a_table_of_which_the_feed_has_nothing_is_told_when_it_takes_the_place_of_one_with_rows() -> None:
    swap = [statement("s5", A, RenameTable(T)), statement("s5", B, RenameTable(A), ordinal=1)]
    found = trace_tables(swap, {A: "s9"}, {A: "s1"})[A]
    assert found.not_understood == (
        ("s5", "it starts empty: shop.b took its place, and the feed has no rows of that"),
    )
    for known in ([statement("s2", B, CreateTable(like=A)), *swap], swap):
        rows, first = {A: "s9", B: "s4"}, {A: "s1", **({B: "s3"} if known is swap else {})}
        assert trace_tables(known, rows, first)[A].not_understood == ()


def test_many_tables_that_a_tool_has_changed_in_a_copy_are_not_compared_with_each_other() -> None:
    """The shadow of each was sought among all tables: three thousand took a dozen seconds, in each run."""
    tables = [f"t{number}" for number in range(3_000)]
    swapped = {name(f"_{table}_gho" if table == "t7" else table): "s1" for table in tables}
    statements = [
        each
        for table in tables
        for each in (
            statement("s2", name(f"_{table}_gho"), CreateTable((), ("id",))),
            statement("s3", name(f"_{table}_gho"), AddColumn("x", "int", "int")),
            statement("s4", name(table), RenameTable(name(f"_{table}_del"))),
            statement("s4", name(f"_{table}_gho"), RenameTable(name(table)), ordinal=1),
        )
    ]
    begun = time.process_time()
    found = trace_tables(statements, dict.fromkeys(map(name, tables), "s9"), swapped)
    assert time.process_time() - begun < 5
    goes_on = {table for table in tables if len(found[name(table)].segments) == 1}
    assert goes_on == {*tables} - {"t7"}  # of whose shadow the feed has rows
    assert all(found[name(table)].column_changes for table in tables)
