"""Which runs write a row of the run history."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.contracts.table_names import RUNS_TABLE
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import LayerReport
from framework.pipeline.run_history import append_run, ended_with_errors


def test_the_first_run_without_errors_is_written_although_it_found_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lakehouse(str(tmp_path / "lake"))
    nothing = LayerReport("bronze", {"messages": 0})
    error = MainstemError("SOURCE_FAILED", found="a", where="b", action="c")

    def runs() -> list[str]:
        if not lake.exists(spark, RUNS_TABLE):
            return []
        return [row["run_id"] for row in lake.read(spark, RUNS_TABLE).orderBy("finished_at").collect()]

    append_run(spark, lake, "idle", [nothing], 1.0)
    assert runs() == []
    append_run(spark, lake, "failed", [LayerReport("bronze", errors=(error,))], 1.0)
    assert ended_with_errors(lake)
    append_run(spark, lake, "well", [nothing], 1.0)
    assert not ended_with_errors(lake)
    append_run(spark, lake, "idle", [nothing], 1.0)
    assert runs() == ["failed", "well"]
