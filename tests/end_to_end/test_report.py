"""The report of a pipeline that has run: what it says is what the tables hold."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.contracts.quality import RESULTS_TABLE, QualityResult
from framework.contracts.tables import QUALITY_RESULTS
from framework.report.notebook import report as notebook_report
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message

WITH_A_DATE = [*COLUMNS, {"name": "bought", "type": "DATE"}]
HARM = "<script>alert(1)</script></pre>\u2028"


def quality(rule: str, success: bool, suite: str, minute: int, failed: int = 0) -> QualityResult:
    moment = datetime(2024, 3, 1, 9, minute, tzinfo=UTC)
    keys = tuple(f"id={at}" for at in range(failed))
    place: dict[str, Any] = {"layer": "gold", "source": "feed", "database": "shop", "schema": None, "table": "item"}
    said = {"expected": "every row has one", "observed": f"{failed} rows", "detail": None}
    where = {"is_gate": False, "engine": "mainstem", "version": 1, "batch": 0, "suite": suite}
    counts = {"checked_count": 3, "failed_count": failed, "failing_keys": keys}
    what = {"rule": rule, "kind": rule, "columns": ("id",), "severity": "error", "success": success}
    return QualityResult(run_id=f"r{minute}", started_at=moment, checked_at=moment, **place, **what, **said, **counts, **where)


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A pipeline that has run once: two rows, a bad cell, a half that waits, a message in quarantine, quality results."""
    shop = Shop(spark, tmp_path_factory.mktemp("shop"))
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.5)),
            message(
                "INSERT", 2, after={**item(2, "ink", 9.9), "bought": "31 February"}, columns=[*COLUMNS, {"name": "bought", "type": "DATE"}]
            ),
            message("UPDATE_AFTER", 3, after=item(1, "pen", 1.75)),
            HARM + " \x00",
            message("INSERT", 1, after=item(1, "pen", 1.5)),
        ]
    )
    assert main(["run", "-c", str(shop.folder / "mainstem.yml")]) == 0
    results = [
        quality("not_null", False, "old", 1, 2),
        quality("gone", False, "old", 1),
        quality("not_null", True, "new", 2),
        quality("unique", False, "new", 2, 3),
    ]
    shop.lake.append(spark.createDataFrame([dataclasses.astuple(result) for result in results], QUALITY_RESULTS), RESULTS_TABLE)
    return shop


def test_the_report_tells_what_the_tables_hold(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(shop.folder / "mainstem.yml")
    capsys.readouterr()
    assert main(["report", "-c", config, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["files"] == {"html": str(shop.folder / "mainstem-report.html"), "json": str(shop.folder / "mainstem-report.json")}
    page = Path(found["files"]["html"]).read_text()
    assert json.loads(Path(found["files"]["json"]).read_text())["tables"] == found["tables"]
    assert (found["pipeline"], found["verdict"], found["totals"]["messages"], found["totals"]["rows"]) == ("shop", "fail", 5, 2)
    (table,) = found["tables"]
    assert (table["table"], table["state"], table["rows"], table["changes"], table["bad_values"], table["behind"]) == (
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
    assert {(check["rule"], check["success"]) for check in found["quality"]} == {("not_null", True), ("unique", False)}
    assert found["quality"][0]["failing_keys"] == ["id=0", "id=1", "id=2"]
    seen = notebook_report(config)
    assert seen.data["totals"] == found["totals"]
    assert seen._repr_html_().startswith("<iframe srcdoc=")


def test_a_report_that_cannot_be_written_says_so(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(spark, tmp_path)
    (shop.folder / "file").write_text("")
    assert main(["report", "-c", str(shop.folder / "mainstem.yml"), "--output", str(shop.folder / "file" / "report.html")]) == 1
    assert "REPORT_NOT_WRITTEN" in capsys.readouterr().err
    assert main(["report", "-c", str(shop.folder / "mainstem.yml"), "--output", str(shop.folder / "page.html")]) == 0
    assert "Nothing has run yet" in (shop.folder / "page.html").read_text()
