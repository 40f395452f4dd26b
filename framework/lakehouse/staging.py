"""The files that commands put aside while they work: a killed command leaves them, and they hold rows."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.task_files import is_shared


def staging_folder(lake: Lakehouse, name: str) -> str:
    """The folder for the files of one kind of work."""
    return f"{_all(lake)}/{name}"


def discard_staging(lake: Lakehouse, name: str) -> None:
    """Remove the files of finished work. Elsewhere than on this machine, the next such work replaces them."""
    if lake.local_root is not None:
        shutil.rmtree(staging_folder(lake, name), ignore_errors=True)


@contextmanager
def materialize(rows: DataFrame, lake: Lakehouse, name: str) -> Iterator[DataFrame]:
    """Rows in staging files, because they take joins of whole tables and are read more than once."""
    place = staging_folder(lake, name)
    rows.write.mode("overwrite").parquet(place)
    try:
        yield read_parquet(rows.sparkSession, rows.schema, place)
    finally:
        discard_staging(lake, name)


@contextmanager
def scratch_folder(spark: SparkSession, lake: Lakehouse, purpose: str) -> Iterator[str]:
    """An empty folder where Spark's tasks can write, too, for a command that changes no table.

    It is a temporary folder of this machine where the tasks run here, and else one among the staging files.
    """
    if is_shared(spark, tempfile.gettempdir()):
        with tempfile.TemporaryDirectory(prefix=f"mainstem-{purpose}-") as folder:
            yield folder
        return
    name = f"{purpose}-{uuid.uuid4().hex}"
    try:
        yield staging_folder(lake, name)
    finally:
        if lake.local_root is None:
            _empty(spark, staging_folder(lake, name))
        discard_staging(lake, name)


def clear_staging(spark: SparkSession, lake: Lakehouse) -> None:
    """Remove all staging files; only for a command that holds the lease, because others work with them."""
    if lake.local_root is not None:
        shutil.rmtree(_all(lake), ignore_errors=True)
    else:
        _empty(spark, _all(lake))


def _empty(spark: SparkSession, folder: str) -> None:
    """Replace a folder by an empty table: elsewhere than on this machine Spark has no other way to delete."""
    spark.range(0).write.mode("overwrite").parquet(folder)


def _all(lake: Lakehouse) -> str:
    return lake.staging or f"{lake.checkpoints}/staging"
