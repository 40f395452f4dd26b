"""The columns whose changes make a version of a history, by their current names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from framework.errors import MainstemError
from gold.changes.profile import Profile
from gold.planning.task import Task
from gold.schema.columns import ColumnNaming, TableColumn


def tracked_columns(
    task: Task, profile: Profile, namings: Sequence[ColumnNaming], columns: Sequence[TableColumn]
) -> tuple[str, ...] | None:
    """The columns that the configuration names under `track`; None where all columns count.

    A name that a column had before is followed to its current one. Columns count that the policy `ignore`
    leaves out of the replica, too. A plan that is only read does without a column that the table lacks.

    Raises:
        MainstemError: TRACKED_COLUMN_MISSING where a name is none of a column: all versions would count as
            the same.
    """
    if task.settings.track is None:
        return None
    shown = {namings[naming].current_name(name) for naming, name in profile.evidence}
    known = {name for name in (*shown, *(column.name for column in columns)) if name is not None}
    found = {name: _current(name, namings, known) for name in task.settings.track}
    missing = [name for name, current in found.items() if current is None]
    if missing and not task.is_read_only:
        raise MainstemError(
            "TRACKED_COLUMN_MISSING",
            found=f"`history: track` names the column {missing[0]!r}, which the table does not have",
            where=f"table {task.name.table}",
            action=f"name columns among: {', '.join(sorted(known)[:20])}",
        )
    return tuple(current for current in found.values() if current is not None)


def _current(name: str, namings: Sequence[ColumnNaming], known: Collection[str]) -> str | None:
    if name in known:
        return name
    for naming in reversed(namings):
        current = naming.current_name(name)
        if current is not None and current in known:
            return current
    return None
