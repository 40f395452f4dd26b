"""Delta's MERGE as SQL: it runs on every Spark, also on Spark Connect, which has no DeltaTable."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from framework.lakehouse.lakehouse import sql_name
from framework.lakehouse.log_upkeep import remove_old_checksums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Merged:
    """How many rows of the table a merge has inserted, updated and deleted, as Delta counts them."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge of rows `s` into the table `t` at a location; clauses apply in the order of their calls.

    Conditions and values are Spark SQL; only this project writes them, with identifiers quoted.
    """

    location: str
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

    def execute(self) -> Merged:
        """Commit the merge; raises what Spark raises."""
        spark, view = self.rows.sparkSession, f"mainstem_{uuid.uuid4().hex}"
        self.rows.createOrReplaceTempView(view)
        try:
            done = spark.sql(
                f"MERGE INTO {sql_name(self.location)} AS t USING {view} AS s ON {self.on} "
                f"{' '.join(self.clauses)}"
            )
            merged = _merged(done)
        finally:
            spark.catalog.dropTempView(view)
        remove_old_checksums(self.location)
        return merged

    def _with(self, match: str, when: str | None, action: str) -> Merge:
        clause = f"WHEN {match}{'' if when is None else f' AND ({when})'} THEN {action}"
        return replace(self, clauses=(*self.clauses, clause))


def _merged(done: DataFrame) -> Merged:
    """The counts in the statement's result, whose rows are collected."""
    counts = done.collect()[0]
    return Merged(*(int(counts[f"num_{what}_rows"] or 0) for what in ("inserted", "updated", "deleted")))


def _assignments(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
