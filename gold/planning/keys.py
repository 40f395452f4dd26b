"""The key of a table: from its rows, from its statements or from the configuration."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from framework.config.tables import SchemaPolicy
from framework.errors import MainstemError
from framework.naming import in_one_case
from gold.changes.profile import Profile
from gold.planning.stored_names import columns_by_current_name
from gold.planning.task import Task
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.lineage import Lineage


def table_key(
    task: Task, profile: Profile, namings: Sequence[ColumnNaming], columns: Sequence[TableColumn]
) -> tuple[str, ...]:
    """The key columns by current names: the feed's, else the configured ones; empty where there are none.

    The feed names a key in its newest row, or in a statement after that row. For a plan that is only read,
    the key of the replica stands in for one that rows do not have.

    Raises:
        MainstemError: KEY_COLUMN_MISSING where the replica lacks a column of the key: no row has it, or the
            policy `ignore` leaves it out.
    """
    settings, names = task.settings, {c.name for c in columns}
    from_statements = _key_from_statements(task.lineage, profile.keys_sequence, namings, names)
    if from_statements is None:
        from_feed = [namings[profile.keys_naming].current_name(key) for key in profile.keys or ()]
    else:
        from_feed = from_statements
    keys = tuple(key for key in from_feed if key is not None)
    is_configured = not keys and settings.keys is not None
    keys = keys or settings.keys or ()
    missing = [key for key in keys if key not in names]
    if missing and profile.rows and task.is_read_only:
        return stored_key(task, namings, names)
    if missing and profile.rows:
        is_left_out = settings.schema_policy is SchemaPolicy.IGNORE and _is_shown(
            missing[0], profile, namings
        )
        if is_left_out:
            raise _left_out(task, missing[0], is_configured=is_configured)
        raise _missing(task, missing[0], names, is_configured=is_configured)
    return keys if not missing else ()


def stored_key(task: Task, namings: Sequence[ColumnNaming], names: Collection[str]) -> tuple[str, ...]:
    """The key of the replica by current names; empty where there is none, or rows lack it as well."""
    today = {column.name: name for name, column in columns_by_current_name(task, namings).items()}
    keys = tuple(today.get(key, key) for key in task.state.keys)
    return keys if set(keys) <= set(names) else ()


def _is_shown(column: str, profile: Profile, namings: Sequence[ColumnNaming]) -> bool:
    """Whether rows have a column, by its current name."""
    return any(namings[naming].current_name(name) == column for naming, name in profile.evidence)


def _left_out(task: Task, column: str, *, is_configured: bool) -> MainstemError:
    whose = "tables.keys names" if is_configured else "the feed names"
    return MainstemError(
        "KEY_COLUMN_MISSING",
        found=f"{whose} the key column {column!r}, which schema_policy: ignore leaves out of the replica",
        where=f"table {task.name.table}",
        action="set schema_policy: lenient for the table under tables, which adds the column, and run again",
    )


def _missing(task: Task, column: str, names: Collection[str], *, is_configured: bool) -> MainstemError:
    known = ", ".join(sorted(names)[:20])
    if is_configured:
        found, where = f"no row has the configured key column {column!r}", "tables.keys"
        action = f"name key columns among: {known}"
    else:
        found = f"the feed names the key column {column!r}, but no row has it"
        where = f"table {task.name.table}"
        action = f"let the source send the column; its rows have: {known}"
    return MainstemError("KEY_COLUMN_MISSING", found=found, where=where, action=action)


def ignored_keys(configured: Sequence[str] | None, keys: Sequence[str]) -> str | None:
    """A note where a table has another key than the configured one; else None.

    Silver holds the key with each change: the feed's, or the one that was configured when it was read.
    """
    if configured is None or not keys or set(configured) == set(keys):
        return None
    return (
        f"its key is ({', '.join(keys)}), not that of `keys:`: its messages name it, or were read with other"
        " `keys:`. Correct it in the feed; or `mainstem rebuild TABLE --from bronze` reads them with these"
    )


def narrow_key(keys: Sequence[str]) -> str:
    """What to do where rows of a table have the same key."""
    return (
        f"is the key {', '.join(keys)} too narrow? If the feed names it, correct it there. Else name all its"
        " columns under `tables: keys:`, then `mainstem rebuild TABLE --from bronze`"
    )


def _key_from_statements(
    lineage: Lineage, after: str, namings: Sequence[ColumnNaming], names: set[str]
) -> list[str | None] | None:
    """The key by the newest statement after a position, that of the newest row which names one.

    None without such a statement, or if rows lack its columns. CREATE TABLE IF NOT EXISTS behind such a row
    has created nothing.
    """
    if not lineage.keys or lineage.keys[-1][0] <= after:
        return None
    sequence, declared = lineage.keys[-1]
    if after and sequence == lineage.keys_if_new:
        return None
    naming = namings[sum(at <= sequence for at, _ in lineage.column_changes)]
    by_case = {in_one_case(name): name for name in names}
    columns = [naming.current_name(key) for key in declared]
    keys = [key if key is None or key in names else by_case.get(in_one_case(key)) for key in columns]
    return None if None in keys else keys
