"""What a task knows of its table before it reads any change."""

from __future__ import annotations

import pytest

from framework.config.tables import Deletes, TableSettings
from framework.contracts.ddl_actions import TableName
from gold.planning.table_state import TableState
from gold.planning.task import Task
from gold.schema.lineage import Lineage, Segment

TABLE = TableName("db", None, "t")


@pytest.mark.parametrize(
    ("deletes", "expected"), [(Deletes.HARD, "011.7"), (Deletes.SOFT, "011.7"), (Deletes.IGNORE, None)]
)
def test_a_truncate_counts_unless_deletes_are_ignored(deletes: Deletes, expected: str | None) -> None:
    """The merge, the check of keys and images of former keys must agree on it."""
    lineage = Lineage(TABLE, (Segment(TABLE, "", None),), truncates=(("011.3", "a"), ("011.7", "b")))
    state = TableState("feed", TABLE, "active")
    task = Task("feed", lineage, state, TableSettings(deletes=deletes), top=1, newest=1, rows=1)
    assert task.truncated_at == expected
