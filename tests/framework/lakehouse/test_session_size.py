from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse import session_size
from framework.pipeline.layer import Run, installed_layers
from framework.pipeline.session import open_pipeline
from framework.pipeline.status import run_checks
from tests.benchmarks import feeds
from tests.end_to_end.random_wires import blob


@pytest.mark.slow
def test_work_on_whole_tables_gets_the_settings_for_their_size(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = feeds.config(tmp_path / "pipeline", ["datahub_blob"])
    file = tmp_path / "pipeline" / "landing" / "datahub_blob" / "all.jsonl"
    file.write_text("\n".join([*(line for change in feeds.changes(30, 0) for line in blob(change)), "{"]))
    os.utime(file, (time.time() - 60,) * 2)
    with open_pipeline(config, is_exclusive=True) as (lake, session):
        run = Run(session, lake, config, "run")
        bronze, silver, gold, _ = installed_layers()
        for layer in (bronze, silver, gold):
            assert not layer.run(run).errors
        assert silver.redecode is not None
        assert silver.replay is not None

        def check() -> None:
            assert all(check.is_ok for check in run_checks(run))

        for work in (partial(silver.redecode, run, "shop.item"), partial(silver.replay, run, False), check):
            seen = set[int]()
            monkeypatch.setattr(session_size, "tune_for_rows", lambda _, rows, seen=seen: seen.add(rows))
            work()
            assert seen == {61}
