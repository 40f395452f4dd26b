"""Workers start beside other work, and what goes wrong with them is told by the tasks that need them."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from framework.spark.python_workers import workers_ahead
from tests.jobs import jobs


def test_workers_have_started_when_the_context_ends(spark: SparkSession) -> None:
    before = jobs(spark)
    with workers_ahead(spark, 2, "bronze.files.message_files"):
        assert "workers ahead" in [thread.name for thread in threading.enumerate()]
    assert "workers ahead" not in [thread.name for thread in threading.enumerate()]
    assert jobs(spark) == before + 1


def test_workers_that_cannot_start_stop_nothing(spark: SparkSession) -> None:
    with workers_ahead(spark, 1, "no_such_module"):
        pass


def test_the_error_of_the_context_goes_on(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), workers_ahead(spark, 1, "json"):
        _ = 1 // 0
