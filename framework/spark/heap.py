"""Gives memory of a local session's JVM back to the machine, where Python needs it next."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from framework.spark.session import is_connect
from framework.spark.tuning import is_of_mainstem

_MUCH = 1280 * 1024**2

_left = 0
"""The bytes of heap that the last collection left to this process's JVM."""


def release_heap(session: SparkSession) -> None:
    """Collects the garbage of the JVM that Mainstem has started, if its heap has more than `_MUCH` bytes.

    Java keeps memory that it needed once, unless its whole heap is collected: some tenths of a second. The
    heap of a small run never comes to so much. One that stays large after a collection is in use: it is
    collected again when it has doubled.
    """
    global _left
    jvm: Any = getattr(session, "_jvm", None)
    if jvm is None or is_connect(session) or not is_of_mainstem(session):
        return
    runtime = jvm.java.lang.Runtime.getRuntime()
    if runtime.totalMemory() > max(_MUCH, 2 * _left):
        jvm.java.lang.System.gc()
        _left = runtime.totalMemory()
