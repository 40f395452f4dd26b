"""The size of plans: what can be many must not make a plan long. No job runs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.spark.session import is_connect

MANY = (10, 100, 1_000)
_FIELDS = "spark.sql.debug.maxToStringFields"


@contextmanager
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Plans are printed whole meanwhile; by default Spark leaves out what is long."""
    if is_connect(spark):
        pytest.skip("Spark Connect does not show the analyzed plan alone")
    spark.conf.set(_FIELDS, "1000000")
    try:
        yield
    finally:
        spark.conf.unset(_FIELDS)


def plan_text(frame: DataFrame) -> str:
    """The analyzed plan, whole."""
    with whole_plans(frame.sparkSession):
        return str(cast(Any, frame)._jdf.queryExecution().analyzed().toString())


def sizes(planned: Callable[[int], DataFrame], many: tuple[int, ...] = MANY) -> list[int]:
    """The sizes of the plan for 10, 100 and 1,000 of a thing."""
    return [len(plan_text(planned(count))) for count in many]


def is_constant(found: list[int]) -> bool:
    """Whether the size stays as it is: longer numbers may make it a little longer."""
    return max(found) < min(found) * 1.05 + 200
