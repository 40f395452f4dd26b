"""What only change data capture can tell: messages and outcomes, offsets without a gap,
transactions that are complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import load_config
from framework.contracts.quality import MOST_KEYS, QualityResult
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.quality.job import judge
from framework.spark import tuning
from framework.spark.comparison import compare
from silver.batches import batch_counts, changes_table
from silver.layer import LAYER as SILVER
from silver.operations import reconciliation
from silver.operations.reconciliation import may_land_twice

CONFIG = """pipeline: shop
lakehouse: ./lakehouse
sources:
  feed: {format: debezium, kafka: {bootstrap_servers: "nowhere:9092", topics: [t]}}
quality: {scan: counted}
"""


class Pipeline:
    """Bronze and silver as a broker's messages would leave them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.batch = spark, -1
        (folder / "mainstem.yml").write_text(CONFIG)
        self.config = load_config(folder / "mainstem.yml", formats=SILVER.options())
        self.lake = Lakehouse(self.config.root)

    def take(self, messages: Sequence[tuple[int, int, str]]) -> None:
        """A batch of messages: partition, offset, and the transaction that they belong to,
        or END with how many it has.
        """
        self.batch += 1
        rows, outcomes = [], []
        for partition, offset, text in messages:
            at: dict[str, Any] = {"source": "feed", "topic": "t", "partition": partition, "offset": offset}
            transaction, _, end = text.partition(" END ")
            value = f'{{"event_count": {end}}}' if end else "{}"
            rows.append(
                {
                    **dict.fromkeys(MESSAGES.names),
                    **at,
                    "value": value.encode(),
                    "ingested_at": datetime.now(UTC),
                }
            )
            kind = "transaction" if end else "row"
            image = (
                {"change_id": f"{partition}-{offset}", "op": "insert", "table": "item", "after": {"id": "1"}}
                if kind == "row"
                else {}
            )
            more = {"batch": self.batch, "kind": kind, "ordinal": 0, "transaction_id": transaction or None}
            outcomes.append({**dict.fromkeys(CHANGES.names), **at, **image, **more})
        self.lake.append(self.spark.createDataFrame(rows, MESSAGES).coalesce(1), MESSAGES_TABLE)
        self.lake.append(
            self.spark.createDataFrame(outcomes, CHANGES).coalesce(1),
            CHANGES_TABLE,
            None,
            changes_table.CHANGES_PROPERTIES,
        )
        mine = self.lake.read(self.spark, CHANGES_TABLE).where(f"batch = {self.batch}")
        batch_counts.append_counts(self.lake, self.spark, batch_counts.count_rows(mine, None), None, None)

    def failures(self) -> dict[str, tuple[str, ...]]:
        return {result.rule: result.failing_keys for result in self.judged()}

    def lacking(self) -> tuple[int, tuple[str, ...]]:
        """How many transactions lack changes, and the names of some."""
        (found,) = (result for result in self.judged() if result.rule == "transactions_complete")
        return found.failed_count, found.failing_keys

    def judged(self) -> tuple[QualityResult, ...]:
        return judge(Run(self.spark, self.lake, self.config, f"judged {self.batch}"), [SILVER]).failures


@pytest.mark.slow
def test_gaps_between_runs_and_transactions_across_batches_are_found_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, tmp_path)
    pipeline.take([(0, 7, ""), (0, 8, "a"), (1, 3, "a"), (1, 4, "b")])
    assert pipeline.failures() == {}

    pipeline.take(
        [(0, 9, "a END 2"), (0, 10, "b END 2"), (1, 5, "b"), (2, 0, "")]
    )  # b began in the batch before
    assert pipeline.failures() == {}

    pipeline.take([(0, 11, ""), (1, 8, "c"), (1, 9, "c END 2")])
    assert pipeline.failures() == {
        "offsets_without_gaps": ("feed/t/1: 2",),
        "transactions_complete": ("feed/c: 1 of 2",),
    }

    # nothing new is theirs: what is broken stays, and is told of the transactions that lack changes
    pipeline.take([(0, 12, ""), (1, 10, "d")])
    assert pipeline.failures()["transactions_complete"] == ("feed/c: 1 of 2",)

    pipeline.take([(1, 7, "c"), (0, 13, "d END 1")])
    assert pipeline.failures() == {"offsets_without_gaps": ("feed/t/1: 1",)}


@pytest.mark.slow
def test_more_transactions_lack_changes_than_a_verdict_names_until_their_changes_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, tmp_path)
    pipeline.take([(0, offset, f"t{offset:02} END 1") for offset in range(MOST_KEYS + 2)])
    names = tuple(f"feed/t{offset:02}: 0 of 1" for offset in range(MOST_KEYS))
    assert pipeline.lacking() == (MOST_KEYS + 2, names)
    pipeline.take([(0, 22, "open"), (0, 23, "u"), (0, 24, "u END 1")])
    assert pipeline.lacking() == (MOST_KEYS + 2, names)
    pipeline.take([(0, 25, "t21"), (0, 26, "t00")])
    assert pipeline.lacking() == (MOST_KEYS, (*names[1:], "feed/t20: 0 of 1"))


@pytest.mark.slow
def test_all_messages_are_compared_with_the_settings_for_so_many(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[str | None]()

    def noted(expected: DataFrame, found: DataFrame) -> DataFrame:
        seen.append(expected.sparkSession.conf.get("spark.sql.adaptive.enabled"))
        return compare(expected, found)

    monkeypatch.setattr(tuning, "SMALL_ROWS", 9)
    monkeypatch.setattr(reconciliation, "compare", noted)
    pipeline = Pipeline(spark, tmp_path)
    pipeline.take([(0, offset, "") for offset in range(20)])
    assert pipeline.failures() == {}

    # an outcome without its message: the totals do not add up, so a batch of one row compares all of them
    changes = pipeline.lake.read(spark, CHANGES_TABLE).where("offset = 3").withColumn("offset", F.lit(99))
    pipeline.lake.append(changes.withColumn("offset", F.col("offset").cast("bigint")), CHANGES_TABLE)
    seen.clear()
    pipeline.take([(0, 20, "")])
    assert "every_fate_has_its_message" in pipeline.failures()
    assert set(seen) == {"true"}


def test_rows_of_a_table_and_dumps_of_kcat_may_land_twice(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nsources:\n  a: {format: canal, table: ./raw}\n"
        "  b: {format: canal, files: ./b, layout: kcat}\n  c: {format: canal, files: ./c}\n"
    )
    config = load_config(file, formats=SILVER.options())
    assert [may_land_twice(config, name) for name in "abc"] == [True, True, False]
