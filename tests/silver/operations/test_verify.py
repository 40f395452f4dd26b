"""The checks of silver on outcomes that `forget` has emptied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import PENDING_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from silver.batches.landings import before_halves_of
from silver.batches.source_epochs import SourceEpochs
from silver.epochs.history import History
from silver.layer import LAYER
from silver.operations.verify import _outcomes, _pending


def outcome(offset: int, kind: str, half: str | None = None, **more: Any) -> tuple[Any, ...]:
    row = {"source": "feed", "topic": "t", "partition": 0, "offset": offset, "epoch": 1, "ordinal": 0}
    row |= {"kind": kind, "half": half, **more}
    return tuple(row.get(name) for name in CHANGES.names)


@pytest.mark.slow
def test_a_half_that_waits_with_another_reading_than_its_change_is_wrong(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text("pipeline: p\nlakehouse: ./lake\nsources:\n  feed: {format: datahub_blob, files: ./in}\n")
    config = load_config(file, formats=LAYER.options())
    images = ({"id": "1", "code": "cGVu"}, {"id": "1", "code": "pen"}, {"id": "2", "code": None})
    old, new, other = (
        outcome(offset, "half", "before", batch=1, before=image)
        for offset, image in zip((1, 1, 2), images, strict=True)
    )
    run = Run(spark, Lakehouse(config.root), config, "a run")
    changes, known = spark.createDataFrame([new, other], CHANGES), SourceEpochs(config, History())
    found = []
    for waiting in ([old, other], [new], [new, other]):
        rows = spark.createDataFrame(waiting, CHANGES)
        rows.write.format("delta").mode("overwrite").save(run.lake.location(PENDING_TABLE))
        found.append(_pending(run, changes, before_halves_of(changes), known).wrong)
    assert found == [1, 1, 0]


def test_a_forgotten_update_whose_half_had_waited_or_was_released_fails_no_check(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Offset 1 waited and was completed, offset 3 was released and completed; both rows are forgotten.

    Offset 5 has two outcomes, which must be found.
    """
    file = tmp_path / "mainstem.yml"
    file.write_text("pipeline: p\nlakehouse: ./lake\nsources:\n  feed: {format: datahub_blob, files: ./in}\n")
    config = load_config(file, formats=LAYER.options())
    gone: dict[str, Any] = {"kind": "excluded", "reason": FORGOTTEN}
    rows = [
        outcome(1, "half", "after", batch=1),
        outcome(1, **gone, paired_with=("t", 0, 2), batch=2),
        outcome(3, "half", "after", batch=1),
        outcome(3, **gone, half="after", batch=2),
        outcome(3, **gone, paired_with=("t", 0, 4), batch=3),
        outcome(5, **gone, batch=1),
        outcome(5, "row", batch=2),
    ]
    run = Run(spark, Lakehouse(config.root), config, "a run")
    changes, known = spark.createDataFrame(rows, CHANGES), SourceEpochs(config, History())
    assert _pending(run, changes, before_halves_of(changes), known).wrong == 0
    wrong = {check.name: check.wrong for check in _outcomes(run, changes, known)}
    assert wrong["one_fate"] == 1
