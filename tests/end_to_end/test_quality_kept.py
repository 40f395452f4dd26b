"""A small run is judged by its new rows, and a fault that somebody else plants is found all the same."""

from __future__ import annotations

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
from gold.layer import LAYER as GOLD
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_blob_to_replica import Shop, item, message

LAYERS = (SILVER, GOLD)
Verdicts = dict[tuple[TargetId, str], tuple[bool | None, int, tuple[str, ...]]]


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


def test_a_plain_run_is_judged_by_its_new_rows_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, "quality: {scan: counted}\n")
    shop.land([message("INSERT", n, after=item(n, "pen", 1.5)) for n in (1, 2, 3)])
    first = by_what_is_kept(shop, 1)
    asked = _asked(monkeypatch)
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
