"""Which table a name stands for: by its dots, by backticks, and by its name in gold."""

from __future__ import annotations

import pytest

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import TableName
from framework.errors import ConfigurationError
from framework.pipeline.named_table import KnownTable, is_name_of, tables_called

DOTTED_TABLE = TableName("a", None, "b.c")
DOTTED_DATABASE = TableName("a.b", None, "c")
THREE_PARTS = TableName("a", "b", "c")


def known(name: TableName, *, source: str = "feed", replica: str | None = None) -> KnownTable:
    return KnownTable(source, name, TableSettings(replica=replica))


def names(text: str, *tables: KnownTable) -> list[TableName]:
    return [table.name for table in tables_called(text, tables)]


@pytest.mark.parametrize(
    ("text", "name"),
    [("a.`b.c`", DOTTED_TABLE), ("`a.b`.c", DOTTED_DATABASE), ("`a`.`b`.`c`", THREE_PARTS)],
)
def test_backticks_say_where_a_part_of_a_name_ends(text: str, name: TableName) -> None:
    assert names(text, *map(known, (DOTTED_TABLE, DOTTED_DATABASE, THREE_PARTS))) == [name]


def test_a_name_of_different_tables_is_refused_with_names_that_are_understood() -> None:
    tables = [known(DOTTED_TABLE), known(DOTTED_DATABASE, source="other")]
    with pytest.raises(ConfigurationError, match="TABLE_AMBIGUOUS") as refused:
        tables_called("a.b.c", tables)
    advised = refused.value.action.split("'")[1::2]
    assert [names(text, *tables) for text in advised] == [[DOTTED_DATABASE], [DOTTED_TABLE]]


def test_dots_are_enough_where_one_table_has_the_name() -> None:
    assert names("a.b.c", known(DOTTED_TABLE), known(TableName("a", None, "b"))) == [DOTTED_TABLE]
    assert names("a.b.c", known(THREE_PARTS, source="x"), known(THREE_PARTS)) == [THREE_PARTS] * 2
    assert names("a.b`c", known(TableName("a", None, "b`c"))) == [TableName("a", None, "b`c")]
    assert names("a..c", known(THREE_PARTS)) == []


def test_a_name_in_gold_is_read_in_the_same_way() -> None:
    tables = known(DOTTED_TABLE, replica="x.`y.z`"), known(THREE_PARTS, replica="x.y")
    assert names("x.`y.z`", *tables) == names("x.y.z", *tables) == [DOTTED_TABLE]
    assert names("x.y", *tables) == names("`x`.`y`", *tables) == [THREE_PARTS]
    assert names("a.b.c", known(THREE_PARTS), known(TableName("x", None, "y"), replica="a.b.c")) == [
        THREE_PARTS
    ]


def test_two_tables_with_one_name_in_gold_are_asked_for_by_their_own_names() -> None:
    tables = [known(THREE_PARTS, replica="x.y"), known(DOTTED_TABLE, replica="x.y")]
    with pytest.raises(ConfigurationError, match="TABLE_AMBIGUOUS"):
        tables_called("x.y", tables)
    assert tables_called("x.y", tables, lambda table: table.name == THREE_PARTS) == [tables[1]]


def test_a_null_part_is_no_part_of_a_name() -> None:
    assert is_name_of("b.c", (None, "b", "c"))
    assert not is_name_of("", ())
