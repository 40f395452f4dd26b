"""A backlog that is taken up again comes in batches of a bounded size,
and may die between any two of them.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config, load_config
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.process import process_batch
from silver.batches.run_state import BATCH_ID_STEP
from silver.job import replay_silver, run_silver
from silver.layer import LAYER
from silver.stream import chunks, resume
from tests.end_to_end.test_blob_to_replica import item, message

LANDED = datetime(2024, 3, 1, tzinfo=UTC)


def configured(folder: Path, source: str) -> Config:
    text = (
        f"pipeline: p\nlakehouse: ./lakehouse\nsources:\n  {source}: {{format: datahub_blob, files: "
        f"./{source}}}\n"
    )
    (folder / "mainstem.yml").write_text(text)
    return load_config(folder / "mainstem.yml", formats=LAYER.options())


@pytest.mark.slow
def test_a_backlog_is_taken_up_in_portions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half whose partner is in the last portion waits for it,
    though the times of all portions before are past its own.
    """
    messages = [message("UPDATE_BEFOR", 1, before=item(0, "ink", 1.0))]
    messages += [message("INSERT", 10_000 * n, after=item(n, "pen", 1.0)) for n in range(1, 40)]
    messages += [message("UPDATE_AFTER", 1, after=item(0, "ink", 2.0))]
    texts = [*(json.dumps(one).encode() for one in messages), *(b"{broken" for _ in range(20))]
    bronze = [("feed", "t", 0, n, None, None, text, None, None, None, LANDED) for n, text in enumerate(texts)]
    lake = Lakehouse(configured(tmp_path, "other").root)
    lake.append(spark.createDataFrame(bronze, MESSAGES), MESSAGES_TABLE)
    assert run_silver(spark, lake, configured(tmp_path, "other")).left_out == ("feed",)
    monkeypatch.setattr(chunks, "PORTION_BYTES", sum(map(len, texts)) // 3)
    done, normalize = [], process_batch

    def dies_before_the_third(*arguments: object, **options: object) -> int:
        done.append(arguments)
        if len(done) == 3:
            raise KeyboardInterrupt
        return normalize(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(resume, "process_batch", dies_before_the_third)
    with pytest.raises(KeyboardInterrupt):
        run_silver(spark, lake, configured(tmp_path, "feed"))
    run_silver(spark, lake, configured(tmp_path, "feed"))
    changes = lake.read(spark, CHANGES_TABLE)
    kinds = {row["kind"]: row["count"] for row in changes.groupBy("kind").count().collect()}
    assert kinds == {"half": 1, "row": 40, "quarantined": 20}
    batches = sorted({row["batch"] for row in changes.select("batch").distinct().collect()})
    assert len(batches) >= 3
    assert all(batch % BATCH_ID_STEP for batch in batches)
    assert changes.agg(F.count_distinct("offset")).collect()[0][0] == len(texts)
    assert spark.read.table(f"delta.`{lake.location(PENDING_TABLE)}`").isEmpty()
    taken = len(done)
    monkeypatch.setattr(chunks, "PORTION_BYTES", 2_500)
    result = replay_silver(spark, lake, configured(tmp_path, "feed"))
    assert len(done) - taken > 1
    assert (result.remaining or "").startswith("20 rows still in quarantine: ")
    assert lake.read(spark, QUARANTINE_TABLE).where("NOT is_resolved").count() == 20
