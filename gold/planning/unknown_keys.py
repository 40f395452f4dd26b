"""Key columns that rows from before their addition have no value in: the source gave them one by itself.

An AUTO_INCREMENT column, or one with another computed default, numbers the rows that are there, and no feed
sends them again. Under a key with such a column nobody can tell which row is which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import AddColumn
from framework.contracts.full_loads import epoch_part
from framework.errors import MainstemError
from framework.naming import in_one_case
from gold.changes.profile import Profile
from gold.planning.task import Task
from gold.schema.columns import column_namings, repeated_additions
from gold.schema.lineage import Lineage


@dataclass(frozen=True, slots=True)
class _Addition:
    """A column that a statement added, by its current name; `at` is its place among the column changes."""

    at: int
    name: str
    sequence: str


def unknown_key_column(task: Task, lineage: Lineage, profile: Profile, keys: Sequence[str]) -> str | None:
    """A column of the key that older rows have no known value in; None where there is none.

    A load in a later epoch has all rows with their keys. A table that already has the key, or had it under
    its name of before, goes on: it has lost nothing more.

    Args:
        task: The table.
        lineage: Its lineage, with names as its rows spell them.
        profile: What all its changes show.
        keys: The key, by current names.
    """
    state = task.state
    has_key = state.replica is not None and state.keys == tuple(keys)
    for added in _computed_keys(lineage, keys):
        is_applied = has_key and added.sequence <= (state.sequence or "")
        is_renamed = state.replica is None and lineage.segments[-1].start > added.sequence
        is_new = not is_applied and not is_renamed
        is_loaded = epoch_part(profile.max_sequence or "") > epoch_part(added.sequence)
        if is_new and not is_loaded and _has_rows_without(added, task, lineage, profile):
            return added.name
    return None


def _computed_keys(lineage: Lineage, keys: Sequence[str]) -> Iterator[_Addition]:
    """The columns of the key whose additions do not tell what older rows hold.

    A column that may be null and becomes a part of the key by a later statement has been filled with updates.
    """
    namings = column_namings(lineage, SchemaPolicy.EVOLVE, ())
    repeated = repeated_additions(lineage)
    declared = {(at, in_one_case(key)) for at, names in lineage.keys for key in names}
    for at, (sequence, action) in enumerate(lineage.column_changes):
        if not isinstance(action, AddColumn) or action.default is not None or at in repeated:
            continue
        name = namings[at + 1].current_name(action.name)
        is_computed = action.has_expression_default or (sequence, in_one_case(action.name)) in declared
        if name is not None and name in keys and is_computed:
            yield _Addition(at, name, sequence)


def _has_rows_without(added: _Addition, task: Task, lineage: Lineage, profile: Profile) -> bool:
    """Whether rows from before an addition, and after the newest truncate, lack the column.

    Rows of a snapshot without positions count as older than the statement, and have the column.
    """
    namings = column_namings(lineage, SchemaPolicy.EVOLVE, ())
    older = profile.namings_before(added.at, task.truncated_at)
    shown = {n for n, name in profile.evidence if namings[n].current_name(name) == added.name}
    return bool(older - shown)


def values_unknown(task: Task, column: str, keys: Sequence[str]) -> MainstemError:
    """The error that parks the table."""
    return MainstemError(
        "KEY_VALUES_UNKNOWN",
        found=f"the key is ({', '.join(keys)}) now, and rows from before {column!r} was added have no known"
        " value in it: the source numbered them by itself",
        where=f"table {task.name.dotted}",
        action=f"load the table anew, with a raised `epoch` of source {task.source}; until then its replica"
        " stays as it is, and its changes wait",
    )
