"""Which runs write a row of the run history."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.table_names import RUNS_TABLE
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import LayerReport, Run
from framework.pipeline.run_history import append_run, ended_with_errors
from silver.layer import LAYER


def test_the_first_run_without_errors_is_written_although_it_found_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A run for one table, or up to a layer, says nothing of the others."""
    lake = Lakehouse(str(tmp_path / "lake"))
    file = tmp_path / "mainstem.yml"
    file.write_text("pipeline: shop\nlakehouse: ./lake\nsources: {a: {format: canal, files: ./in}}\n")
    config = load_config(file, formats=LAYER.options())
    nothing = [LayerReport(name, {"messages": 0}) for name in ("bronze", "silver", "gold")]
    error = MainstemError("SOURCE_FAILED", found="a", where="b", action="c")

    def runs() -> list[str]:
        if not lake.exists(spark, RUNS_TABLE):
            return []
        return [row["run_id"] for row in lake.read(spark, RUNS_TABLE).orderBy("finished_at").collect()]

    def append(name: str, reports: list[LayerReport], table: str | None = None) -> None:
        append_run(Run(spark, lake, config, name, table), reports, 1.0)

    append("idle", nothing)
    assert runs() == []
    append("failed", [LayerReport("bronze", errors=(error,)), *nothing[1:]])
    append("one table", nothing, "shop.item")
    append("one layer", nothing[:1])
    append("messages", [LayerReport("bronze", {"messages": 1})])
    assert ended_with_errors(lake)
    append("well", nothing)
    assert not ended_with_errors(lake)
    append("idle", nothing)
    assert runs() == ["failed", "messages", "well"]
