"""The schemas that changes name: only those that a small run needs are read."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping

from pyspark.sql import SparkSession

from framework.contracts.table_names import SCHEMAS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.table_reader import Query, Row, portions
from gold.changes.profile import SchemaColumn

_EVERY = Query(SCHEMAS_TABLE, "SELECT `schema_id`, `columns` FROM {rows}")
_WANTED = Query(SCHEMAS_TABLE, "SELECT `schema_id`, `columns` FROM {rows} WHERE `schema_id` IN ({ids})")


class StoredSchemas(Mapping[str, tuple[SchemaColumn, ...]]):
    """The columns of each schema of `silver/schemas`, by its id.

    Schemas with the wanted ids are read at once. All others are read together as soon as one of them is
    asked for; without wanted ids all are read at once.
    """

    def __init__(self, spark: SparkSession, lake: Lakehouse, wanted: Collection[str] | None = None) -> None:
        self._spark, self._lake, self._lock = spark, lake, threading.Lock()
        self._is_complete = wanted is None
        self._found = self._all() if wanted is None else self._some(sorted(wanted))

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
                self._found = self._all()
                self._is_complete = True

    def _all(self) -> dict[str, tuple[SchemaColumn, ...]]:
        return _columns(newest_tables(self._spark, self._lake).rows(_EVERY))

    def _some(self, wanted: list[str]) -> dict[str, tuple[SchemaColumn, ...]]:
        tables = newest_tables(self._spark, self._lake)
        return _columns(row for ids in portions(wanted) for row in tables.rows(_WANTED, ids=ids))


def _columns(rows: Iterable[Row]) -> dict[str, tuple[SchemaColumn, ...]]:
    return {row["schema_id"]: tuple(SchemaColumn(**column) for column in row["columns"]) for row in rows}
