from __future__ import annotations

import pytest

from framework.sql.guard import Refused, names_in, wrap_query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "SELECT status, count(*) FROM shop.orders GROUP BY status",
        "WITH x (a, b) AS (SELECT 1, 2) SELECT a FROM x WHERE a IN (1, 2) AND (b > 1 OR NOT (b < 0))",
        "SELECT * FROM VALUES (1, 'a;b'), (2, 'it\\'s -- no comment /*') AS t (id, name)",
        "SELECT transform(array(1, 2), x -> x + 1), CAST(id AS DECIMAL(10, 2)), DATE '2024-02-29' FROM "
        "`shop.orders`",
        "SELECT r'a\\', \"double $\", `a``b(` FROM shop.t JOIN shop.u USING (id)",
        "SELECT sum(x) FILTER (WHERE x > 0) OVER (PARTITION BY y ORDER BY z) FROM t GROUP BY GROUPING SETS "
        "((a), ())",
        "SELECT /*+ BROADCAST(t) */ * FROM t -- the last line",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u) UNION ALL (SELECT 2)",
        "VALUES (1)",
    ],
)
def test_queries_run_inside_a_query_of_ours(query: str) -> None:
    text = wrap_query(query)
    assert text.startswith("SELECT * FROM (\n")
    assert text.endswith("\n) AS answer")


def test_comments_are_taken_out_and_texts_stay() -> None:
    assert (
        wrap_query("SELECT 'a -- b', /* c */ 1 -- d\n, 2")
        == "SELECT * FROM (\nSELECT 'a -- b',   1  \n, 2\n) AS answer"
    )


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("/* /* */ RESTORE TABLE t TO VERSION AS OF 0 -- */ SELECT 1", "a comment inside a comment"),
        ("SELECT 1 /* /* */ */", "a comment inside a comment"),
        ("SELECT 1 /* open", "a comment that does not end"),
        ("SELECT 1 -- on \\\n, reflect('a')", "a comment that ends with a backslash"),
        ("SELECT 1; DROP TABLE t", "more than one statement"),
        ("REFRESH item", "begins with REFRESH"),
        ("-- nothing", "begins with nothing"),
        ("SELECT reflect('java.lang.System', 'load', '/tmp/x.so')", "reflect"),
        ("SELECT `java_method`('a', 'b')", "java_method"),
        ("SELECT Try_Reflect ('a', 'b')", "Try_Reflect"),
        ("SELECT builtin.reflect('a', 'b')", "reflect"),
        ("SELECT default.my_function(1)", "my_function"),
        ("SELECT reflect/* a */('a')", "reflect"),
        ("SELECT reflect -- a\n('a')", "reflect"),
        ("SELECT * FROM read_files('/etc')", "read_files"),
        ("SELECT * FROM IDENTIFIER('text.`/etc/passwd`')", "IDENTIFIER"),
        ("SELECT from_protobuf(x, 'M', '/etc/passwd')", "from_protobuf"),
        ("SELECT TRANSFORM (a) USING 'cat /etc/passwd' FROM t", "runs a program"),
        ("FROM t MAP a USING 'sh'", "runs a program"),
        ("FROM (SELECT 1 a) t MAP 1E+5USING 'sh' AS y", "put a space behind a number"),
        ("FROM (SELECT 1 a) t REDUCE 1E+5BDUSING 'sh'", "put a space behind a number"),
        ("FROM t MAP .5USING 'sh'", "put a space behind a number"),
        ("SELECT 1reflect('a', 'b')", "put a space behind a number"),
        ("SELECT \"reflect\"('a', 'b')", "without quotes"),
        ('SELECT "a\\", reflect(\'b\') "', "single quotes"),
        ("SELECT a://b.r'\\' \" ' , reflect('a','b') -- \"\n", "an address"),
        ("FROM t REDUCE a USING\n r'sh'", "runs a program"),
        ("SELECT 1.5r'\\', reflect('a', 'b'), '", "put a space"),
        ("SELECT $$ 1 $$", "the character $"),
        ("SELECT 'open", "a quote that does not end"),
        ("SELECT `in`(1)", "in"),
    ],
)
def test_text_that_could_do_more_than_read_is_refused(query: str, why: str) -> None:
    with pytest.raises(Refused, match=why.replace("$", "\\$")):
        wrap_query(query)


def test_a_query_that_closes_our_parenthesis_stays_one_query() -> None:
    assert wrap_query("SELECT 1) AS a, (SELECT 2").startswith("SELECT * FROM (\nSELECT 1) AS a, (SELECT 2\n)")


def test_names_are_found_with_their_beginnings_and_not_in_texts_and_comments() -> None:
    found = names_in("SELECT Shop . t.id FROM Shop.t -- a.b\nJOIN `shop.t` ON x = 'c.d'")
    assert [name for name in found if name[0].casefold().startswith(("shop", "a", "c"))] == [
        ("Shop",),
        ("Shop", "t"),
        ("Shop", "t", "id"),
        ("Shop",),
        ("Shop", "t"),
        ("shop.t",),
    ]
