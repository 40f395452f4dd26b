"""What a source says of its tables and columns: which comment is whose after all statements."""

from __future__ import annotations

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    RenameColumn,
    SetComment,
    TableName,
    actions_of,
    actions_text,
    has_effect,
)
from gold.schema.columns import column_namings
from gold.schema.comments import Comments, comments_of
from gold.schema.lineage import trace_tables
from gold.schema.source_statements import Statement

TABLE = TableName("db", None, "t")


def comments(*actions: Action, columns: str = "id note") -> Comments:
    """The comments after statements of one action each."""
    statements = [Statement(f"s{i}", f"c{i}", 0, TABLE, (action,)) for i, action in enumerate(actions)]
    lineage = trace_tables(statements, {TABLE: "s0"})[TABLE]
    return comments_of(lineage, column_namings(lineage, SchemaPolicy.EVOLVE, ()), columns.split())


def test_the_last_comment_of_a_column_counts_and_an_empty_one_removes_it() -> None:
    assert comments(AddColumn("note", "int", "int", comment="one"), SetComment("two", "note")) == Comments(
        None, {"note": "two"}
    )
    assert comments(SetComment("one", "note"), ChangeType("note", "int", "int", comment="")) == Comments()
    assert comments(SetComment("one", "note"), ChangeType("note", "int", "int")) == Comments(
        None, {"note": "one"}
    )
    assert comments(SetComment("a"), SetComment("b")) == Comments("b")
    assert comments(SetComment("a"), SetComment("")) == Comments()


def test_a_new_table_brings_the_comments_of_its_columns() -> None:
    columns = (AddColumn("id", "int", "int", comment="the key"), AddColumn("note", "string", "text"))
    assert comments(CreateTable(columns, comment="all orders")) == Comments("all orders", {"id": "the key"})


def test_a_comment_goes_with_its_column_when_that_gets_another_name() -> None:
    found = comments(SetComment("x", "old"), RenameColumn("old", "note"), SetComment("y", "old"))
    assert found == Comments(None, {"note": "x"})
    assert comments(SetComment("x", "note"), DropColumn("note"), columns="id") == Comments()


def test_names_in_statements_may_have_another_case_than_those_of_rows() -> None:
    assert comments(SetComment("x", "NOTE")) == Comments(None, {"note": "x"})
    assert comments(SetComment("x", "OLD"), RenameColumn("old", "note")) == Comments(None, {"note": "x"})


def test_comments_are_one_line_of_visible_characters_and_not_too_long() -> None:
    found = comments(SetComment("a\n  b\u202e" + "c" * 5_000, "note")).columns["note"]
    assert found.startswith("a b⟨U+202E⟩ccc")
    assert len(found) == 1_000


def test_actions_keep_their_comments_in_tables_and_stay_as_they_were_without_one() -> None:
    actions = (
        AddColumn("a", "int", "int", comment="x"),
        ChangeType("a", "int", "int", comment=""),
        CreateTable((AddColumn("b", "int", "int", comment="y"),), comment="z"),
        SetComment("t", "a"),
    )
    again = actions_of(actions_text(actions))
    assert [getattr(action, "comment", None) for action in again[:3]] == ["x", "", "z"]
    assert isinstance(again[2], CreateTable)
    assert again[2].columns[0].comment == "y"
    assert again[3] == actions[3]
    assert "comment" not in actions_text([AddColumn("a", "int", "int"), ChangeType("a", "int", "int")])


def test_a_comment_changes_neither_rows_nor_columns() -> None:
    assert not has_effect([SetComment("x")])
