"""The schemas that changes name: only those that a small run needs are read."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession

from framework.contracts.table_names import SCHEMAS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.spark.columns import with_one_of
from gold.changes.profile import SchemaColumn


class StoredSchemas(Mapping[str, tuple[SchemaColumn, ...]]):
    """The columns of each schema of `silver/schemas`, by its id.

    Schemas with the wanted ids are read at once. All others are read together as soon as one of them is
    asked for; without wanted ids all are read at once.
    """

    def __init__(self, spark: SparkSession, lake: Lakehouse, wanted: Collection[str] | None = None) -> None:
        self._spark, self._lake, self._lock = spark, lake, threading.Lock()
        rows = lake.read(spark, SCHEMAS_TABLE)
        self._is_complete = wanted is None
        self._found = _columns(rows if wanted is None else with_one_of(rows, "schema_id", wanted))

    def __getitem__(self, schema_id: str) -> tuple[SchemaColumn, ...]:
        if schema_id and schema_id not in self._found:
            self._complete()
        return self._found[schema_id]

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self._found)

    def __len__(self) -> int:
        self._complete()
        return len(self._found)

    def _complete(self) -> None:
        with self._lock:
            if not self._is_complete:
                self._found = _columns(self._lake.read(self._spark, SCHEMAS_TABLE))
                self._is_complete = True


def _columns(rows: DataFrame) -> dict[str, tuple[SchemaColumn, ...]]:
    found = rows.select("schema_id", "columns").collect()
    return {row["schema_id"]: tuple(SchemaColumn(*column) for column in row["columns"]) for row in found}
