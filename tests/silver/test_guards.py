"""Silver's guards against a second delivery of a whole batch, each with the others switched off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.contracts.table_names import MESSAGES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches import process as of_batch
from silver.batches.process import process_batch
from silver.batches.run_state import RunState
from silver.changes.source_plans import source_plans
from silver.formats import FORMATS
from silver.job import run_silver
from silver.stream.resume import spare_batch_id
from tests.end_to_end.test_blob_to_replica import Shop, item, message

HALF = message("UPDATE_AFTER", 4, after=item(2, "ink", 9.5))


def outcomes(shop: Shop) -> list[str]:
    """All rows of silver but their batch, and the counts of `ops/batches`."""
    rows = shop.lake.read(shop.spark, "silver/changes").drop("batch").collect()
    counts = shop.lake.read(shop.spark, "ops/batches").select("kind", "rows").collect()
    return sorted(map(repr, rows)) + sorted(map(repr, counts))


@pytest.mark.slow
def test_each_guard_alone_commits_a_repeated_batch_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path)
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.5)),
            message("INSERT", 2, after=item(2, "ink", 9.0)),
            HALF,
            "no message",
        ]
    )
    shop.run()
    expected = outcomes(shop)

    def process_again() -> None:
        state = RunState(shop.lake, shop.config, source_plans(shop.config, FORMATS))
        process_batch(shop.lake.read(spark, MESSAGES_TABLE), 0, state)

    with (
        monkeypatch.context() as patched
    ):  # the mark of the write alone: it names the batch, and Delta skips it
        patched.setattr(of_batch, "is_committed", lambda *_: False)
        process_again()
        assert outcomes(shop) == expected
    append = Lakehouse.append
    with monkeypatch.context() as patched:  # the look into the table alone

        def unmarked(
            lake: Lakehouse, frame: Any, name: str, transaction: Any = None, properties: Any = None
        ) -> None:
            append(lake, frame, name, transaction if name.startswith("ops/") else None, properties)

        patched.setattr(Lakehouse, "append", unmarked)
        process_again()
        assert outcomes(shop) == expected
    run_silver(spark, shop.lake, shop.config)  # the stream's own log alone: nothing is offered again
    assert outcomes(shop) == expected
    waiting = shop.lake.read(spark, "silver/pending").collect()
    assert [row["offset"] for row in waiting] == [3]


@pytest.mark.slow
def test_a_batch_again_leaves_alone_what_batches_behind_it_have_paired(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run died before its stream knew that the batch had ended;
    its halves met their partners in messages taken up again.
    """
    shop = Shop(spark, tmp_path)
    shop.land([message("INSERT", 2, after=item(2, "ink", 9.0)), HALF])
    shop.run()
    shop.land([message("UPDATE_BEFOR", 4, before=item(2, "ink", 9.0))])
    assert main(["run", "--through", "bronze", "-c", str(shop.folder / "mainstem.yml")]) == 0
    messages = shop.lake.read(spark, MESSAGES_TABLE)
    first, second = messages.where("topic = 'part-001.jsonl'"), messages.where("topic = 'part-002.jsonl'")
    state = RunState(shop.lake, shop.config, source_plans(shop.config, FORMATS))
    process_batch(second, spare_batch_id(spark, state), state)
    assert shop.lake.read(spark, "silver/pending").isEmpty()
    expected = outcomes(shop)

    process_batch(first, 0, RunState(shop.lake, shop.config, source_plans(shop.config, FORMATS)))

    assert shop.lake.read(spark, "silver/pending").isEmpty()
    assert outcomes(shop) == expected
