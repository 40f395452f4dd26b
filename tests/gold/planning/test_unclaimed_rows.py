"""Rows that have the name of a table from before a rename gave it that name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import TableName
from framework.lakehouse.table_reader import Query, Row, TableReader, Value
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.planning.unclaimed_rows import with_unclaimed
from gold.schema.lineage import START, Lineage, Segment

OLD, NEW = TableName("db", None, "old"), TableName("db", None, "new")
RENAMED = (Segment(OLD, START, "5"), Segment(NEW, "5", None))
OF_NO_TABLE = (Segment(NEW, START, "5"),)


class Log:
    """`ops/batches` as a reader gives it."""

    def __init__(self, *rows: Mapping[str, Any]) -> None:
        self._rows = rows

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        return [row for row in self._rows if row["batch"] > values["since"]]


def counted(batch: int, sequence: str, source: str = "feed") -> dict[str, Any]:
    place = {"source": source, "database": "db", "schema": None, "table": "new"}
    return {**place, "batch": batch, "sequence": sequence}


def renamed(statement_batch: int) -> Task:
    """A table that has applied batch 3, and was renamed at 5."""
    state = TableState("feed", NEW, State.ACTIVE, batch=3)
    stated = {"5": statement_batch}
    lineage = Lineage(NEW, RENAMED, unclaimed=OF_NO_TABLE)
    return Task("feed", lineage, state, TableSettings(), 9, 9, 1, statement_batches=stated)


@pytest.mark.parametrize(
    ("row", "statement_batch", "found"),
    [
        (counted(4, "0"), 2, ("db.new",)),
        (counted(4, "5"), 2, ()),
        (counted(3, "0"), 2, ()),
        (counted(3, "0"), 4, ("db.new",)),
        (counted(4, "0", "other"), 2, ()),
    ],
    ids=["older row", "row at the rename", "told before", "the rename is new", "another source"],
)
def test_rows_under_a_name_from_before_the_rename_are_told(
    row: Mapping[str, Any], statement_batch: int, found: tuple[str, ...]
) -> None:
    (task,) = with_unclaimed(cast("TableReader", Log(row)), [renamed(statement_batch)])
    assert task.unclaimed == found
