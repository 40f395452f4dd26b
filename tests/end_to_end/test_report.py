"""The report of a pipeline that has run: what it says is what the tables hold."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from framework.cli import main
from framework.contracts.quality import QualityResult
from framework.contracts.table_names import CHANGES_TABLE, QUALITY_RESULTS_TABLE, STATEMENTS_TABLE
from framework.contracts.table_schemas import QUALITY_RESULTS
from framework.report.notebook import report as notebook_report
from silver.batches.changes_table import statements_of
from tests.architecture.dashboard_checks import TABLES, queries
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message

WITH_A_DATE = [*COLUMNS, {"name": "bought", "type": "DATE"}]
HARM = "<script>alert(1)</script></pre>\u2028"


def quality(rule: str, success: bool, suite: str, minute: int, failed: int = 0) -> QualityResult:
    moment = datetime(2024, 3, 1, 9, minute, tzinfo=UTC)
    keys = tuple(f"id={at}" for at in range(failed))
    place: dict[str, Any] = {
        "layer": "gold",
        "source": "feed",
        "database": "shop",
        "schema": None,
        "table": "item",
    }
    said = {"expected": "every row has one", "observed": f"{failed} rows", "detail": None}
    where = {"is_gate": False, "engine": "mainstem", "version": 1, "batch": 0, "suite": suite}
    counts = {"checked_count": 3, "failed_count": failed, "failing_keys": keys}
    what = {"rule": rule, "kind": rule, "columns": ("id",), "severity": "error", "success": success}
    return QualityResult(
        run_id=f"r{minute}", started_at=moment, checked_at=moment, **place, **what, **said, **counts, **where
    )


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A pipeline that has run once: two rows, a bad cell, a half that waits, a message in quarantine,
    quality results.
    """
    shop = Shop(spark, tmp_path_factory.mktemp("shop"), "quality: {}\n")
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.5)),
            message(
                "INSERT",
                2,
                after={**item(2, "ink", 9.9), "bought": "31 February"},
                columns=[*COLUMNS, {"name": "bought", "type": "DATE"}],
            ),
            message("UPDATE_AFTER", 3, after=item(1, "pen", 1.75)),
            HARM + " \x00",
            message("INSERT", 1, after=item(1, "pen", 1.5)),
        ]
    )
    assert main(["run", "--through", "gold", "-c", str(shop.folder / "mainstem.yml")]) == 0
    results = [
        quality("not_null", False, "old", 1, 2),
        quality("gone", False, "old", 1),
        quality("judged", False, "new", 1),
        quality("not_null", True, "new", 2),
        quality("unique", False, "new", 2, 3),
    ]
    shop.lake.append(
        spark.createDataFrame([dataclasses.astuple(result) for result in results], QUALITY_RESULTS),
        QUALITY_RESULTS_TABLE,
    )
    return shop


