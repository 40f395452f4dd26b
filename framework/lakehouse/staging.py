"""The files that commands put aside while they work: a killed command leaves them, and they hold rows."""

from __future__ import annotations

import shutil

from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse


def clear_staging(spark: SparkSession, lake: Lakehouse) -> None:
    """Remove all staging files; only for a command that holds the lease, because others work with them.

    Elsewhere than on this machine Spark replaces the folder by an empty table: it has no other way to delete.
    """
    place = f"{lake.checkpoints}/staging"
    if lake.local_root is not None:
        shutil.rmtree(place, ignore_errors=True)
    else:
        spark.range(0).write.mode("overwrite").parquet(place)
