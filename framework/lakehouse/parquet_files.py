"""Reading Parquet files by their exact names."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from framework.lakehouse.small_files import without_glob
from framework.spark.required_settings import EVERY_FILE


def read_parquet(spark: SparkSession, schema: StructType | str, *paths: str) -> DataFrame:
    """The rows of Parquet files, or of folders of them; a name such as `a[1]` is no pattern."""
    return spark.read.schema(schema).options(**EVERY_FILE).parquet(*map(without_glob, paths))
