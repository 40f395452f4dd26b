"""Few messages that the layers take for many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from gold.writing import change_cache
from silver.batches import decoding, process

_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def take_for_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks decode each batch and write its files, and gold reads its changes table by table."""
    monkeypatch.setattr(decoding, "FEW_MESSAGES", 0)
    monkeypatch.setattr(process, "SMALL_ROWS", 0)
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", -1)


@contextmanager
def arrow_batches_of(spark: SparkSession, rows: int) -> Iterator[None]:
    """A context in which an Arrow batch of a task has at most so many rows, whoever reads them."""
    usual = spark.conf.get(_ARROW_ROWS) or "5000"
    spark.conf.set(_ARROW_ROWS, str(rows))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoding, "_AT_ONCE", rows)
            yield
    finally:
        spark.conf.set(_ARROW_ROWS, usual)
