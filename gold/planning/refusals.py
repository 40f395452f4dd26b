"""What parks a table before anything is written of it: changes that its policy, or Delta, does not allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import ERASE_WITHOUT_STATEMENT
from framework.errors import MainstemError
from framework.naming import in_one_case
from gold.changes.profile import Profile
from gold.planning.rebuild import applied_column_changes
from gold.planning.task import Task
from gold.schema.columns import TableColumn
from gold.schema.layout import Layout
from gold.schema.type_inference import INTEGERS, ColumnEvidence


def refuse_rival(task: Task) -> None:
    """Parks a table whose replica would take the place of another table's."""
    if task.is_rival_unnamed:
        raise MainstemError(
            "REPLICA_OF_UNNAMED_SOURCE",
            found=f"its replica would be that of {task.rival}, a source that the configuration does not name",
            where=f"table {task.name.table} of source {task.source}",
            action="name that source again; or give this table another name (`replica`), or exclude it; or"
            f" `mainstem rebuild {task.name.dotted}`, which makes the replica and its history from the"
            f" changes of source {task.source} alone",
        )
    if task.rival is not None:
        raise MainstemError(
            "REPLICA_TAKEN",
            found=f"its replica would be that of {task.rival}",
            where=f"table {task.name.table} of source {task.source}",
            action="give one of them another name: `tables:` with"
            f" `- {{match: {task.name.dotted}, source: {task.source}, replica: database.other_name}}`",
        )


def refuse_statements(task: Task) -> None:
    """Parks a table with an erasure of unknown rows; for the policy `fail`, with a new schema change.

    That is a statement which the stored replica has not applied: statements from before it was first built,
    and those that another policy has allowed, are part of it.

    Raises:
        MainstemError: ERASE_UNCLEAR or SCHEMA_CHANGE_REFUSED.
    """
    unclear = task.lineage.not_understood
    if any(reason == ERASE_WITHOUT_STATEMENT for _, reason in unclear):
        raise MainstemError(
            "ERASE_UNCLEAR",
            found="the feed says that the table was erased, without the statement:"
            " whether it was dropped or emptied is not known",
            where=f"table {task.name.dotted}",
            action="let the feed carry the statements, then drop the table in the source and create it again;"
            " or exclude it, with `exclude: true`",
        )
    if task.settings.schema_policy is not SchemaPolicy.FAIL or not task.state.columns:
        return
    new = {at for at, batch in task.statement_batches.items() if batch > task.state.batch}
    changes = task.lineage.column_changes
    found = [reason for at, reason in unclear if at in new]
    if len(changes) > applied_column_changes(task.state) or any(at in new for at, _ in changes):
        found.append("a schema change, under schema_policy fail")
    if found:
        raise _refused(task, found[0])


def refuse_changes(task: Task, layout: Layout, profile: Profile) -> None:
    """Parks a table that would get other columns, types or keys than its replica has, under `fail`.

    Statements may declare other types than rows show: the types of a replica that never had rows, and those
    of one that gets none, do not count. A key of the configuration is no change of the source, and another
    order of the columns changes no data.

    Raises:
        MainstemError: SCHEMA_CHANGE_REFUSED.
    """
    state = task.state
    if task.is_read_only or task.settings.schema_policy is not SchemaPolicy.FAIL or not state.profile.rows:
        return
    old = {in_one_case(column.name): column.type for column in state.columns}
    for column in layout.columns:
        known = old.get(in_one_case(column.name))
        if known is None or (profile.rows and known != column.type):
            raise _refused(task, f"column {column.name!r} of type {column.type}, under schema_policy fail")
    is_named = state.profile.keys or profile.keys or any(keys for _, keys in task.lineage.keys)
    if is_named and {in_one_case(key) for key in layout.keys} != {in_one_case(key) for key in state.keys}:
        keys = f"{_key_text(layout.keys)} instead of {_key_text(state.keys)}"
        raise _refused(task, f"{keys}, under schema_policy fail")


def _key_text(keys: Sequence[str]) -> str:
    return f"the key ({', '.join(keys)})" if keys else "no key"


def _refused(task: Task, found: str) -> MainstemError:
    return MainstemError(
        "SCHEMA_CHANGE_REFUSED",
        found=found,
        where=f"table {task.name.table}",
        action="set another schema_policy for the table, or exclude it, and run again",
    )


def refuse_case_twins(task: Task, columns: Sequence[TableColumn]) -> None:
    """Parks a table with two columns whose names differ by case alone.

    The policy `ignore` keeps the columns of a replica: it helps where there is one, and not with its key.

    Raises:
        MainstemError: COLUMNS_DIFFER_BY_CASE.
    """
    folded: dict[str, str] = {}
    keys = {in_one_case(name) for name in task.state.keys}
    for column in () if task.is_read_only else columns:
        other = folded.setdefault(in_one_case(column.name), column.name)
        if other != column.name:
            is_kept = task.state.replica is not None and in_one_case(other) not in keys
            keep = "or keep the columns of the replica, with `schema_policy: ignore`; " if is_kept else ""
            raise MainstemError(
                "COLUMNS_DIFFER_BY_CASE",
                found=f"columns {other!r} and {column.name!r}",
                where=f"table {task.name.dotted}",
                action="Delta cannot hold both: rename one in the source, where the feed has the statement;"
                f" {keep}or exclude the table",
            )


def refuse_mixed_key(
    task: Task, keys: Sequence[str], columns: Sequence[TableColumn], evidence: Mapping[str, ColumnEvidence]
) -> None:
    """Parks a table whose key has values of types that write one value in different texts.

    No type holds them all but `string`: a row would not meet its own later changes. A type in the
    configuration says which of them are keys; the others are bad keys then. Bytes beside texts say nothing: a
    connector may begin to write the same bytes as base64.

    Args:
        task: The table.
        keys: The columns of its key.
        columns: The columns of its replica.
        evidence: What rows show of each column, by current name.

    Raises:
        MainstemError: KEY_TYPES_DIFFER.
    """
    kinds = {column.name: column.type for column in columns}
    for name in () if task.is_read_only else keys:
        found = evidence[name].types if name in evidence else frozenset()
        rule = task.settings.columns.get(name)
        is_mixed = len(found) > 1 and "binary" not in found and not all(map(_is_written_as_text, found))
        is_chosen = rule is not None and rule.type
        if is_mixed and not is_chosen and kinds[name] == "string":
            raise MainstemError(
                "KEY_TYPES_DIFFER",
                found=f"column {name!r} of the key has values of types {' and '.join(sorted(found))}",
                where=f"table {task.name.dotted}",
                action=f"write `columns: {{{name}: {{type: …}}}}` for the table, with the type that it has"
                " now; rows whose key has another type are bad keys, until a snapshot under a higher `epoch`"
                " brings them again; or exclude the table",
            )


def _is_written_as_text(kind: str) -> bool:
    """Whether a database that converts the type to text writes what silver writes."""
    return kind in (*INTEGERS, "string", "date") or kind.endswith(",0)")
