from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.process import process_batch
from silver.batches.run_state import BATCH_ID_STEP, RunState
from silver.changes.source_plans import source_plans
from silver.formats import FORMATS
from silver.job import _gone_file, run_silver
from silver.layer import LAYER


def test_a_run_that_finds_nothing_landed_does_not_stand_in_the_way_of_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Bronze makes its table before the first message lands: a source that fails then leaves it empty."""
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    lake = Lakehouse(config.root)
    lake.create(spark, MESSAGES_TABLE, MESSAGES)
    for _ in range(2):
        assert run_silver(spark, lake, config).messages == 0
    state = RunState(lake, config, source_plans(config, FORMATS))
    assert process_batch(spark.createDataFrame([], MESSAGES), BATCH_ID_STEP, state) == 0
    assert lake.exists(spark, CHANGES_TABLE)


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (
            "[FAILED_READ_FILE] reading file file:/lake/part-0.snappy.parquet.",
            "file:/lake/part-0.snappy.parquet",
        ),
        (
            "while calling o4752.parquet.\n: reading file s3://lake/part-0.parquet.",
            "s3://lake/part-0.parquet",
        ),
        ("DELTA_LOG_FILE_NOT_FOUND: /lake/_delta_log/01.json is gone", "/lake/_delta_log/01.json"),
        ("while calling o12.parquet.", "which, the table's log tells"),
    ],
)
def test_an_error_names_the_file_that_is_gone(error: str, named: str) -> None:
    assert _gone_file(error) == named
