"""Tables that tell what runs did: of one that is gone a run says so, once, and `status --verify` names it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.pipeline.lost_logs import describe_losses, note_histories, verify

NO_SESSION: Any = cast(Any, None)
"""On a local file system nothing here needs Spark, nor the configuration."""


def test_a_history_that_is_gone_is_reported_once(tmp_path: Path) -> None:
    run = Run(NO_SESSION, Lakehouse(str(tmp_path)), cast(Any, None), "histories")
    assert (describe_losses(run), verify(run).wrong) == ((), 0)
    for name in ("ops/runs", "ops/quality_results"):
        log = tmp_path / name / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").touch()
    note_histories(run)
    assert (describe_losses(run), verify(run).wrong) == ((), 0)

    shutil.rmtree(tmp_path / "ops" / "runs")

    assert [note.partition(":")[0] for note in describe_losses(run)] == ["ops/runs was gone, and begins anew"]
    assert (verify(run).wrong, verify(run).where) == (1, "ops/runs")
    note_histories(run)
    assert (describe_losses(run), verify(run).wrong) == ((), 0)
