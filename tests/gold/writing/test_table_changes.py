"""Between which positions the new changes of a table are, its truncates among them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import TableName
from gold.changes.profile import Profile
from gold.planning.plan import Plan
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.schema.lineage import Lineage
from gold.writing.table_changes import new_positions

TABLE = TableName("db", None, "t")


@pytest.mark.parametrize(
    ("changes", "truncates", "expected"),
    [
        (("3", "5"), {}, ("3", "5")),
        (("3", "5"), {"1": 7}, ("3", "5")),
        (("3", "5"), {"1": 8}, ("1", "5")),
        (("3", "5"), {"4": 8, "6": 9}, ("3", "6")),
        (None, {"2": 9}, ("2", "2")),
        (None, {"2": 7}, None),
    ],
    ids=["changes", "an applied truncate", "a late one", "two", "a truncate alone", "nothing"],
)
def test_positions_of_new_changes_are_between_these(
    changes: tuple[str, str] | None, truncates: Mapping[str, int], expected: tuple[str, str] | None
) -> None:
    low, high = changes or (None, None)
    lineage = Lineage(TABLE, (), truncates=tuple((at, f"t{at}") for at in truncates))
    times = {at: (None, batch) for at, batch in truncates.items()}
    state = TableState("feed", TABLE, State.APPEND_ONLY, batch=7)
    task = Task("feed", lineage, state, TableSettings(), 9, 9, 9, times)
    layout, batch = Layout((), (), SYSTEM_COLUMNS), Profile(min_sequence=low, max_sequence=high)
    plan = Plan(task, layout, layout, batch, batch, (), None, "", {}, 0)
    assert new_positions(plan) == expected
