"""Delta's MERGE as text: it runs on every Spark, Spark Connect included, which has no DeltaTable of its own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from framework.tables import sql_name


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows `s` merged into the table `t` at a place; clauses are tried in the order in which they were added.

    Conditions and values are Spark SQL; they are written by us alone, with identifiers quoted.
    """

    place: str
    rows: DataFrame
    on: str
    clauses: tuple[str, ...] = ()

    def update(self, values: Mapping[str, str], when: str | None = None) -> Merge:
        """Update matched rows."""
        return self._with("MATCHED", when, f"UPDATE SET {_assignments(values)}")

    def delete(self, when: str | None = None) -> Merge:
        """Delete matched rows."""
        return self._with("MATCHED", when, "DELETE")

    def insert(self, values: Mapping[str, str], when: str | None = None) -> Merge:
        """Insert rows that match none."""
        columns, cells = ", ".join(values), ", ".join(values.values())
        return self._with("NOT MATCHED", when, f"INSERT ({columns}) VALUES ({cells})")  # noqa: S608 - names come quoted

    def insert_all(self) -> Merge:
        """Insert rows that match none, column by column of the same name."""
        return self._with("NOT MATCHED", None, "INSERT *")

    def update_unmatched(self, values: Mapping[str, str], when: str) -> Merge:
        """Update rows of the table that no given row matches."""
        return self._with("NOT MATCHED BY SOURCE", when, f"UPDATE SET {_assignments(values)}")

    def delete_unmatched(self, when: str) -> Merge:
        """Delete rows of the table that no given row matches."""
        return self._with("NOT MATCHED BY SOURCE", when, "DELETE")

    def execute(self) -> None:
        """Commit the merge; raises what Spark raises."""
        spark, view = self.rows.sparkSession, f"mainstem_{uuid.uuid4().hex}"
        self.rows.createOrReplaceTempView(view)
        try:
            spark.sql(f"MERGE INTO {sql_name(self.place)} AS t USING {view} AS s ON {self.on} {' '.join(self.clauses)}")
        finally:
            spark.catalog.dropTempView(view)

    def _with(self, match: str, when: str | None, action: str) -> Merge:
        clause = f"WHEN {match}{'' if when is None else f' AND ({when})'} THEN {action}"
        return replace(self, clauses=(*self.clauses, clause))


def _assignments(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
