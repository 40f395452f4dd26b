"""What the quality step keeps from run to run, held against a measurement of everything."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.contracts.expectations import CheckTarget, PreviousResults, TargetId
from framework.pipeline.layer import Run
from framework.quality import runner
from framework.quality.job import judge
from framework.quality.memory import recall
from framework.quality.runner import findings_of
from gold.layer import LAYER as GOLD
from silver.layer import LAYER as SILVER
from tests.amounts import IS_LARGE
from tests.end_to_end.test_blob_to_replica import Shop, item, message

LAYERS = (SILVER, GOLD)
ROUNDS = 12 if IS_LARGE else 6
RULES = """quality:
  scan: counted
  sources: {feed: 40000 days}
  rules:
    - {match: shop.item, freshness: 40000 days}
    - {match: shop.line, range: {column: price, min: 0, max: 100}}
"""
FOREIGN = (
    "INSERT INTO {gold} SELECT * FROM {gold} LIMIT 1",
    "DELETE FROM {gold} WHERE id < 3",
    "UPDATE {gold} SET name = 'another' WHERE true",
    "INSERT INTO {silver} SELECT * FROM {silver} LIMIT 1",
    "OPTIMIZE {silver}",
    "OPTIMIZE {gold}",
)
Verdicts = dict[tuple[TargetId, str], tuple[bool | None, int, tuple[str, ...]]]


def by_everything(shop: Shop) -> Verdicts:
    """The verdicts of a step that knows nothing and so reads every table."""
    run = Run(shop.spark, shop.lake, shop.config, "everything")
    targets = [
        target
        for layer in LAYERS
        if layer.expectations
        for target in layer.expectations(run, PreviousResults())
    ]
    found = zip(targets, findings_of(shop.spark, targets, PreviousResults()), strict=True)
    return {
        (target.id, f.rule.name): (f.failed == 0 if f.is_judged else None, f.failed, f.keys)
        for target, findings in found
        for f in findings
    }


def by_what_is_kept(shop: Shop, number: int) -> Verdicts:
    """The verdicts after a run of the pipeline."""
    run = Run(shop.spark, shop.lake, shop.config, f"run {number}")
    for layer in (BRONZE, *LAYERS):
        assert layer.run(run).errors == ()
    judge(run, LAYERS)
    kept = recall(Run(shop.spark, shop.lake, shop.config, "next")).previous
    return {
        (target, r.rule): (r.success, r.failed_count, r.failing_keys)
        for target, results in kept.results.items()
        for r in results
    }


def drawn(source: random.Random, number: int) -> list[Any]:
    """The messages of one run: changes in any order, halves of updates, and what is no message."""
    found: list[Any] = []
    for at in range(source.randrange(1, 9)):
        sequence = number * 100 + at - source.choice((0, 0, 0, 150))
        sequence, key = max(sequence, at + 1), source.randrange(1, 6)
        row = item(key, source.choice(("pen", "ink")), source.choice((1.5, 9.9, 200.0)))
        old = item(source.choice((key, key, key, key + 1)), "pen", 1.5)
        op = source.choice(("INSERT", "UPDATE", "UPDATE", "DELETE"))
        images = {"INSERT": {"after": row}, "DELETE": {"before": row}}.get(op, {"before": old, "after": row})
        found.append(message(op, sequence, **images, tableName=source.choice(("item", "line"))))
    if source.random() < 0.2:
        found.append(message("UPDATE_BEFOR", number * 100 + 50, before=item(1, "pen", 1.5)))
    if source.random() < 0.2:
        found.append("no message")
    return found


@pytest.mark.slow
def test_a_plain_run_is_judged_by_its_new_rows_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, "quality: {scan: counted}\n")
    shop.land([message("INSERT", n, after=item(n, "pen", 1.5)) for n in (1, 2, 3)])
    asked = _asked(monkeypatch)
    first = by_what_is_kept(shop, 1)
    assert asked == []
    assert first == by_everything(shop)
    asked.clear()
    shop.land([message("UPDATE", 4, before=item(1, "pen", 1.5), after=item(1, "ink", 1.5))])
    assert by_what_is_kept(shop, 2).keys() == first.keys()
    assert asked == []

    spark.sql(f"DELETE FROM delta.`{tmp_path}/lakehouse/gold/shop/item` WHERE id = 3")
    shop.land([message("UPDATE", 5, before=item(2, "pen", 1.5), after=item(2, "ink", 1.5))])
    verdicts = by_what_is_kept(shop, 3)
    target = ("gold", "feed", "shop", None, "item")
    assert verdicts[target, "implied_keys"] == (False, 1, ("id=3: missing in the replica",))
    assert asked == ["shop.item"]


def _asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of the targets that Spark measures from now on."""
    asked: list[str] = []
    measured = runner._measured_findings

    def noted(spark: SparkSession, targets: Sequence[CheckTarget], previous: PreviousResults) -> Any:
        asked.extend(target.title for target in targets)
        return measured(spark, targets, previous)

    monkeypatch.setattr(runner, "_measured_findings", noted)
    return asked


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3 if IS_LARGE else 1))
def test_what_is_kept_is_what_everything_shows(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Drawn changes of two tables, rules, and writers that are not Mainstem."""
    source = random.Random(seed)
    shop = Shop(spark, tmp_path, source.choice((RULES, "quality: {scan: counted}\n")))
    places = {
        "silver": f"delta.`{tmp_path}/lakehouse/silver/changes`",
        "gold": f"delta.`{tmp_path}/lakehouse/gold/shop/item`",
    }
    shop.land(
        [
            message("INSERT", n, after=item(n, "pen", 1.5), tableName=t)
            for n in (1, 2)
            for t in ("item", "line")
        ]
    )
    for number in range(1, ROUNDS + 1):
        verdicts = by_what_is_kept(shop, number)
        assert verdicts == by_everything(shop), f"seed {seed}, round {number}"
        if number > ROUNDS // 2:
            spark.sql(source.choice(FOREIGN).format(**places))
        if source.random() < 0.3:
            (tmp_path / "lakehouse/_mainstem/quality.memory").unlink()
            if source.random() < 0.5:  # as if nothing had ever been judged
                shutil.rmtree(tmp_path / "lakehouse/ops/quality_results")
        shop.land(drawn(source, number + 1))
