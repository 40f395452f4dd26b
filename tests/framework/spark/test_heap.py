"""A heap that has grown is collected; a small one, and one that is in use, are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.spark import heap
from framework.spark.heap import release_heap
from framework.spark.session import is_connect

_WHOLE = ("MarkSweepCompact", "G1 Old Generation", "PS MarkSweep")


def _whole_collections(spark: SparkSession) -> int:
    """How many times the garbage of the whole heap was collected."""
    jvm: Any = spark._jvm
    beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    return sum(int(bean.getCollectionCount()) for bean in beans if bean.getName() in _WHOLE)


def test_only_a_heap_that_has_grown_is_collected(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap, "_left", 0)
    if is_connect(spark):
        release_heap(spark)
        assert heap._left == 0
        return
    monkeypatch.setattr(heap, "_MUCH", 2**60)
    release_heap(spark)
    assert heap._left == 0

    monkeypatch.setattr(heap, "_MUCH", 0)
    before = _whole_collections(spark)
    release_heap(spark)
    assert _whole_collections(spark) > before
    left = heap._left
    assert left > 0
    release_heap(spark)
    assert heap._left == left, "it has not doubled since"

    monkeypatch.setattr(heap, "_left", left // 3)
    release_heap(spark)
    assert heap._left > left // 3
