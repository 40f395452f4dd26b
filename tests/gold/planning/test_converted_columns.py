"""Which statements converted values that the source had, as far as types tell."""

from __future__ import annotations

import pytest

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import AddColumn, ChangeType, RenameColumn, TableName
from gold.changes.profile import Profile
from gold.planning.converted_columns import converted_columns
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.columns import ColumnNaming, ColumnOrder
from gold.schema.lineage import ColumnAction, Lineage, Segment
from gold.schema.type_inference import ColumnEvidence
from silver.values.declared_types import type_of_declaration
from silver.values.sql_types import type_of_ddl

NAME = TableName("db", None, "t")
FIRST, STATEMENT, LAST = "011.011.011", "011.011.013", "011.011.015"
Rows = dict[int, ColumnEvidence]


def declared(text: str, dialect: str = "mysql", *, own: str | None = None) -> ColumnEvidence:
    """What rows show of a column whose type they declare; `own` is the canonical type of the feed's own."""
    kind = own or type_of_declaration(text, dialect)
    return ColumnEvidence(frozenset([kind] if kind else []), frozenset([text]))


def change(text: str, dialect: str = "mysql") -> ChangeType:
    return ChangeType("c", type_of_ddl(text, dialect), text)


def found(
    rows: Rows,
    *changes: tuple[str, ColumnAction],
    created: tuple[AddColumn, ...] = (),
    truncated_at: str | None = None,
    last: str | None = None,
) -> list[str]:
    """The converted columns; `rows` are what rows of each naming show of the column `c`."""
    truncates = () if truncated_at is None else ((truncated_at, "x"),)
    lineage = Lineage(NAME, (Segment(NAME, "", None),), changes, truncates, created=created)
    orders = tuple(ColumnOrder(n, FIRST if n == 0 else LAST, ("c",)) for n in rows)
    profile = Profile(
        rows=len(rows),
        max_sequence=last or max(order.last_sequence for order in orders),
        column_orders=orders,
        evidence={(naming, "c"): shown for naming, shown in rows.items()},
    )
    task = Task("feed", lineage, TableState("feed", NAME, State.ACTIVE), TableSettings(), 1, 1, len(rows))
    return [name for _, name in converted_columns(task, profile, [ColumnNaming()] * (len(changes) + 1))]


@pytest.mark.parametrize(
    ("before", "after", "dialect"),
    [
        ("decimal(10,2)", "decimal(10,1)", "mysql"),
        ("decimal(10,2)", "int", "mysql"),
        ("datetime(6)", "datetime", "mysql"),
        ("datetime(6)", "datetime(3)", "mysql"),
        ("timestamp(3)", "timestamp", "mysql"),
        ("datetime", "date", "mysql"),
        ("datetime", "varchar(30)", "mysql"),
        ("blob", "text", "mysql"),
        ("varchar(20)", "int", "mysql"),
        ("varchar(20)", "date", "mysql"),
        ("text", "blob", "mysql"),
        ("double", "decimal(10,2)", "mysql"),
        ("double", "float", "mysql"),
        ("decimal(30,2)", "double", "mysql"),
        ("numeric(10,2)", "numeric(10,0)", "postgres"),
        ("timestamp", "timestamp(0)", "postgres"),
        ("timestamp", "text", "postgres"),
        ("NUMBER(10,2)", "NUMBER(10,0)", "oracle"),
        ("VARCHAR2(20)", "NUMBER(10,0)", "oracle"),
    ],
)
def test_a_narrower_type_and_one_of_another_family_convert_what_is_there(
    before: str, after: str, dialect: str
) -> None:
    rows = {0: declared(before, dialect)}
    assert found(rows, (STATEMENT, change(after, dialect))) == ["c"]
    rows[1] = declared(after, dialect)
    assert found(rows, (STATEMENT, change(after, dialect))) == ["c"]
    created = (AddColumn("c", type_of_ddl(before, dialect), before),)
    assert found(rows, (STATEMENT, change(after, dialect)), created=created) == ["c"]


