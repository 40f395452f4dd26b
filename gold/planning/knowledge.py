"""What gold knows at the end of its run, for the quality step of the same run, which reads it no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from framework.contracts.ddl_actions import TableName
from framework.pipeline.layer import Run
from gold.planning.table_state import TableState
from gold.planning.task import Task

States = Mapping[tuple[str, TableName], TableState]
"""The newest state of each table, by its source and name."""
_MEMO = "gold"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What gold knows.

    Attributes:
        states: The newest states.
        tasks: Every table of the configured sources that silver knows, as it was before the run.
        places: The source and name of the tables whose changes are in `changes`.
        changes: All changes of these tables (rows of `silver/changes`); None where they are too many.
    """

    states: States
    tasks: Sequence[Task]
    places: frozenset[tuple[str, TableName]] = frozenset()
    changes: pa.Table | None = None


def remember(run: Run, knowledge: Knowledge) -> None:
    """Leaves gold's knowledge for the later steps of the run."""
    run.memo[_MEMO] = knowledge


def remembered(run: Run) -> Knowledge | None:
    """What gold left in this run; None where gold has not run in it."""
    found = run.memo.get(_MEMO)
    return found if isinstance(found, Knowledge) else None
