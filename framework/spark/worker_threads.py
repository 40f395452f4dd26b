"""Work on many tables in a few threads, each with a session of its own."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

from framework.spark.largest_first import largest_first
from framework.spark.session import worker_sessions

THREADS = 4
_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")


def in_threads(
    spark: SparkSession,
    things: Sequence[_Thing],
    work: Callable[[SparkSession, _Thing], _Result],
    threads: int = THREADS,
    size: Callable[[_Thing], int] = lambda _: 0,
) -> list[_Result]:
    """The results of the work on each thing, in their order; the work on the largest begins first."""
    sessions: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()
    for session in worker_sessions(spark, min(threads, len(things))):
        sessions.put(session)

    def one(thing: _Thing) -> _Result:
        session = sessions.get()
        try:
            return work(session, thing)
        finally:
            sessions.put(session)

    return largest_first(one, things, size, threads)
