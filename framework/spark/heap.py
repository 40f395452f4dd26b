"""Gives memory of a local session's JVM back to the machine, where Python needs it next."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from framework.spark.session import is_connect

_MUCH = 1280 * 1024**2


def release_heap(session: SparkSession) -> None:
    """Collects the garbage of a local session's JVM whose heap has more than `_MUCH` bytes.

    Java keeps memory that it needed once, unless its whole heap is collected: some tenths of a second. The
    heap of a small run never comes to so much.
    """
    if is_connect(session) or not str(session.conf.get("spark.master", "")).startswith("local"):
        return
    jvm: Any = session._jvm
    if jvm.java.lang.Runtime.getRuntime().totalMemory() > _MUCH:
        jvm.java.lang.System.gc()
