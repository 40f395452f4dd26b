"""What a real run tells those that observe it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.demo import feeds
from framework.spark.session import is_connect
from tests.framework.observability.receivers import receiver
from tests.framework.observability.test_traces import attributes_of, spans_of


@pytest.mark.slow
@pytest.mark.end_to_end
def test_a_run_tells_those_that_observe_it_what_it_did(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sample = feeds.sample("oms_canal")
    assert sample is not None
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/feed.jsonl").write_text(sample, encoding="utf-8")
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: pay\nlakehouse: ./lake\nsources: {feed: {format: oms_canal, files: ./landing}}\n"
    )
    with receiver() as collector, receiver() as lineage:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        # with OPENLINEAGE_URL the library would write into the environment
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", lineage.address)
        assert main(["run"]) == 0
    assert "note:" not in capsys.readouterr().err

    spans = spans_of(collector)
    names = {span.span_id: name for name, span in spans.items()}
    batches = {} if is_connect(spark) else {"decode batch": "silver"}  # it decodes in another process
    assert {name: names.get(span.parent_span_id) for name, span in spans.items()} == {
        "run pay": None,
        "bronze": "run pay",
        "land feed": "bronze",
        "silver": "run pay",
        **batches,
        "gold": "run pay",
        "apply billing.payment": "gold",
        "quality": "run pay",
    }
    run, table = attributes_of(spans["run pay"]), attributes_of(spans["apply billing.payment"])
    assert (run["mainstem.exit_code"], run["mainstem.changes"]) == (0, 8)
    assert (table["mainstem.applied"], table["db.collection.name"]) == (8, "payment")

    start, complete = (json.loads(body) for _, body in lineage.requests)
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert [each["name"] for each in complete["inputs"]] == [str(tmp_path / "landing")]
    (replica,) = complete["outputs"]
    assert replica["name"] == str(tmp_path / "lake/gold/billing/payment")
    rows = spark.read.format("delta").load(replica["name"])
    columns = [field["name"] for field in replica["facets"]["schema"]["fields"]]
    assert columns == [name for name in rows.columns if not name.startswith("_cdc")]
    assert replica["outputFacets"]["outputStatistics"]["rowCount"] == 8 - table["mainstem.delete"]
