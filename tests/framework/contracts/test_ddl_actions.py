from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetComment,
    SetKeys,
    TableName,
    TruncateTable,
    Unsupported,
    actions_of,
    actions_text,
    has_effect,
    has_no_effect,
)

NAMES = st.text(max_size=8)
MAYBE = st.none() | NAMES
TABLES = st.builds(TableName, MAYBE, MAYBE, NAMES)
COLUMNS = st.builds(
    AddColumn, NAMES, MAYBE, MAYBE, st.booleans(), MAYBE, MAYBE, st.booleans(), st.booleans(), MAYBE
)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    COLUMNS,
    st.builds(DropColumn, NAMES),
    st.builds(RenameColumn, NAMES, NAMES),
    st.builds(ChangeType, NAMES, MAYBE, MAYBE, st.booleans(), MAYBE, MAYBE),
    st.builds(RenameTable, TABLES),
    st.builds(DropTable),
    st.builds(DropDatabase),
    st.builds(
        CreateTable,
        st.lists(COLUMNS, max_size=3).map(tuple),
        st.none() | st.lists(NAMES, max_size=2).map(tuple),
        st.none() | TABLES,
        st.booleans(),
        MAYBE,
    ),
    st.builds(TruncateTable),
    st.builds(SetKeys, st.lists(NAMES, max_size=3).map(tuple)),
    st.builds(SetComment, NAMES, MAYBE),
    st.builds(NoEffect, NAMES),
    st.builds(Unsupported, NAMES),
)


@given(st.lists(ACTIONS, max_size=4).map(tuple))
def test_actions_come_back_from_their_text(actions: tuple[Action, ...]) -> None:
    again = actions_of(actions_text(actions))
    assert again == actions
    assert [_comments(action) for action in again] == [_comments(action) for action in actions]


def _comments(action: Action) -> list[str | None]:
    columns = action.columns if isinstance(action, CreateTable) else ()
    return [getattr(found, "comment", None) for found in (action, *columns)]


def test_every_kind_of_action_is_tried() -> None:
    assert set(Action.__args__) == {
        AddColumn, DropColumn, RenameColumn, ChangeType, RenameTable, DropTable,
        DropDatabase, CreateTable, TruncateTable, SetKeys, SetComment, NoEffect, Unsupported,
    }  # fmt: skip


def test_what_is_not_supported_keeps_the_tag_that_tables_hold() -> None:
    text = '[{"action":"NotUnderstood","reason":"gibberish"}]'
    assert actions_text([Unsupported("gibberish")]) == text
    assert actions_of(text) == (Unsupported("gibberish"),)


@pytest.mark.parametrize("text", [None, "", "[]"])
def test_no_text_is_no_actions(text: str | None) -> None:
    assert actions_of(text) == ()


def test_the_text_is_json_that_names_the_action() -> None:
    text = actions_text([RenameTable(TableName("shop", None, "数量")), DropTable()])
    assert json.loads(text) == [
        {"action": "RenameTable", "to": {"database": "shop", "schema": None, "table": "数量"}},
        {"action": "DropTable"},
    ]
    assert "数量" in text


def test_no_actions_have_no_effect_but_are_not_known_to_have_none() -> None:
    assert (has_effect(()), has_no_effect(())) == (False, False)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ((NoEffect("index"),), False),
        ((SetComment("x"), NoEffect("index")), False),
        ((NoEffect("index"), DropTable()), True),
        ((Unsupported("gibberish"),), True),
    ],
)
def test_one_action_with_an_effect_is_enough(actions: tuple[Action, ...], expected: bool) -> None:
    assert (has_effect(actions), has_no_effect(actions)) == (expected, not expected)
