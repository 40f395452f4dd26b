"""The columns of a replica: names, order, types."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.tables import ColumnRule, SchemaPolicy, TableSettings
from framework.contracts.ddl_actions import AddColumn, ChangeType, DropColumn, RenameColumn, TableName
from gold.changes.profile import Profile, namings_for
from gold.schema.case_matching import match_case
from gold.schema.columns import (
    ColumnNaming,
    ColumnOrder,
    KnownNames,
    TableColumn,
    column_namings,
    evidence_by_column,
    ordered_names,
    resolve_columns,
    types_from_statements,
)
from gold.schema.lineage import ColumnAction, Lineage, Segment
from gold.schema.type_inference import ColumnEvidence, can_widen, common_type, infer_type

ORDERS = TableName("shop", None, "orders")
LENIENT, EVOLVE = SchemaPolicy.LENIENT, SchemaPolicy.EVOLVE
X_INT = AddColumn("x", "int", "int")

DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))
TYPES = st.one_of(
    st.sampled_from(
        [
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "boolean",
            "date",
            "timestamp",
            "timestamp_ntz",
            "binary",
            "string",
        ]
    ),
    DECIMALS,
)


def lineage(*steps: ColumnAction) -> Lineage:
    return Lineage(
        ORDERS, (Segment(ORDERS, "", None),), tuple((f"s{n}", step) for n, step in enumerate(steps))
    )


def namings(
    *steps: ColumnAction, policy: SchemaPolicy = LENIENT, reused: Sequence[str] = ()
) -> tuple[ColumnNaming, ...]:
    return column_namings(lineage(*steps), policy, reused)


def names(found: Sequence[ColumnNaming], *columns: str) -> list[list[str | None]]:
    return [[naming.current_name(c) for c in columns] for naming in found]


def declared(*types: str, **more: int) -> ColumnEvidence:
    return ColumnEvidence(types=frozenset(types), **more)


def undeclared(
    *tokens: str, digits: int = 0, scale: int = 0, low: int = 0, high: int = 0, has_others: bool = False
) -> ColumnEvidence:
    return ColumnEvidence(
        tokens=frozenset(tokens), digits=digits, scale=scale, low=low, high=high, has_others=has_others
    )


@given(TYPES, TYPES, TYPES)
def test_joins_of_types_know_no_order_and_no_grouping(a: str, b: str, c: str) -> None:
    assert common_type(a, b) == common_type(b, a)
    assert common_type(common_type(a, b), c) == common_type(a, common_type(b, c))
    assert common_type(a, a) == a
    assert common_type(common_type(a, b), b) == common_type(a, b)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int", "bigint", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,1)", "decimal(13,2)"),
        ("int", "decimal(10,2)", "decimal(12,2)"),
        ("bigint", "decimal(20,0)", "decimal(20,0)"),
        ("bigint", "decimal(5,2)", "decimal(22,2)"),
        ("decimal(38,0)", "decimal(38,10)", "string"),
        ("int", "double", "string"),
        ("int", "string", "string"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("date", "timestamp", "string"),
        ("timestamp", "timestamp_ntz", "string"),
        ("boolean", "int", "string"),
        ("binary", "string", "string"),
    ],
)
def test_a_join_is_the_narrowest_type_that_holds_both(one: str, other: str, both: str) -> None:
    assert common_type(one, other) == both


def test_an_integer_that_its_type_does_not_hold_widens_the_join_with_a_decimal() -> None:
    types, large = ("int", "decimal(12,2)"), 10**12
    assert infer_type(declared(*types)) == "decimal(12,2)"
    assert infer_type(declared(*types, high=large, digits=13)) == "decimal(22,2)"


@pytest.mark.parametrize(
    ("kind", "low", "high", "digits", "wide"),
    [
        ("tinyint", -128, 127, 3, "tinyint"),
        ("tinyint", 0, 128, 3, "smallint"),
        ("int", 0, 2**31, 10, "bigint"),
        ("bigint", -(2**63), 2**63 - 1, 19, "bigint"),
        ("bigint", 0, 2**63, 19, "decimal(20,0)"),
        ("bigint", 0, 2**64 - 1, 20, "decimal(20,0)"),
        ("bigint", -(2**63) - 1, 0, 19, "decimal(20,0)"),
        ("int", 0, 10**24, 25, "decimal(25,0)"),
    ],
)
def test_an_integer_that_its_declared_type_does_not_hold_widens_it(
    kind: str, low: int, high: int, digits: int, wide: str
) -> None:
    assert infer_type(declared(kind, low=low, high=high, digits=digits)) == wide


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (undeclared("number", digits=1, high=7), "bigint"),
        (undeclared("number", "null", digits=19, high=2**63 - 1), "bigint"),
        (undeclared("number", digits=19, high=2**63), "decimal(20,0)"),
        (undeclared("number", digits=25, high=10**24), "decimal(25,0)"),
        (undeclared("number", digits=1, scale=2), "decimal(22,2)"),
        (undeclared("number", digits=25, scale=2), "decimal(27,2)"),
        (undeclared("number", digits=30, scale=8), "decimal(38,8)"),
        (undeclared("number", digits=30, scale=9), "string"),
        (undeclared("number", digits=1, scale=19), "string"),
        (undeclared("number", digits=38, high=10**37), "decimal(38,0)"),
        (undeclared("number", digits=39, has_others=True), "string"),
        (undeclared("number", "text"), "string"),
        (undeclared("number", "boolean"), "string"),
        (undeclared("text"), "string"),
        (undeclared("boolean", "null"), "boolean"),
        (undeclared("json"), "string"),
        (undeclared("null"), "string"),
        (undeclared(), "string"),
    ],
)
def test_undeclared_columns_take_the_type_that_holds_what_was_seen(seen: ColumnEvidence, kind: str) -> None:
    assert infer_type(seen) == kind


SEENS = st.builds(
    ColumnEvidence,
    st.frozensets(TYPES, max_size=2),
    st.frozensets(st.sampled_from(["INT", "LONG"])),
    st.frozensets(st.sampled_from(["number", "text", "boolean", "json", "null"])),
    st.integers(0, 40),
    st.integers(0, 20),
    st.integers(-(10**20), 0),
    st.integers(0, 10**20),
    st.booleans(),
)


@given(st.lists(SEENS, max_size=5), st.randoms(use_true_random=False))
def test_what_was_seen_joins_in_any_order_and_grouping(
    seen: list[ColumnEvidence], rng: random.Random
) -> None:
    def all_of(parts: list[ColumnEvidence]) -> ColumnEvidence:
        found = ColumnEvidence()
        for part in parts:
            found = found | part
        return found

    cut = rng.randrange(len(seen) + 1)
    shuffled = rng.sample(seen, len(seen))
    assert all_of(shuffled[:cut]) | all_of(shuffled[cut:]) == all_of(seen)
    assert infer_type(all_of(shuffled)) == infer_type(all_of(seen))


@pytest.mark.parametrize(
    ("old", "new", "in_place"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("float", "double", False),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(11,2)", False),
        ("bigint", "decimal(20,0)", True),
        ("bigint", "decimal(19,0)", False),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(10,4)", False),
        ("decimal(10,2)", "string", False),
        ("int", "double", False),
        ("string", "int", False),
    ],
)
def test_what_delta_widens_in_place(old: str, new: str, in_place: bool) -> None:
    assert can_widen(old, new) is in_place


def test_rows_before_a_rename_are_read_under_todays_name() -> None:
    assert names(namings(RenameColumn("name", "title")), "name", "title") == [
        ["title", "title"],
        ["name", "title"],
    ]


def test_a_column_renamed_twice_has_its_last_name() -> None:
    assert names(namings(RenameColumn("a", "b"), RenameColumn("b", "c")), "a", "b", "c") == [
        ["c", "c", "c"],
        ["a", "c", "c"],
        ["a", "b", "c"],
    ]


def test_swapped_columns_keep_their_values_apart() -> None:
    found = namings(RenameColumn("a", "t"), RenameColumn("b", "a"), RenameColumn("t", "b"))
    assert names(found, "a", "b") == [["b", "a"], ["a", "a"], ["a", "b"], ["a", "b"]]
    assert found[1].current_name("t") == "b"
    assert found[3].names == {}


def test_a_new_column_under_a_renamed_columns_old_name_is_another_column() -> None:
    assert names(namings(RenameColumn("a", "b"), AddColumn("a", "int", "int")), "a") == [["b"], ["a"], ["a"]]


def test_a_dropped_column_is_kept_under_its_name() -> None:
    assert names(namings(DropColumn("x")), "x") == [["x"], ["x"]]


def test_a_dropped_column_is_removed_where_columns_evolve() -> None:
    assert names(namings(DropColumn("x"), policy=EVOLVE), "x") == [[None], ["x"]]


@pytest.mark.parametrize("action", [AddColumn("x", "string", "text"), RenameColumn("y", "x")])
def test_a_dropped_column_whose_name_comes_back_is_set_aside(action: ColumnAction) -> None:
    found = namings(DropColumn("x"), action)
    assert names(found, "x") == [["_cdc_dropped_1_x"], ["x"], ["x"]]


def test_a_dropped_column_whose_name_rows_use_again_is_set_aside() -> None:
    assert names(namings(DropColumn("x"), reused=["x"]), "x") == [["_cdc_dropped_1_x"], ["x"]]


def test_a_column_that_is_dropped_and_added_again_is_one_column_where_columns_are_frozen() -> None:
    def frozen(*steps: ColumnAction, reused: Sequence[str] = ()) -> list[str | None]:
        return names(namings(*steps, policy=SchemaPolicy.IGNORE, reused=reused), "x")[0]

    assert frozen(DropColumn("x"), X_INT) == ["x"]
    assert frozen(DropColumn("x"), X_INT, DropColumn("x"), X_INT) == ["x"]
    assert frozen(DropColumn("x"), reused=["X"]) == ["X"]
    assert frozen(DropColumn("x"), AddColumn("X", "int", "int")) == ["X"]
    assert frozen(DropColumn("x"), X_INT, RenameColumn("x", "y")) == ["y"]


def test_a_dropped_column_is_set_aside_where_a_frozen_one_takes_its_name_or_has_had_it_set_aside() -> None:
    taken = namings(DropColumn("x"), RenameColumn("y", "x"), policy=SchemaPolicy.IGNORE)
    assert names(taken, "x", "y")[0] == ["_cdc_dropped_1_x", "x"]
    known = KnownNames(stored=frozenset({"id", "_cdc_dropped_1_x", "x"}))
    kept = column_namings(lineage(DropColumn("x"), X_INT), SchemaPolicy.IGNORE, (), None, known)
    assert names(kept, "x") == [["_cdc_dropped_1_x"], ["x"], ["x"]]


def test_a_name_with_ss_is_another_one_than_that_with_sharp_s() -> None:
    """Delta holds both columns, as lower-case letters tell them apart."""
    add = AddColumn("strasse", "string", "varchar(50)", default="x")
    told = match_case(lineage(add, DropColumn("straße")), [(0, "straße"), (1, "strasse"), (2, "strasse")])
    shown = {(0, "straße"): declared("string"), (2, "strasse"): declared("string")}
    found = namings_for(told, LENIENT, Profile(evidence=shown))
    assert names(found, "straße", "strasse") == [["straße", "strasse"]] * 3
    assert [dict(naming.defaults) for naming in found] == [{"strasse": "x"}, {}, {}]


def test_each_drop_of_a_name_has_its_own_number() -> None:
    found = namings(DropColumn("x"), X_INT, DropColumn("y"), DropColumn("x"), X_INT)
    assert names(found, "x", "y") == [
        ["_cdc_dropped_1_x", "y"],
        ["_cdc_dropped_3_x", "y"],
        ["_cdc_dropped_3_x", "y"],
        ["_cdc_dropped_3_x", "y"],
        ["x", "y"],
        ["x", "y"],
    ]


@pytest.mark.parametrize("own", ["_cdc_dropped_1_x", "_CDC_Dropped_1_X"])
def test_a_dropped_column_never_gets_the_name_of_a_column_of_the_source(own: str) -> None:
    told = lineage(DropColumn("x"), X_INT, DropColumn("x"), X_INT)
    rows = {(n, name): declared("int") for n in (0, 2, 4) for name in ("x", own)}
    found = namings_for(told, LENIENT, Profile(evidence=rows))
    assert [row[0] for row in names(found, "x")][::2] == ["_cdc_dropped_3_x", "_cdc_dropped_2_x", "x"]
    added = namings(AddColumn(own, "int", "int"), DropColumn("x"), X_INT)
    assert added[0].current_name("x") == "_cdc_dropped_2_x"


def test_a_renamed_column_that_is_dropped_is_set_aside_under_its_last_name() -> None:
    found = namings(RenameColumn("a", "b"), DropColumn("b"), AddColumn("b", "int", "int"))
    assert names(found, "a", "b")[0] == ["_cdc_dropped_1_b", "_cdc_dropped_1_b"]


def test_values_of_a_dropped_and_readded_column_do_not_come_back_where_columns_evolve() -> None:
    assert names(namings(DropColumn("x"), X_INT, policy=EVOLVE), "x") == [[None], ["x"], ["x"]]


def test_rows_before_an_added_column_hold_its_constant_default() -> None:
    found = namings(AddColumn("x", "int", "int", default="3"), AddColumn("y", "int", "int"))
    assert [dict(s.defaults) for s in found] == [{"x": "3"}, {}, {}]


@pytest.mark.parametrize(
    ("shown", "default", "kind"),
    [
        pytest.param(undeclared("number", digits=1, high=2), "1.50", "decimal(22,2)", id="scale"),
        pytest.param(undeclared("number", high=2), "-9223372036854775809", "decimal(20,0)", id="digits"),
        pytest.param(declared("bigint"), "18446744073709551615", "decimal(20,0)", id="unsigned"),
        pytest.param(declared("decimal(10,2)"), "1.505", "decimal(10,2)", id="declared by the rows"),
        pytest.param(undeclared("number", high=19000), "2022-01-08", "bigint", id="no number"),
        pytest.param(undeclared("string"), "1.50", "string", id="texts"),
    ],
)
def test_a_default_number_counts_for_the_type_of_its_column(
    shown: ColumnEvidence, default: str, kind: str
) -> None:
    found = namings(AddColumn("x", "decimal(10,2)", "decimal(10,2)", default=default))
    merged = evidence_by_column({(0, "id"): declared("int"), (1, "x"): shown}, found)
    assert infer_type(merged["x"]) == kind
    only_later = evidence_by_column({(1, "x"): shown}, found)
    assert only_later["x"] == shown, "no row takes the default"


def test_a_column_that_is_added_again_keeps_the_default_that_its_rows_took() -> None:
    """ADD COLUMN IF NOT EXISTS is logged also where the column exists, and changes nothing there."""
    again = AddColumn("x", "int", "int", default="5")
    first = AddColumn("x", "int", "int", default="1")
    assert [dict(s.defaults) for s in namings(first, again)] == [{"x": "1"}, {}, {}]
    assert [dict(s.defaults) for s in namings(X_INT, again)] == [{}, {}, {}]


def test_a_default_follows_its_column_through_renames_and_drops() -> None:
    add = AddColumn("x", "int", "int", default="3")
    assert [dict(s.defaults) for s in namings(add, RenameColumn("x", "y"))] == [{"y": "3"}, {}, {}]
    assert [dict(s.defaults) for s in namings(add, DropColumn("x"), policy=EVOLVE)] == [{}, {}, {}]
    assert [
        dict(s.defaults) for s in namings(add, DropColumn("x"), AddColumn("x", "int", "int", default="4"))
    ] == [
        {"_cdc_dropped_1_x": "3", "x": "4"},
        {"x": "4"},
        {"x": "4"},
        {},
    ]


def test_what_rows_of_all_stretches_showed_meets_under_todays_names() -> None:
    found = namings(RenameColumn("a", "b"), DropColumn("c"), policy=EVOLVE)
    seen = {
        (0, "a"): declared("int"),
        (1, "b"): declared("bigint"),
        (0, "c"): declared("int"),
        (2, "c"): declared("date"),
    }
    assert evidence_by_column(seen, found) == {"b": declared("int", "bigint"), "c": declared("date")}


def order(column_orders: Sequence[tuple[int, str, str]], *steps: ColumnAction) -> list[str]:
    return ordered_names(
        [ColumnOrder(n, at, tuple(columns.split())) for n, at, columns in column_orders],
        lineage(*steps),
        namings(*steps),
    )


def test_columns_stand_in_the_order_of_the_newest_schema() -> None:
    assert order([(0, "s1", "id a b"), (0, "s2", "id b a")]) == ["id", "b", "a"]


def test_columns_that_only_older_schemas_have_stand_behind_their_neighbours() -> None:
    assert order([(0, "s1", "old id a gone b"), (0, "s2", "id a b new")]) == [
        "old",
        "id",
        "a",
        "gone",
        "b",
        "new",
    ]


def test_a_renamed_column_keeps_its_place() -> None:
    assert order([(0, "s0", "id a b"), (1, "s1", "id x b")], RenameColumn("a", "x")) == ["id", "x", "b"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (AddColumn("x", "int", "int"), ["id", "a", "x"]),
        (AddColumn("x", "int", "int", first=True), ["x", "id", "a"]),
        (AddColumn("x", "int", "int", after="id"), ["id", "x", "a"]),
        (AddColumn("x", "int", "int", after="missing"), ["id", "a", "x"]),
        (AddColumn("a", "int", "int", first=True), ["id", "a"]),
    ],
)
def test_a_column_that_no_row_has_shown_stands_where_its_statement_puts_it(
    step: AddColumn, expected: list[str]
) -> None:
    assert order([(0, "s0", "id a")], step) == expected


def test_a_column_that_is_removed_has_no_place() -> None:
    steps = (DropColumn("a"),)
    assert ordered_names(
        [ColumnOrder(0, "s0", ("id", "a"))], lineage(*steps), namings(*steps, policy=EVOLVE)
    ) == ["id"]


@given(
    st.permutations(
        [
            ColumnOrder(0, "s1", ("id", "a")),
            ColumnOrder(0, "s3", ("id", "b", "a")),
            ColumnOrder(1, "s2", ("c", "id")),
            ColumnOrder(1, "s4", ("id", "c")),
        ]
    )
)
def test_the_order_of_columns_does_not_depend_on_arrival(column_orders: list[ColumnOrder]) -> None:
    assert ordered_names(column_orders, lineage(X_INT), namings(X_INT)) == ["id", "b", "a", "c", "x"]


def resolved(
    seen: Mapping[str, ColumnEvidence],
    statements: Mapping[str, tuple[str | None, str | None]] | None = None,
    **rules: ColumnRule,
) -> tuple[TableColumn, ...]:
    return resolve_columns(list(seen), seen, statements or {}, TableSettings(columns=rules))


def test_the_configuration_stands_above_what_was_seen() -> None:
    seen = {"price": declared("string"), "photo": declared("binary")}
    found = resolved(seen, price=ColumnRule(type="decimal(12,2)"), photo=ColumnRule(decode="utf8"))
    assert [(c.name, c.type) for c in found] == [("price", "decimal(12,2)"), ("photo", "binary")]


def test_a_decoded_column_is_text_once_silver_has_decoded_it() -> None:
    seen = {"a": declared("string"), "b": ColumnEvidence(), "c": declared("binary") | declared("string")}
    found = resolved(seen, {"b": ("binary", "blob")}, **dict.fromkeys(seen, ColumnRule(decode="utf8")))
    assert [c.type for c in found] == ["string"] * 3


def test_a_statement_types_only_what_no_row_has_shown() -> None:
    seen = {"a": ColumnEvidence(), "b": undeclared("null"), "c": declared("int"), "d": ColumnEvidence()}
    declared_types = {
        "a": ("bigint", "int"),
        "b": ("date", "date"),
        "c": ("string", "text"),
        "d": (None, "geometry"),
    }
    assert [(c.name, c.type) for c in resolved(seen, declared_types)] == [
        ("a", "bigint"),
        ("b", "date"),
        ("c", "int"),
        ("d", "string"),
    ]
    assert resolved(seen, declared_types)[0].declared == "int"


def test_the_declared_types_of_one_column_are_joined() -> None:
    seen = {
        "a": ColumnEvidence(types=frozenset(["int", "bigint"]), declared=frozenset(["int(11)", "bigint(20)"]))
    }
    assert resolved(seen) == (TableColumn("a", "bigint", "bigint(20), int(11)"),)


def test_types_of_statements_belong_to_the_current_names() -> None:
    steps = (
        AddColumn("a", "int", "int"),
        RenameColumn("a", "b"),
        ChangeType("b", "bigint", "bigint"),
        AddColumn("c", "date", "date"),
        DropColumn("c"),
    )
    assert types_from_statements(lineage(*steps), namings(*steps, policy=EVOLVE)) == {
        "b": ("bigint", "bigint")
    }


def respelled(*steps: ColumnAction, seen: Sequence[tuple[int, str]]) -> list[ColumnAction]:
    return [action for _, action in match_case(lineage(*steps), seen).column_changes]


@pytest.mark.parametrize(
    ("steps", "seen", "expected"),
    [
        ([DropColumn("Note")], [(0, "note")], [DropColumn("note")]),
        ([DropColumn("Note")], [(0, "note"), (0, "Note")], [DropColumn("Note")]),
        ([DropColumn("NOTE")], [(0, "note"), (0, "Note")], [DropColumn("NOTE")]),
        ([RenameColumn("NOTE", "Title")], [(0, "note"), (1, "title")], [RenameColumn("note", "title")]),
        ([RenameColumn("note", "Note")], [(0, "note"), (1, "Note")], [RenameColumn("note", "Note")]),
        ([RenameColumn("note", "Note")], [(0, "note")], [RenameColumn("note", "Note")]),
        ([AddColumn("N", "int", "int", after="ID")], [(0, "id"), (1, "n")],
            [AddColumn("n", "int", "int", after="id")]),
        ([RenameColumn("a", "B"), DropColumn("b")], [(0, "A")], [RenameColumn("A", "B"), DropColumn("B")]),
        ([DropColumn("x"), AddColumn("X", "int", "int")], [(0, "x"), (2, "X")],
            [DropColumn("x"), AddColumn("X", "int", "int")]),
        ([X_INT, ChangeType("X", "int", "int")], [], [X_INT, ChangeType("x", "int", "int")]),
    ],
)  # fmt: skip
def test_statements_name_columns_in_any_case(
    steps: list[ColumnAction], seen: list[tuple[int, str]], expected: list[ColumnAction]
) -> None:
    assert respelled(*steps, seen=seen) == expected
