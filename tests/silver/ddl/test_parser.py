"""Statements in, actions out. `ddl_statements.txt` has a thousand lines of both,
and begins with its notation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetComment,
    SetKeys,
    Statement,
    TableName,
    Unsupported,
    has_effect,
)
from silver.ddl.keywords import CREATED_OBJECTS, OBJECTS, ROW_VERBS, SILENT, TABLE_OPTIONS, VERBS
from silver.ddl.parser import _split, parse_ddl
from silver.ddl.tokens import Cursor
from silver.values.sql_types import type_of_ddl

SHOP_T = TableName("shop", None, "t")
ENVELOPES = {
    "mysql": SHOP_T,
    "oracle": TableName("ORCL", "HR", "T"),
    "postgres": TableName("db", "public", "t"),
    "tsql": TableName("db", "dbo", "t"),
    "db2": TableName("DB", "S", "T"),
    "any": SHOP_T,
}
"""The table that the message around a statement names, by dialect."""
DIALECTS = (*ENVELOPES, "")


@pytest.mark.parametrize(
    ("dialect", "text", "comment"),
    [
        ("mysql", "ALTER TABLE t MODIFY a INT", ""),  # MySQL drops the comment that is not repeated
        ("mysql", "ALTER TABLE t CHANGE a a INT COMMENT ''", ""),
        ("mysql", "ALTER TABLE t CHANGE a a INT COMMENT 'x'", "x"),
        ("oracle", "ALTER TABLE t MODIFY (a NUMBER(5))", None),
        ("postgres", "ALTER TABLE t ALTER a TYPE int", None),
    ],
)
def test_a_column_that_is_declared_again_loses_its_comment_in_mysql(
    dialect: str, text: str, comment: str | None
) -> None:
    (found,) = parse_ddl(text, dialect=dialect, table=SHOP_T)
    (action,) = found.actions
    assert isinstance(action, ChangeType)
    assert action.comment == comment


def test_an_added_column_has_a_name_and_a_type() -> None:
    (found,) = parse_ddl("ALTER TABLE t ADD COLUMN a INT", dialect="mysql", table=SHOP_T)
    assert found == Statement(SHOP_T, (AddColumn("a", "int", "INT"),))


def test_a_statement_can_have_several_actions_in_order() -> None:
    (found,) = parse_ddl("ALTER TABLE t DROP COLUMN a, RENAME COLUMN b TO a", dialect="mysql", table=SHOP_T)
    assert found == Statement(SHOP_T, (DropColumn("a"), RenameColumn("b", "a")))


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("DROP a, ADD COLUMN IF NOT EXISTS a int", (DropColumn("a"),)),
        ("ADD IF NOT EXISTS A int, DROP COLUMN a", (DropColumn("a"),)),
        ("RENAME COLUMN a TO z, ADD COLUMN IF NOT EXISTS a int", (RenameColumn("a", "z"),)),
        (
            "DROP a, ADD COLUMN IF NOT EXISTS (a int, c int)",
            (DropColumn("a"), AddColumn("c", "int", "int")),
        ),
        ("DROP a, ADD COLUMN a int", (DropColumn("a"), AddColumn("a", "int", "int"))),
        (
            "DROP a, ADD COLUMN a int, ADD COLUMN IF NOT EXISTS a bigint",
            (DropColumn("a"), AddColumn("a", "int", "int")),
        ),
        ("DROP a, ADD COLUMN IF NOT EXISTS a int PRIMARY KEY", (DropColumn("a"),)),
        (
            "DROP b, ADD COLUMN IF NOT EXISTS a int PRIMARY KEY",
            (DropColumn("b"), AddColumn("a", "int", "int", is_not_null=True), SetKeys(("a",))),
        ),
        (
            "DROP COLUMN IF EXISTS a, ADD COLUMN IF NOT EXISTS a int",
            (DropColumn("a"), AddColumn("a", "int", "int")),
        ),
        (
            "CHANGE COLUMN IF EXISTS a z int, ADD COLUMN IF NOT EXISTS a int",
            (RenameColumn("a", "z"), ChangeType("z", "int", "int"), AddColumn("a", "int", "int")),
        ),
        (
            "CHANGE IF EXISTS a z int, ADD IF NOT EXISTS a int",
            (RenameColumn("a", "z"), ChangeType("z", "int", "int"), AddColumn("a", "int", "int")),
        ),
        (
            "CHANGE a z int, ADD IF NOT EXISTS a int",
            (RenameColumn("a", "z"), ChangeType("z", "int", "int")),
        ),
    ],
)
def test_a_column_that_exists_before_the_statement_is_not_added_if_it_must_not_exist(
    clauses: str, expected: tuple[Action, ...]
) -> None:
    (found,) = parse_ddl(f"ALTER TABLE t {clauses}", dialect="mysql", table=SHOP_T)
    assert tuple(action for action in found.actions if not isinstance(action, NoEffect)) == expected


def test_a_statement_about_several_tables_has_an_answer_for_each() -> None:
    found = parse_ddl("DROP TABLE t, u", dialect="mysql", table=SHOP_T)
    assert found == (
        Statement(SHOP_T, (DropTable(),)),
        Statement(TableName("shop", None, "u"), (DropTable(),)),
    )


def place_notation(action: AddColumn | ChangeType) -> str:
    return " first" if action.first else f" after {action.after}" if action.after else ""


def column_notation(column: AddColumn) -> str:
    default = "" if column.default is None else f" d={column.default!r}"
    marks = (" expr" if column.has_expression_default else "") + (" nn" if column.is_not_null else "")
    marks += comment_notation(column.comment)
    return f"+{column.name}:{column.type}[{column.declared}]{place_notation(column)}{default}{marks}"


def comment_notation(text: str | None) -> str:
    return f" c={text!r}" if text else ""


def action_notation(action: Action) -> str:
    match action:
        case AddColumn():
            return column_notation(action)
        case ChangeType():
            column = f"~{action.name}:{action.type}[{action.declared}]"
            return f"{column}{place_notation(action)}{comment_notation(action.comment)}"
        case DropColumn(name):
            return f"-{name}"
        case RenameColumn(old, new):
            return f"{old}->{new}"
        case RenameTable(to):
            return f"to {name_notation(to)}"
        case SetKeys(keys):
            return f"keys({','.join(keys)})"
        case SetComment(text, column):
            return f"c({text!r})" if column is None else f"c({column}={text!r})"
        case CreateTable(columns, keys, like, if_not_exists, comment):
            parts = [", ".join(column_notation(c) for c in columns)]
            parts += [] if keys is None else [f"keys({','.join(keys)})"]
            parts += [] if like is None else [f"like {name_notation(like)}"]
            parts += [comment_notation(comment).strip()] if comment else []
            return f"create({'; '.join(parts)}){' if not exists' if if_not_exists else ''}"
        case NoEffect(reason):
            return f"<{reason}>"
        case Unsupported(reason):
            return f"!!<{reason}>"
        case _:
            return type(action).__name__


def name_notation(table: TableName) -> str:
    return ".".join(part for part in (table.database, table.schema, table.table) if part is not None)


def statement_notation(statement: Statement) -> str:
    return f"{name_notation(statement.table)} :: {' ; '.join(action_notation(a) for a in statement.actions)}"


def cases() -> list[tuple[str, str, list[str]]]:
    found: list[tuple[str, str, list[str]]] = []
    for line in (Path(__file__).parent / "ddl_statements.txt").read_text("utf-8").splitlines():
        if line.startswith("    "):
            found[-1][2].append(line.strip())
        elif line and not line.startswith("#"):
            dialect, _, text = line.partition(" | ")
            found.append((dialect.strip(), text.replace("\\n", "\n"), []))
    return found


@pytest.mark.parametrize(
    ("dialect", "text", "expected"), [pytest.param(*c, id=f"{c[0]}: {c[1][:80]}") for c in cases()]
)
def test_statements(dialect: str, text: str, expected: list[str]) -> None:
    found = parse_ddl(text, dialect="" if dialect == "any" else dialect, table=ENVELOPES[dialect])
    assert [statement_notation(s).replace("\n", "\\n") for s in found] == expected


@pytest.mark.parametrize(
    ("envelope", "dialect", "name", "expected"),
    [
        (None, "mysql", "d.t", TableName("d", None, "t")),
        (None, "mysql", "t", TableName(None, None, "t")),
        (None, "oracle", "s.t", TableName(None, "S", "T")),
        (None, "postgres", "s.t", TableName(None, "s", "t")),
        (None, "tsql", "a.b.c", TableName("a", "b", "c")),
        (None, "tsql", "srv.a.b.c", TableName("a", "b", "c")),
        (TableName("S", None, "X"), "oracle", "o.t", TableName("O", None, "T")),
        (TableName("S", None, "X"), "oracle", '"o"."t"', TableName("o", None, "t")),
        (TableName("d", "s", "x"), "mysql", "o.t", TableName("d", "o", "t")),
        (TableName("d", "s", "x"), "tsql", "o..t", TableName("o", "s", "t")),
        (TableName("d", "s", "x"), "postgres", '"O".T', TableName("d", "O", "t")),
    ],
)
def test_names_take_the_envelopes_shape(
    envelope: TableName | None, dialect: str, name: str, expected: TableName
) -> None:
    (found,) = parse_ddl(f"TRUNCATE TABLE {name}", dialect=dialect, table=envelope)
    assert found.table == expected


ORDERS, UPPER = TableName("shop", None, "orders"), TableName("shop", None, "Orders")


@pytest.mark.parametrize(
    ("dialect", "text", "tables"),
    [
        ("mysql", "TRUNCATE TABLE Orders", [ORDERS]),
        ("mysql", "ALTER TABLE `Shop`.`ORDERS` ADD x INT", [ORDERS]),
        ("", "ALTER TABLE Orders RENAME COLUMN a TO b", [ORDERS]),
        ("tsql", "EXEC sp_rename 'Shop.Orders.a', 'b', 'COLUMN'", [ORDERS]),
        ("mysql", "USE shop; ALTER TABLE Orders ADD x INT", [ORDERS, ORDERS]),
        ("mysql", "DROP TABLE Orders, Items", [ORDERS, TableName("shop", None, "items")]),
        ("mysql", "DROP TABLE Orders, orders", [UPPER, ORDERS]),
        ("mysql", "TRUNCATE TABLE Items", [TableName("shop", None, "Items")]),
        ("postgres", 'TRUNCATE TABLE "Orders"', [UPPER]),
        ("oracle", 'TRUNCATE TABLE "Orders"', [UPPER]),
        ("", 'TRUNCATE TABLE "Orders"', [UPPER]),
    ],
)
def test_a_name_in_another_case_is_the_envelopes_table(
    dialect: str, text: str, tables: list[TableName]
) -> None:
    """But not beside the exact name, and not where quoted names have a case of their own."""
    assert [found.table for found in parse_ddl(text, dialect=dialect, table=ORDERS)] == tables


def test_an_envelope_with_capitals_keeps_them() -> None:
    (found,) = parse_ddl("TRUNCATE TABLE orders", dialect="mysql", table=UPPER)
    assert found.table == UPPER


def test_a_server_that_keeps_names_in_lower_case_keeps_new_names_so() -> None:
    def renamed(old: str, new: str, envelope: TableName) -> tuple[TableName, TableName]:
        (found,) = parse_ddl(f"RENAME TABLE {old} TO {new}", dialect="mysql", table=envelope)
        (action,) = found.actions
        assert isinstance(action, RenameTable)
        return found.table, action.to

    assert renamed("Orders", "Orders_2024", ORDERS) == (ORDERS, TableName("shop", None, "orders_2024"))
    assert renamed("orders", "Orders_2024", ORDERS) == (ORDERS, TableName("shop", None, "Orders_2024"))
    assert renamed("Orders", "orders", UPPER) == (UPPER, ORDERS)
    assert renamed("Orders", "orders", ORDERS) == (UPPER, ORDERS)


def test_clause_without_a_table_is_not_understood() -> None:
    (found,) = parse_ddl("ADD COLUMN a INT", dialect="mysql", table=None)
    assert isinstance(found.actions[0], Unsupported)


def test_online_schema_change_swaps_in_order() -> None:
    table = TableName("shop", None, "t")
    found = parse_ddl("RENAME TABLE `t` TO `_t_del`, `_t_gho` TO `t`", dialect="mysql", table=table)
    assert found == (
        Statement(table, (RenameTable(TableName("shop", None, "_t_del")),)),
        Statement(TableName("shop", None, "_t_gho"), (RenameTable(table),)),
    )


def test_two_thousand_columns() -> None:
    columns = ", ".join(f"`c{i}` varchar(20) DEFAULT 'x{i}'" for i in range(2000))
    (created,) = parse_ddl(f"CREATE TABLE t ({columns})", dialect="mysql", table=None)
    assert isinstance(created.actions[0], CreateTable)
    assert len(created.actions[0].columns) == 2000
    added = ", ".join(f"ADD c{i} INT" for i in range(2000))
    (altered,) = parse_ddl(f"ALTER TABLE t {added}", dialect="mysql", table=None)
    assert [a.name for a in altered.actions if isinstance(a, AddColumn)] == [f"c{i}" for i in range(2000)]


@pytest.mark.parametrize(
    ("declared", "dialect", "expected"),
    [
        ("int unsigned", "mysql", "bigint"),
        ("BIGINT(20) UNSIGNED ZEROFILL", "mysql", "decimal(20,0)"),
        ("enum('a)b','c')", "mysql", "string"),
        ("number(38,127)", "oracle", "string"),
        ("interval day(2) to second(6)", "oracle", "string"),
        ("timestamp(6) with time zone[]", "postgres", "string"),
        ("int array", "postgres", "string"),
        ("timestamp with time zone", "postgres", "timestamp"),
        ("time(3) without time zone", "postgres", "string"),
        ("datetime2", "tsql", "string"),
        ("datetimeoffset(6)", "tsql", "timestamp"),
        ("timestamp", "tsql", "binary"),
        ("[nvarchar](max)", "tsql", "string"),
        ("char(10) for bit data", "db2", "binary"),
        ("decfloat", "db2", None),
        ("no such type", "mysql", None),
        ("bytea", "", "binary"),
    ],
)
def test_types(declared: str, dialect: str, expected: str | None) -> None:
    assert type_of_ddl(declared, dialect) == expected


_TEXT = (
    "ALTER TABLE t ADD DROP MODIFY CHANGE RENAME COLUMN CREATE TRUNCATE TO a b INT VARCHAR ( ) ( ) , , ; . "
    "1 10 'x' `q` \"q\" [ ]"
    " DEFAULT NOT NULL PRIMARY KEY UNIQUE INDEX CONSTRAINT FIRST AFTER PARTITION BY IF EXISTS LIKE AS "
    "SELECT - + = : USING CAST"
    " TYPE SET DATA EXEC sp_rename @ COMMENT COLLATE CHARACTER x'41' b'1' N'x' ON UPDATE DELETE REFERENCES "
    "CHECK GENERATED ALWAYS"
    " IDENTITY WITH VALUES TIMESTAMP TIME ZONE INTERVAL FOR BIT ENUM DECIMAL SCHEMA INTO OF INHERITS USE "
    "BEGIN END CASE GO WAIT"
    " TRANSFER ENCRYPT INLINE LENGTH # -- /* */ /*! $$ ' \" ` é 表"
)
_WORDS = _TEXT.split()
_HEADS = (
    "",
    "ALTER TABLE t ",
    "ALTER TABLE t ADD ",
    "CREATE TABLE t (",
    "ALTER TABLE t ADD a INT DEFAULT ",
    "EXEC sp_rename ",
    "DROP ",
)
_SOUP = st.builds(
    lambda head, words: head + " ".join(words),
    st.sampled_from(_HEADS),
    st.lists(st.sampled_from(_WORDS), max_size=14),
)
_TABLES = st.sampled_from((None, TableName("d", None, "t"), TableName("d", "s", "t")))


@settings(max_examples=500, deadline=None)
@given(text=st.one_of(st.text(), _SOUP), dialect=st.sampled_from(DIALECTS), table=_TABLES)
def test_any_text_gives_an_answer(text: str, dialect: str, table: TableName | None) -> None:
    found = parse_ddl(text, dialect=dialect, table=table)
    assert found
    assert all(statement.actions for statement in found)


_SPOKEN_OF = frozenset("GRANT REVOKE DENY SHOW DESC DESCRIBE AUDIT NOAUDIT HELP".split())  # noqa: SIM905
_LATER = frozenset("PROCEDURE PROC FUNCTION TRIGGER EVENT PACKAGE TYPE".split())  # noqa: SIM905
_AROUND = sorted(
    (ROW_VERBS | set(SILENT) | CREATED_OBJECTS | OBJECTS | TABLE_OPTIONS | VERBS)
    - _SPOKEN_OF
    - _LATER
    - {"("}
)
_ABOUT_A_TABLE = (
    "ALTER TABLE u ADD c INT",
    "DROP TABLE u",
    "CREATE TABLE u (c INT)",
    "TRUNCATE TABLE u",
    "RENAME TABLE u TO v",
    "ALTER TABLE u RENAME COLUMN a TO b",
)


@settings(max_examples=500, deadline=None)
@given(
    before=st.lists(st.sampled_from(_AROUND), max_size=5),
    statement=st.sampled_from(_ABOUT_A_TABLE),
    after=st.lists(st.sampled_from(_AROUND), max_size=3),
    dialect=st.sampled_from(DIALECTS),
    table=_TABLES,
)
def test_no_statement_about_a_table_is_ignored_in_silence(
    before: list[str], statement: str, after: list[str], dialect: str, table: TableName | None
) -> None:
    """Whatever stands around it, it is understood or reported;
    a routine's body runs later, and rights only speak of it.
    """
    found = parse_ddl(" ".join((*before, statement, *after)), dialect=dialect, table=table)
    assert any(has_effect(statement.actions) for statement in found)


@settings(max_examples=200, deadline=None)
@given(
    names=st.lists(st.text(min_size=1).filter(lambda n: "\0" not in n), min_size=1, max_size=5),
    dialect=st.sampled_from(("mysql", "oracle")),
)
def test_quoted_names_come_back_as_they_are(names: list[str], dialect: str) -> None:
    quote = "`" if dialect == "mysql" else '"'
    text = ", ".join(f"{quote}{name.replace(quote, quote * 2)}{quote} INT" for name in names)
    (found,) = parse_ddl(f"ALTER TABLE t ADD ({text})", dialect=dialect, table=None)
    assert [a.name for a in found.actions if isinstance(a, AddColumn)] == names


def test_agrees_with_the_columns_that_sqlglot_sees() -> None:
    """Where sqlglot reads a whole ALTER, its columns are those of `parse_ddl`,
    but for two clauses that it takes for columns.
    """
    compared = 0
    for dialect, text, _ in cases():
        if (
            dialect != "mysql"
            or not text.upper().startswith("ALTER TABLE")
            or "TABLEGROUP" in text
            or "CLUSTERING KEY" in text
        ):
            continue
        try:
            tree = parse_one(text, read="mysql")
        except SqlglotError:
            continue
        if not isinstance(tree, exp.Alter):
            continue
        actions = tree.args["actions"]
        added = {a.name for a in actions if isinstance(a, exp.ColumnDef)}
        dropped = {
            a.args["tables"][0].name
            for a in actions
            if isinstance(a, exp.Drop) and a.args.get("kind") == "COLUMN"
        }
        (found,) = parse_ddl(text, dialect="mysql", table=None)
        assert added <= {a.name for a in found.actions if isinstance(a, AddColumn)}, text
        assert dropped <= {a.name for a in found.actions if isinstance(a, DropColumn)}, text
        compared += 1
    assert compared > 50


class Words(list[str]):
    """The words of a text; counts how many of them are copied."""

    copied = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Words.copied += len(found) if isinstance(at, slice) else 0
        return found


@pytest.mark.parametrize("statement", ["IF a", "DECLARE x", "CREATE PROCEDURE p() SELECT 1"])
def test_a_text_of_many_blocks_is_not_read_once_more_for_each_of_them(statement: str) -> None:
    """A text of a megabyte took ten minutes, in which all sources of the batch waited."""
    cursor = Cursor.of(f"{statement};" * 200, "mysql")
    cursor.words = Words(cursor.words)
    Words.copied = 0
    assert len(list(_split(cursor, is_tsql=False))) == 200
    assert Words.copied <= 20 * len(cursor.words)
