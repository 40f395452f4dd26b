"""What people are told of a table that was brought up to date."""

from __future__ import annotations

import pytest

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import AddColumn, RenameColumn, TableName
from gold.changes.profile import Profile
from gold.planning.plan import Plan
from gold.planning.rebuild import Rebuild, RebuildReason
from gold.planning.table_state import Collisions, State, TableState
from gold.planning.task import Task
from gold.schema.columns import ColumnNaming
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.schema.lineage import ColumnAction, Lineage, Segment
from gold.writing.bad_values import Faults
from gold.writing.notes import notes_of

TABLE = TableName("db", None, "t")
COMPUTED = AddColumn("made", "timestamp", "timestamp", has_expression_default=True)
CONSTANT = AddColumn("kind", "string", "text", default="x")
NULL_IN_OLDER_ROWS = "computed by the source, null in rows from before they were added: made"


def notes(
    *changes: tuple[str, ColumnAction],
    batch: int = 1,
    rebuild: Rebuild | None = None,
    unclaimed: tuple[str, ...] = (),
    left_out: tuple[str, ...] = (),
) -> list[str]:
    """The notes on a table with rows from 2 on, at batch 1 so far, whose statements are of `batch`."""
    task = Task(
        "feed",
        Lineage(TABLE, (Segment(TABLE, "", None),), changes),
        TableState("feed", TABLE, State.ACTIVE, batch=1),
        TableSettings(),
        2,
        2,
        1,
        statement_batches={at: batch for at, _ in changes},
        unclaimed=unclaimed,
    )
    layout = Layout((), ("id",), dict(SYSTEM_COLUMNS))
    namings = tuple(ColumnNaming() for _ in range(len(changes) + 1))
    profile = Profile(rows=1, min_sequence="2")
    plan = Plan(task, layout, layout, profile, profile, namings, rebuild, "", {}, 0, left_out=left_out)
    return list(notes_of(plan, Faults(), Collisions(), begins_marks=False))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("3", COMPUTED)], [NULL_IN_OLDER_ROWS]),
        ([("3", CONSTANT), ("4", RenameColumn("a", "b"))], []),
        ([("1", COMPUTED)], []),
        ([("1", COMPUTED), ("3", COMPUTED)], []),
    ],
    ids=["computed", "constant", "no older rows", "it was there already"],
)
def test_a_computed_default_that_older_rows_lack_is_told(
    changes: list[tuple[str, ColumnAction]], expected: list[str]
) -> None:
    assert notes(*changes, batch=2) == expected


def test_a_computed_default_is_told_once_and_after_each_rebuild() -> None:
    requested = Rebuild(RebuildReason.REQUESTED)
    assert notes(("3", COMPUTED)) == []
    assert notes(("3", COMPUTED), rebuild=requested) == ["rebuilt: asked for", NULL_IN_OLDER_ROWS]


def test_rows_that_belong_to_no_table_are_told_with_what_to_do() -> None:
    (note,) = notes(unclaimed=("db.t",))
    assert "rows of db.t" in note
    assert "raise `epoch` of source feed" in note


def test_columns_that_the_policy_ignore_leaves_out_are_counted() -> None:
    (note,) = notes(left_out=tuple("abcdefg"))
    assert note == "schema_policy: ignore leaves 7 columns out of the replica: a, b, c, d, e and 2 more"
