"""Parked tables that would be refused again: nothing on which the refusal depends has changed since.

The changes that such a table has not applied become more and more, and each run would read them all.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version

from pyspark.sql import SparkSession

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.older_copies import is_put_back
from gold.planning.rebuild import marked_places
from gold.planning.table_state import State
from gold.planning.task import Task, folder_of

_LASTING = frozenset(
    {
        "BAD_VALUE",
        "COLUMNS_DIFFER_BY_CASE",
        "GATE_FAILED",
        "KEY_COLUMN_MISSING",
        "KEY_TYPES_DIFFER",
        "KEY_VALUES_UNKNOWN",
        "SCHEMA_CHANGE_REFUSED",
        "TRACKED_COLUMN_MISSING",
    }
)
"""Refusals that depend on the changes, the statements and the settings of the table alone."""


def circumstances(task: Task, error: Exception) -> str | None:
    """A digest of all on which the refusal of a table depends; None for an error that may go by itself.

    A release may refuse less than the one before.
    """
    is_lasting = isinstance(error, MainstemError) and error.condition in _LASTING
    return _digest(task) if is_lasting and not task.is_rebuild else None


def _digest(task: Task) -> str:
    silver = (task.newest, task.rows, task.missed, task.repair, task.lineage, task.truncate_times)
    parts = (version("mainstem"), task.settings, task.gates, silver)
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def is_refused_again(spark: SparkSession, lake: Lakehouse, task: Task) -> bool:
    """Whether a parked table would be refused for the same reason, without a look at its changes."""
    refused_at = task.state.refused_at
    is_same = may_stay_parked(task) and refused_at is not None and refused_at == _digest(task)
    return is_same and _is_there(spark, lake, task)


def may_stay_parked(task: Task) -> bool:
    """Whether a table is parked, and nothing but a new try of its changes could end that."""
    is_asked = task.is_rebuild or task.rival is not None or task.lineage.renamed_to is not None
    return task.state.state is State.PARKED and not is_asked


def _is_there(spark: SparkSession, lake: Lakehouse, task: Task) -> bool:
    """Whether what the table has stored is there as gold left it: else it is to be rebuilt."""
    state = task.state
    if state.replica is not None and not lake.exists(spark, "gold/" + folder_of(task)):
        return False
    if state.history is not None and not lake.exists(spark, "gold/" + folder_of(task, is_history=True)):
        return False
    return not any(is_put_back(spark, lake.location(name), mark) for name, mark in marked_places(task))