@pytest.mark.slow
def test_the_report_tells_what_the_tables_hold(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(shop.folder / "mainstem.yml")
    capsys.readouterr()
    assert main(["report", "-c", config, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["files"] == {
        "html": str(shop.folder / "mainstem-report.html"),
        "json": str(shop.folder / "mainstem-report.json"),
    }
    page = Path(found["files"]["html"]).read_text()
    assert json.loads(Path(found["files"]["json"]).read_text())["tables"] == found["tables"]
    assert (found["pipeline"], found["verdict"], found["totals"]["messages"], found["totals"]["rows"]) == (
        "shop",
        "fail",
        5,
        2,
    )
    (table,) = found["tables"]
    assert (
        table["table"],
        table["state"],
        table["rows"],
        table["changes"],
        table["bad_values"],
        table["behind"],
    ) == (
        "item",
        "active",
        2,
        2,
        1,
        0,
    )
    (run,) = found["runs"]
    assert (run["outcome"], run["counts"]["messages"], run["tables"][0]["name"]) == ("ok", 5, "shop.item")
    assert run["seconds"] > 0
    (sample,) = found["quarantine"]["samples"]
    assert (sample["reason"], sample["value"]["text"]) == ("not_json", HARM + " \x00")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;/pre&gt;<i class=u>U+2028</i>" in page
    assert "<script>alert" not in page
    (bad,) = found["bad_values"]
    assert (bad["column"], bad["rows"], bad["sample"]) == ("bought", 1, "31 February")
    assert found["waiting"][0]["rows"] == 1
    assert {(check["rule"], check["success"]) for check in found["quality"]} == {
        ("not_null", True),
        ("unique", False),
    }
    assert found["quality"][0]["failing_keys"] == ["id=0", "id=1", "id=2"]
    seen = notebook_report(config)
    assert seen.data["totals"] == found["totals"]
    assert seen._repr_html_().startswith("<iframe srcdoc=")


@pytest.mark.slow
def test_the_dashboard_asks_the_operational_tables_what_they_hold(shop: Shop, spark: SparkSession) -> None:
    if not shop.lake.exists(spark, STATEMENTS_TABLE):
        shop.lake.append(statements_of(shop.lake.read(spark, CHANGES_TABLE)), STATEMENTS_TABLE)
    text = (Path(__file__).parents[2] / "framework" / "operations.lvdash.json").read_text(encoding="utf-8")
    for name in TABLES:
        if shop.lake.exists(spark, f"ops/{name}"):
            shop.lake.read(spark, f"ops/{name}").createOrReplaceTempView(name)
    found = {}
    try:
        for name, query in queries(text).items():
            answer = spark.sql(query)
            parsed = sqlglot.parse_one(query, read="databricks")
            assert isinstance(parsed, sqlglot.exp.Query), name
            assert set(answer.columns) == set(parsed.named_selects), name
            found[name] = [row.asDict() for row in answer.collect()]
    finally:
        for name in TABLES:
            spark.catalog.dropTempView(name)

    (run,) = found["runs"]
    assert (run["outcome"], run["messages"], run["tables_written"], run["error_count"]) == ("ok", 5, 1, 0)
    (state,) = found["states"]
    assert (state["table_name"], state["state"], state["batches_behind"], state["changes_applied"]) == (
        "shop.item",
        "active",
        0,
        2,
    )
    (totals,) = found["totals"]
    assert totals == {"parked_tables": 0, "all_tables": 1, "bad_values": 1, "quarantined_this_week": 1}
    assert {row["kind"]: row["row_count"] for row in found["outcomes"]} == {
        "row": 2,
        "half": 1,
        "quarantined": 1,
        "duplicate": 1,
    }
    assert [(row["source"], row["row_count"]) for row in found["sources"]] == [("feed", 5)]
    assert [(row["reason"], row["row_count"]) for row in found["quarantined"]] == [("not_json", 1)]
    assert [(row["column_name"], row["cell_count"]) for row in found["bad_values"]] == [("bought", 1)]
    assert [(row["rule"], row["verdict"], row["failed_count"]) for row in found["quality"]] == [
        ("unique", "error", 3),
        ("not_null", "ok", 0),
    ]
    assert found["schema_changes"] == []


def test_a_report_that_cannot_be_written_says_so(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    (shop.folder / "file").write_text("")
    assert (
        main(
            [
                "report",
                "-c",
                str(shop.folder / "mainstem.yml"),
                "--output",
                str(shop.folder / "file" / "report.html"),
            ]
        )
        == 1
    )
    assert "REPORT_NOT_WRITTEN" in capsys.readouterr().err
    assert (
        main(["report", "-c", str(shop.folder / "mainstem.yml"), "--output", str(shop.folder / "page.html")])
        == 0
    )
    assert "Nothing has run yet" in (shop.folder / "page.html").read_text()


def ask(shop: Shop, capsys: pytest.CaptureFixture[str], query: str, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["sql", query, "-c", str(shop.folder / "mainstem.yml"), *words])
    return code, *capsys.readouterr()


def test_tables_are_queried_by_their_names(
    shop: Shop, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    joined = """SELECT item.id, c.id, item.price, c._cdc_event_time, count(*) OVER () AS n
                FROM shop.item JOIN `SHOP.item` c ON c.id = item.id
                JOIN silver.changes s ON s.change_id = c._cdc_change_id AND s.kind = 'row'
                ORDER BY item.id DESC; """
    code, out, _ = ask(shop, capsys, joined, "--json")
    found = json.loads(out)
    assert (code, found["has_more"]) == (0, False)
    assert [column["name"] for column in found["columns"]] == ["id", "id_2", "price", "_cdc_event_time", "n"]
    assert found["rows"][0] == {
        "id": 2,
        "id_2": 2,
        "price": 9.9,
        "_cdc_event_time": "2023-11-14T22:13:22Z",
        "n": 2,
    }

    with pytest.raises(AnalysisException):  # the names are those of one pipeline, and gone with the answer
        spark.sql("SELECT * FROM shop.item")
    code, out, _ = ask(
        shop,
        capsys,
        "VALUES (1, CAST(2.50 AS DECIMAL(9,2)), X'00FF'), (2, null, null) -- two",
        "--limit",
        "1",
    )
    assert (code, out.splitlines()[1:]) == (
        0,
        ["1     2.50  AP8=", "(1 row, and there are more: --limit 10)"],
    )


def test_anything_but_a_query_is_refused(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    for statement in (
        "DROP TABLE shop.item",
        "DELETE FROM shop.item",
        "INSERT INTO shop.item VALUES (1)",
        "WITH x AS (SELECT 1) INSERT INTO shop.item SELECT * FROM x",
        "FROM shop.item INSERT INTO shop.item SELECT * ",
        "SELECT 1; DROP TABLE shop.item",
        "SELECT 1) SELECT 1 FROM asked --",
        "SET spark.sql.ansi.enabled = false",
        "REFRESH item",
        "CREATE TABLE x AS SELECT 1",
        "",
    ):
        code, out, error = ask(shop, capsys, statement)
        assert (code, out) == (2, ""), statement
        assert "SQL_NOT_A_QUERY" in error


def test_a_query_that_fails_says_why(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = ask(shop, capsys, "SELECT * FROM shop.itme")
    assert code == 1
    assert "did you mean shop.item?" in error
    assert "SQL_FAILED" in ask(shop, capsys, "SELECT nothing FROM shop.item")[2]
    assert "DIVIDE_BY_ZERO" in ask(shop, capsys, "SELECT 1 / 0")[2]
    assert "SQL_TABLE_EMPTY" in ask(shop, capsys, "SELECT * FROM ops.epochs")[2]
    assert "BAD_LIMIT" in ask(shop, capsys, "SELECT 1", "--limit", "0")[2]
