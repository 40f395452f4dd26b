"""`metrics` and `dbt-sources` describe a pipeline as its tables have it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from framework.cli import main
from framework.demo import feeds


@pytest.mark.slow
@pytest.mark.end_to_end
def test_metrics_and_sources_of_a_pipeline(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sample = feeds.sample("oms_canal")
    assert sample is not None
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/feed.jsonl").write_text(sample + "no message\n", encoding="utf-8")
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: pay\nlakehouse: ./lake\nsources: {feed: {format: oms_canal, files: ./landing}}\n"
        "quality: {enabled: false, sources: {feed: 2 hours}}\n",
        encoding="utf-8",
    )
    assert main(["run"]) == 0
    capsys.readouterr()

    assert main(["metrics", "--file", "pay.prom"]) == 0
    assert capsys.readouterr().out == ""
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(Path("pay.prom").read_text(encoding="utf-8"))
        for sample in family.samples
    }
    assert found["mainstem_messages", "pay"] == 9
    assert found["mainstem_outcomes", "pay", "feed", "change"] == 8
    assert found["mainstem_quarantined_messages", "pay", "feed", "not_json"] == 1
    assert found["mainstem_messages_without_outcome", "pay"] == 0
    assert found["mainstem_table_parked", "pay", "feed", "billing.payment"] == 0
    assert found["mainstem_table_changes_applied", "pay", "feed", "billing.payment"] == 8
    assert found["mainstem_source_newest_event_age_seconds", "pay", "feed"] > 0
    assert all(found["mainstem_last_run_step_seconds", "pay", step] > 0 for step in ("bronze", "gold"))
    assert main(["metrics"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == Path("pay.prom").read_text("utf-8").splitlines()[0]

    assert main(["dbt-sources"]) == 0
    (source,) = yaml.safe_load(capsys.readouterr().out)["sources"]
    (table,) = source["tables"]
    assert (table["name"], table["identifier"]) == (
        "billing__payment",
        str(tmp_path / "lake/gold/billing/payment"),
    )
    assert table["freshness"] == {"error_after": {"count": 2, "period": "hour"}}
    assert main(["dbt-sources", "--error-after", "soon"]) == 2
    assert "--error-after" in capsys.readouterr().err
