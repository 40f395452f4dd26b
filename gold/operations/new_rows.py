"""The rows of a replica that are not judged yet: those of files that came since its last verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from framework.config.quality import ROW_KINDS
from framework.contracts.expectations import CheckTarget, PreviousResults
from framework.lakehouse.local_tables import DataFile, LocalTable, files_since
from framework.lakehouse.parquet_files import read_parquet
from framework.spark.local_frame import local_frame

_KINDS = (*ROW_KINDS, "row_count_change")
"""Kinds of rules that a row breaks or holds for itself, whatever the time is."""
_DELETED = "_cdc_deleted"


@dataclass(frozen=True, slots=True)
class NewRows:
    """The rows to judge, how many they are, and how many rows of the table were judged before."""

    rows: Callable[[SparkSession], DataFrame]
    count: int
    judged: int


def new_rows(target: CheckTarget, stored: LocalTable, previous: PreviousResults) -> NewRows | None:
    """The rows in which alone a rule of the target can fail; None where all rows must be looked at.

    That is so where a rule did not hold the last time, is new, or is about several rows. `stored` is the
    replica. Whoever has written to it: a changed row is in a new file.
    """
    past = previous.results.get(target.id, ())
    held = {result.rule for result in past if result.success and result.suite == target.suite}
    rules = [rule for rule in target.rules if rule.kind != "freshness"]  # which reads no row
    if not all(rule.kind in _KINDS and rule.name in held for rule in rules):
        return None
    version, judged_at = previous.version(target.id), previous.started_at(target.id)
    columns = StructType.fromJson(dict(stored.schema))
    if stored.files is None or version is None or judged_at is None or _DELETED in columns.names:
        return None
    new = files_since(stored, version, judged_at)
    if new is None:
        return None
    count = sum(file.rows for file in new)
    judged = sum(file.rows for file in stored.files) - count
    return NewRows(partial(_read, files=new, columns=columns), count, judged)


def _read(spark: SparkSession, *, files: tuple[DataFile, ...], columns: StructType) -> DataFrame:
    if not files:
        return local_frame(spark, [], columns)
    return read_parquet(spark, columns, *(str(file.path) for file in files))
