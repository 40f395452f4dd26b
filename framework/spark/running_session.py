"""The Spark session that this process has, whichever of its threads asks."""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote


def running_session() -> SparkSession | None:
    """The session of this process; a new one where it has a Spark context and no session. None without both.

    Spark's own `getActiveSession` answers only in the thread that has started the session.
    """
    try:
        session = SparkSession.active()
    except PySparkException:
        session = None
    contexts: Any = getattr(pyspark, "SparkContext", None)  # a client of Spark Connect may have none
    running = None if contexts is None else contexts._active_spark_context
    if session is not None and getattr(session, "_sc", None) in (None, running):
        return session  # one of another context was stopped with it, and has not learnt of that
    return None if running is None or is_remote() else SparkSession.builder.getOrCreate()
