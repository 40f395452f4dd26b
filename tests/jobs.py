"""How many jobs Spark has run."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def jobs(spark: SparkSession) -> int:
    """The number of jobs since the session began; not on Spark Connect, where the server counts them."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().dagScheduler().numTotalJobs())