@pytest.mark.parametrize(
    ("before", "after", "dialect"),
    [
        ("decimal(10,1)", "decimal(12,2)", "mysql"),
        ("decimal(10,0)", "bigint", "mysql"),
        ("decimal(10,2)", "varchar(20)", "mysql"),
        ("int", "bigint", "mysql"),
        ("bigint", "int", "mysql"),
        ("int", "decimal(12,2)", "mysql"),
        ("int", "double", "mysql"),
        ("int", "varchar(20)", "mysql"),
        ("float", "double", "mysql"),
        ("date", "datetime", "mysql"),
        ("date", "varchar(20)", "mysql"),
        ("datetime", "datetime(6)", "mysql"),
        ("datetime(3)", "datetime(3)", "mysql"),
        ("varchar(20)", "varchar(10)", "mysql"),
        ("varchar(20)", "text", "mysql"),
        ("enum('a')", "enum('a','b')", "mysql"),
        ("time", "time(3)", "mysql"),
        ("tinyint(1)", "tinyint(1)", "mysql"),
        ("bit(1)", "bit(1)", "mysql"),
        ("year", "year", "mysql"),
        ("bigint unsigned", "bigint unsigned", "mysql"),
        ("timestamp(3)", "timestamp", "postgres"),
        ("varchar(20)", "json", "postgres"),
        ("datetime2(3)", "datetime2(7)", "tsql"),
        ("DATE", "DATE", "oracle"),
    ],
)
def test_what_holds_every_value_converts_nothing(before: str, after: str, dialect: str) -> None:
    rows = {0: declared(before, dialect)}
    assert found(rows, (STATEMENT, change(after, dialect))) == []
    created = (AddColumn("c", type_of_ddl(before, dialect), before),)
    assert found(rows, (STATEMENT, change(after, dialect)), created=created) == []


def test_a_feed_may_write_a_type_in_its_own_way() -> None:
    same = (STATEMENT, change("decimal(10,2)"))
    assert found({0: declared("double", own="double"), 1: declared("double", own="double")}, same) == []
    assert found({0: declared("string", own="boolean")}, (STATEMENT, change("tinyint(1)"))) == []
    assert found({0: declared("TIMESTAMP", own="timestamp")}, (STATEMENT, change("datetime"))) == []


def test_the_digits_of_undeclared_numbers_tell() -> None:
    shown = ColumnEvidence(tokens=frozenset(["number"]), digits=2, scale=2)
    assert found({0: shown}, (STATEMENT, change("decimal(10,1)"))) == ["c"]
    assert found({0: shown}, (STATEMENT, change("decimal(10,2)"))) == []
    assert found({0: shown}, (STATEMENT, change("varchar(10)"))) == []


def test_the_type_before_is_that_of_the_last_statement() -> None:
    again = [(STATEMENT, change("decimal(10,1)")), ("011.011.014", change("decimal(10,1)"))]
    assert found({0: declared("decimal(10,2)")}, *again) == ["c"]
    renamed = [(STATEMENT, RenameColumn("b", "c")), (STATEMENT, change("decimal(10,1)"))]
    assert found({0: declared("decimal(10,2)")}, *renamed) == ["c"]


def test_without_older_rows_nothing_was_converted() -> None:
    narrow = (STATEMENT, change("decimal(10,1)"))
    rows = {0: declared("decimal(10,2)"), 1: declared("decimal(10,1)")}
    assert found({1: rows[1]}, narrow, created=(AddColumn("c", "decimal(10,2)", "decimal(10,2)"),)) == []
    assert found(rows, narrow, truncated_at="011.011.012") == []
    assert found(rows, narrow, truncated_at="011.011.0101") == ["c"]
    assert found(rows, narrow, last="012.010.t") == []


def test_statements_may_spell_a_column_in_another_case() -> None:
    narrow = (STATEMENT, ChangeType("C", "decimal(10,1)", "decimal(10,1)"))
    assert found({0: declared("decimal(10,2)")}, narrow) == ["c"]
    open_decimal = ColumnEvidence(tokens=frozenset(["number"]))
    created = (AddColumn("C", "decimal(10,2)", "decimal(10,2)"),)
    assert found({0: open_decimal}, narrow, created=created) == ["c"]
