"""Sets a session up for work on whole tables; runs set it up for what is new."""

from __future__ import annotations

from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.newest_tables import newest_tables
from framework.spark.tuning import tune_for_rows


def tune_for_lakehouse(spark: SparkSession, lake: Lakehouse) -> None:
    """Set a session up for all messages and changes; the logs of the tables know how many there are."""
    tables = newest_tables(spark, lake)
    tune_for_rows(spark, max(tables.count(lake.location(name)) for name in (MESSAGES_TABLE, CHANGES_TABLE)))
