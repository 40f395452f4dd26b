"""How many jobs Spark has run."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.spark.session import is_connect


def jobs(spark: SparkSession) -> int:
    """The number of jobs since the session began. A test that asks on Spark Connect is skipped."""
    if is_connect(spark):
        pytest.skip("Spark Connect does not tell how many jobs its server has run")
    context: Any = spark.sparkContext
    return int(context._jsc.sc().dagScheduler().numTotalJobs())
