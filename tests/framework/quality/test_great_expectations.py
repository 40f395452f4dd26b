"""Great Expectations is loaded when something is judged, and its verdict stands on what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.expectations import CheckTarget, Finding, MeasurementContext, Rule
from framework.contracts.quality import MOST_KEYS
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.quality.great_expectations import GreatExpectations
from framework.quality.job import _scanned
from framework.quality.measurement import measure
from framework.quality.row_checks import row_measurement
from silver.layer import LAYER


def test_the_layers_are_known_without_great_expectations() -> None:
    code = (
        "import sys; from framework.pipeline.layer import installed_layers as found; "
        "list(found()); sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_rule_holds_where_nothing_breaks_it_and_is_open_where_it_could_not_be_judged() -> None:
    rules = [
        Rule("not_null(id)", "not_null", ("id",)),
        Rule("unique(id)", "unique", ("id",)),
        Rule("implied_keys", "implied_keys"),
    ]
    findings = [Finding(rules[0], 3, 0), Finding(rules[1], 3, 2), Finding(rules[2], 0, 0, is_judged=False)]
    judge = GreatExpectations()
    assert judge.verdicts(findings) == [True, False, None]
    assert judge.verdicts(findings[:1]) == [True]


def test_a_null_in_the_second_of_several_columns_is_found_in_a_full_scan(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Great Expectations has no expectation for it: the finding of the one pass stays."""
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: p\nlakehouse: ./lake\nquality: {scan: full}\n"
        "sources:\n  feed: {format: canal, files: ./in}\n"
    )
    run = Run(spark, Lakehouse(str(tmp_path)), load_config(file, formats=LAYER.options()), "run")
    rules = [Rule("one", "not_null", ("id",)), Rule("several", "not_null", ("id", "line"))]
    rows = spark.sql("SELECT 1 AS id, CAST(NULL AS int) AS line")
    target = CheckTarget("gold", None, None, rows=lambda _: rows)
    findings = [Finding(rules[0], 1, 0), Finding(rules[1], 1, 1, ("id=1",))]
    found = _scanned(run, target, findings, GreatExpectations())
    assert [finding.failed for finding in found] == [0, 1]
    assert found[1] is findings[1]
    assert found[0].detail == "scanned by Great Expectations"


def test_great_expectations_itself_finds_what_the_one_pass_finds(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1L, 'pen', 5), (2L, 'INK', 200), (2L, null, 7), (null, 'a long name', null) "
        "AS t(id, name, n)"
    )
    rules = [
        Rule("not_null(id)", "not_null", ("id",)),
        Rule("unique(id)", "unique", ("id",)),
        Rule("accepted(name)", "accepted", ("name",), values=("pen", "INK")),
        Rule("range(n)", "range", ("n",), low=0, high=100),
        Rule("regex(name)", "regex", ("name",), pattern="[a-z ]+"),
        Rule("length(name)", "length", ("name",), high=5),
    ]
    expected = {
        "not_null(id)": ("id=null",),
        "unique(id)": ("id=2",),
        "accepted(name)": ("id=null",),
        "range(n)": ("id=2",),
        "regex(name)": ("id=2",),
        "length(name)": ("id=null",),
    }
    found = {
        finding.rule.name: finding
        for finding in GreatExpectations().scanned("shop.item", rows, rules, ["id"])
    }
    measured = {
        finding.rule.name: finding
        for finding in measure(
            row_measurement(lambda: rows, rules, ["id"], MeasurementContext(spark, is_small=True))
        )
    }
    assert {name: finding.keys for name, finding in measured.items()} == expected
    assert {name: finding.keys for name, finding in found.items()} == expected


def test_a_scan_judges_columns_with_any_name_and_the_whole_text(spark: SparkSession) -> None:
    """A rule that cannot be measured, such as the length of a list, keeps the finding of the one pass."""
    rows = spark.sql("SELECT * FROM VALUES (1L, 'abc\\n', array('x')), (2L, 'abc', array('y'))")
    rows = rows.toDF("a.b", "n `m`", "Name")
    rules = [
        Rule("not_null", "not_null", ("a.b",)),
        Rule("unique", "unique", ("a.b",)),
        Rule("both", "unique", ("A.B", "n `m`")),
        Rule("length", "length", ("name",), high=5),
        Rule("regex", "regex", ("n `m`",), pattern="[a-z]+"),
    ]
    found = GreatExpectations().scanned("t", rows, rules, ["a.b"])
    assert [(f.rule.name, f.checked, f.failed, f.keys) for f in found] == [
        ("not_null", 2, 0, ()),
        ("unique", 2, 0, ()),
        ("both", 2, 0, ()),
        ("regex", 2, 1, ("a.b=1",)),
    ]


def test_a_scan_finds_no_equal_rows_where_a_column_of_a_rule_is_null(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES (1, 'a', null), (2, 'a', null), (3, null, null) AS t(id, a, b)")
    rules = [Rule("both", "unique", ("a", "b")), Rule("one", "unique", ("b",))]
    found = GreatExpectations().scanned("t", rows, rules, ["id"])
    assert [(f.rule.name, f.checked, f.failed) for f in found] == [("both", 3, 0), ("one", 3, 0)]


def test_a_scan_brings_few_of_the_rows_that_fail(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    validated = GreatExpectations._validated

    def watched(self: GreatExpectations, *given: Any) -> Any:
        results.append(validated(self, *given))
        return results[-1]

    monkeypatch.setattr(GreatExpectations, "_validated", watched)
    rows = spark.sql("SELECT id, 'x' AS a, id % 2 AS b FROM range(100)")
    rules = [
        Rule("accepted", "accepted", ("a",), values=("y",)),
        Rule("one", "unique", ("a",)),
        Rule("both", "unique", ("a", "b")),
    ]
    found = GreatExpectations().scanned("t", rows, rules, ["id"])
    assert [(f.failed, len(f.keys)) for f in found] == [(100, MOST_KEYS)] * 3
    lists = [value for one in results for value in one.results[0].result.values() if isinstance(value, list)]
    assert lists
    assert max(map(len, lists)) <= MOST_KEYS
