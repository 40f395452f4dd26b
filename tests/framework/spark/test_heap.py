"""A heap that has grown is collected, a small one is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.spark import heap
from framework.spark.heap import release_heap
from framework.spark.session import is_connect


def _collections(spark: SparkSession) -> int:
    """How many times the garbage of the whole heap was collected."""
    jvm: Any = spark._jvm
    beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    return sum(int(bean.getCollectionCount()) for bean in beans if "Young" not in bean.getName())


def test_only_a_large_heap_is_collected(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_connect(spark):
        release_heap(spark)
        return
    monkeypatch.setattr(heap, "_MUCH", 2**60)
    before = _collections(spark)
    release_heap(spark)
    assert _collections(spark) <= before + 1  # the JVM may have collected by itself
    monkeypatch.setattr(heap, "_MUCH", 0)
    for _ in range(3):
        release_heap(spark)
    assert _collections(spark) >= before + 3
