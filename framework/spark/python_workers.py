"""Starts the Python workers of Spark's tasks before there are tasks for them.

A worker takes most of a second to start and to import what its task needs. Where the driver works alone
at the same time, as in the first plan of a new JVM, that second costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from framework.spark.beside import beside

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def workers_ahead(spark: SparkSession, count: int, module: str) -> AbstractContextManager[None]:
    """Starts so many workers beside the block, and imports a module there.

    The block does not wait for them. If they cannot start, the tasks that need them will say why.
    """
    return beside(partial(_start, spark, count, module), "workers ahead")


def _start(spark: SparkSession, count: int, module: str) -> None:
    def load(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import_module(module)
        yield from rows

    with suppress(Exception):
        spark.range(0, count, 1, count).mapInArrow(load, "id bigint").collect()
