"""Texts of statements are kept without the values of rows."""

from __future__ import annotations

import pytest

from framework.contracts.ddl_actions import Statement, TableName
from silver.ddl.parser import parse_ddl
from silver.ddl.row_values import without_row_values

USERS = TableName("shop", None, "users")


def kept(text: str, dialect: str = "mysql") -> list[str | None]:
    """What is kept of each statement of a text."""
    found: tuple[Statement, ...] = parse_ddl(text, dialect=dialect, table=USERS)
    return [without_row_values(statement.text or text, statement.actions) for statement in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO users VALUES (1, 'Ann')", "INSERT INTO users VALUES …"),
        ("DELETE FROM users2 WHERE id = 7", "DELETE FROM users2 WHERE id …"),
        ("update `shop`.`users` set name = 'Ann'", "update `shop`.`users` set name …"),
        ("INSERT INTO users\nVALUES ('Ann')", "INSERT INTO users …"),
        ("/* Ann */ DELETE FROM users", "…"),
        ("REPLACE INTO users SELECT 'Ann\\', ', secret, '", "REPLACE INTO users SELECT …"),
        ("WITH x AS (SELECT 'Ann') DELETE FROM users", "WITH x AS …"),
        ("SELECT 'Ann' FROM users", "SELECT …"),
    ],
)
def test_a_statement_about_rows_loses_its_values(text: str, expected: str) -> None:
    assert kept(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE users ADD COLUMN title varchar(10) DEFAULT 'Mrs'",
        "CREATE TABLE users (id int PRIMARY KEY, name varchar(20) COMMENT 'full name')",
        "ALTER TABLE users FROBNICATE 'x' ON DELETE SET NULL",
        "ALTER TABLE users ADD PARTITION (PARTITION p9 VALUES LESS THAN ('2030'))",
        "TRUNCATE TABLE users",
        "GRANT SELECT ON users TO ann",
        "FROBNICATE users 'x'",
    ],
)
def test_a_statement_about_a_table_stays_as_it_is(text: str) -> None:
    assert kept(text) == [text]


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("BEGIN INSERT INTO users VALUES ('Ann'); END", "oracle"),
        ("CALL add_user('Ann')", "mysql"),
        ("EXEC add_user 'Ann'", "tsql"),
        ("ALTER TABLE users DELETE WHERE name = 'Ann'", "mysql"),
        ("CREATE TABLE x (id int); INSERT INTO users VALUES ('Ann', 'it is not closed)", "mysql"),
        ("INSERT INTO users VALUES ($tag$Ann$tag$)", "postgres"),
        ("INSERT INTO users VALUES (q'[Ann]')", "oracle"),
        ("MERGE INTO users USING (VALUES ('Ann')) AS n (name) ON 1 = 0", "tsql"),
    ],
)
def test_values_in_blocks_and_in_what_is_not_understood_go_too(text: str, dialect: str) -> None:
    assert "Ann" not in "".join(str(each) for each in kept(text, dialect))


def test_of_a_script_the_statements_about_tables_stay() -> None:
    assert kept("ALTER TABLE users ADD c int DEFAULT 3; UPDATE users SET c = 4") == [
        "ALTER TABLE users ADD c int DEFAULT 3",
        "UPDATE users SET c …",
    ]


def test_no_text_stays_no_text() -> None:
    assert without_row_values(None, ()) is None
    assert without_row_values("x", None) == "x"
