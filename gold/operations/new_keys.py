"""Compares the keys that a few new changes touch with those of the replica, in this process.

This is the usual case of a small run. What does not hold, or what few rows do not tell (a key change, a half
of an update, a renamed key), is left to the comparison by Spark (`key_comparison`), which names the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from framework.config.tables import Deletes
from framework.contracts.events import Image, Op
from framework.lakehouse.local_tables import LocalTable, read_files
from gold.changes.few_changes import FewChange, row_changes, rows_under_names
from gold.changes.former_keys import former_keys
from gold.changes.profile import namings_for
from gold.planning.table_state import TableState
from gold.planning.task import Task
from gold.schema.case_matching import match_case
from gold.schema.columns import TableColumn
from gold.schema.layout import Layout
from gold.schema.lineage import Lineage
from gold.schema.text_values import reader

MOST_ROWS = 2_000_000
"""The largest replica whose keys this process reads, and the most changes that it compares with one."""
_COMPARED = ("string", "tinyint", "smallint", "int", "bigint", "date")
"""The types that are compared here, with all decimals."""
_SEQUENCE, _DELETED = "_cdc_sequence", "_cdc_deleted"

Key = tuple[Any, ...]


class NotTold(Exception):
    """These rows do not tell; Spark compares the keys."""


def rows_as_implied(task: Task, state: TableState, changes: pa.Table, since: int, stored: LocalTable) -> int:
    """The rows of the keys that changes after the batch `since` touch, where all keys are as implied.

    With -1 for `since` these are all changes, and no other key has a row.

    Args:
        task: The table.
        state: How far it is applied.
        changes: Rows of `silver/changes` with all changes after `since`.
        since: A batch of silver.
        stored: The replica.

    Raises:
        NotTold: A key differs, is null or has several rows, or few rows do not tell.
    """
    layout = Layout(state.columns, state.keys, {})
    newest = _newest(_effects(_new_changes(task, state, changes, since), layout, task))
    if not newest and since >= 0:
        return 0
    found = _stored(layout, stored, newest if since >= 0 else None)
    if since < 0 and not found.keys() <= newest.keys():
        raise NotTold
    if not all(None not in key and _is_implied(found.get(key, ()), *last) for key, last in newest.items()):
        raise NotTold
    return sum(len(found.get(key, ())) for key in newest)


def _is_implied(rows: Sequence[str | None], sequence: str, has_row: bool) -> bool:
    """Whether a key has the rows that it should have: one that is not older, or none but a newer one."""
    if not rows:
        return not has_row
    own = rows[0]
    if len(rows) > 1 or own is None:
        return False
    return own >= sequence if has_row else own > sequence


def _new_changes(task: Task, state: TableState, changes: pa.Table, since: int) -> list[FewChange]:
    if not changes.num_rows:
        return []
    mine = rows_under_names(changes, task.source, task.lineage)
    if mine["half"].null_count < mine.num_rows:
        raise NotTold
    lineage = lineage_with_one_key(task, state, is_all=since < 0)
    found = row_changes(mine, task.source, lineage)
    return [change for change in found if since < change.batch <= state.batch]


def lineage_with_one_key(task: Task, state: TableState, *, is_all: bool) -> Lineage:
    """The lineage of a table whose key columns have always been called the same.

    Raises:
        NotTold: They have not; or, where all changes are compared (`is_all`), the table had another key.
    """
    lineage = match_case(task.lineage, state.profile.evidence)
    namings = namings_for(lineage, task.settings.schema_policy, state.profile, state.columns)
    renamed = {
        name for naming in namings for name in (*naming.names, *naming.names.values(), *naming.defaults)
    }
    if renamed & set(state.keys):
        raise NotTold
    layout = Layout(state.columns, state.keys, {})
    if is_all and former_keys(state.profile, lineage, namings, layout) is not None:
        raise NotTold
    return lineage


def _effects(changes: Iterable[FewChange], layout: Layout, task: Task) -> Iterable[tuple[Key, str, bool]]:
    """The keys that changes touch, each with the sequence and whether a row has it then."""
    keys, floor, deletes = layout.key_columns, task.truncated_at, task.settings.deletes
    readers = [_reader(key) for key in keys]
    for change in changes:
        if change.op not in tuple(Op):
            raise NotTold
        if change.op == Op.DELETE and deletes is Deletes.IGNORE:
            continue
        before, after = _texts(change.before, keys), _texts(change.after, keys)
        if change.op == Op.UPDATE and before is not None and after is not None and before != after:
            raise NotTold
        texts = (after if before is None else before) if change.op == Op.DELETE else after
        is_removed = floor is not None and change.sequence < floor
        if texts is None or (is_removed and deletes is Deletes.HARD):
            continue
        values = [read(text) for read, text in zip(readers, texts, strict=True)]
        if all(text is None or value is not None for text, value in zip(texts, values, strict=True)):
            yield tuple(values), change.sequence, change.op != Op.DELETE and not is_removed


def _newest(effects: Iterable[tuple[Key, str, bool]]) -> dict[Key, tuple[str, bool]]:
    """The newest sequence of each key, and whether a row has the key then."""
    found: dict[Key, tuple[str, bool]] = {}
    for key, sequence, has_row in effects:
        last = found.get(key)
        if last is not None and last[0] == sequence and last[1] != has_row:
            raise NotTold
        if last is None or last[0] < sequence:
            found[key] = (sequence, has_row)
    return found


def _texts(image: Image | None, keys: Sequence[TableColumn]) -> tuple[str | None, ...] | None:
    """The texts of a key; None where an image does not have all of it."""
    if image is None or any(key.name not in image for key in keys):
        return None
    return tuple(image[key.name] for key in keys)


def _stored(layout: Layout, stored: LocalTable, keys: Iterable[Key] | None) -> Mapping[Key, list[str | None]]:
    """The sequences of the replica's rows with these keys, or with any; others may come with them."""
    rows = live_rows(layout, stored)
    if rows is None:
        return {}
    if keys is not None:
        first = rows.column(0)
        rows = rows.filter(pc.is_in(first, value_set=pa.array([key[0] for key in keys], first.type)))
    found: dict[Key, list[str | None]] = {}
    for *key, sequence in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found.setdefault(tuple(key), []).append(sequence)
    return found


def live_rows(layout: Layout, stored: LocalTable) -> pa.Table | None:
    """The rows of a replica that a soft delete has not marked: the columns of the key, then the sequence.

    None where it has no file.

    Raises:
        NotTold: It has too many rows, or a file cannot be read here.
    """
    if stored.files is None or sum(file.rows for file in stored.files) > MOST_ROWS:
        raise NotTold
    if not stored.files:
        return None
    names = [*(layout.gold_names[key] for key in layout.keys), _SEQUENCE]
    has_marks = any(column["name"] == _DELETED for column in stored.schema["fields"])
    rows = read_files(stored.files, [*names, *([_DELETED] if has_marks else [])])
    if rows is None:
        raise NotTold
    if has_marks:
        is_marked: Any = pc.fill_null(rows[_DELETED], pa.scalar(False))
        rows = rows.filter(pc.invert(is_marked))
    return rows.select(names)


def _reader(key: TableColumn) -> Callable[[str | None], Any]:
    """Returns the value of a canonical text in the key's type, None where it does not fit (`casting`)."""
    if key.type not in _COMPARED and not key.type.startswith("decimal"):
        raise NotTold
    read = reader(key.type)
    return lambda text: None if text is None else read(text)
