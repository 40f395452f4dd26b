"""The Spark session that this process has, whichever of its threads asks."""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def running_session() -> SparkSession | None:
    """The session of this process; a new one where it has a Spark context and no session. None without both.

    Spark's own `getActiveSession` answers only in the thread that has started the session.
    """
    try:
        session = SparkSession.active()
    except PySparkException:
        session = None
    if session is not None and not _is_stopped(session):
        return session
    context: Any = getattr(pyspark, "SparkContext", None)  # a client of Spark Connect may have none
    if context is None or context._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()


def _is_stopped(session: SparkSession) -> bool:
    """Whether its Spark context was stopped, by which the session does not learn of it."""
    context = getattr(session, "_sc", None)
    return context is not None and context._jsc is None
