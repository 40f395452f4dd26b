"""How one row came to be: the replica's row, every change of its key with its outcome, and their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from math import inf
from typing import Any

from framework.contracts.table_names import CHANGES_TABLE
from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import read_table
from framework.lakehouse.newest_tables import is_read_locally
from framework.lakehouse.table_reader import Query, TableReader, in_utc, portions
from framework.pipeline.layer import Run
from framework.pipeline.named_table import is_name_of
from framework.sql.result import value
from framework.text.positions import position_text
from gold.changes.few_changes import TableChanges
from gold.operations.few_rows import few_rows
from gold.operations.row_search import changes_with_keys, rows_with_keys
from gold.operations.source_messages import Coordinates, coordinates_of, epoch_of, landed_messages
from gold.planning.discovery import all_tasks, named_tasks
from gold.planning.plan import Plan, plan_to_read
from gold.planning.stored_names import columns_by_current_name
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.task import Task
from gold.schema.text_values import comparable, read_all, reader, readings
from gold.writing import table_changes

_Change = Mapping[str, Any]
_Image = Mapping[str, str | None] | None
_Values = Mapping[str, tuple[str, Any]]
"""The type of each column of a key, and the value that a row has there (`comparable`)."""
_Texts = Mapping[tuple[Coordinates, int], dict[str, Any]]
_COLUMNS = (
    "change_id",
    "op",
    "sequence",
    "event_time",
    "transaction_id",
    "batch",
    "before",
    "after",
    "partial",
)
_BY_ID = (
    "SELECT `change_id`, `op`, `sequence`, `event_time`, `transaction_id`, `batch`, `before`, `after`, "
    "`partial`, `format`, `topic`, `partition`, `offset`, `paired_with`, `epoch` FROM {rows} "
    "WHERE `kind` IN (KINDS) AND `change_id` IN ({ids})"
)
_DUPLICATES = Query(CHANGES_TABLE, _BY_ID.replace("KINDS", "'duplicate'"), {"epoch": "int"})
_TRUNCATES = Query(CHANGES_TABLE, _BY_ID.replace("KINDS", "'truncate', 'ddl'"), {"epoch": "int"})
_TRUNCATE = "truncate"


def trace(run: Run, table: str, key: Mapping[str, str | None]) -> dict[str, Any]:
    """The history of the row with these column values, newest change first.

    The `row` is as `sql` prints it. A truncate that removed the row is a change, too. The `fate` of a change,
    its outcome, is applied, superseded, late, duplicate, or waiting, where the table has not come so far. Its
    `position` is its sequence as people say it. `renamed_to` is the newer name of the table, or null. The
    replica of the older name keeps the rows that it had at the last run before; they may be older than the
    changes.

    Raises:
        ConfigurationError: TABLE_UNKNOWN, TABLE_AMBIGUOUS or COLUMN_UNKNOWN.
    """
    task = _named_task(run, table)
    renamed_to = task.lineage.renamed_to
    about = {
        "table": task.name.dotted,
        "key": dict(key),
        "renamed_to": None if renamed_to is None else renamed_to.dotted,
    }
    plan, found = few_rows(run, task) or _rows(run, task, key)
    if plan is None:
        return {**about, "row": None, "changes": []}
    key = _current_key(plan, key)
    _check_columns(plan, key)
    row, found, values = _row_and_changes(run, plan, found, key)
    tables, is_keyed = run.tables, bool(task.state.keys)
    if is_keyed and task.truncated_at is not None:
        gone = removals(task.lineage.truncates, found, values)
        found = sorted([*found, *_truncates(tables, gone)], key=_in_order_of_source, reverse=True)
    duplicates = _duplicates(tables, [change["change_id"] for change in found])
    texts = _messages(tables, task.source, [*found, *duplicates])
    applied = None if row is None else row["_cdc_change_id"]
    order = {column.name: number for number, column in enumerate(plan.layout.columns)}
    described = [
        _describe(change, outcome, texts, order)
        for change, outcome in zip(
            found, outcomes(found, applied, task.state.batch, is_keyed=is_keyed), strict=True
        )
    ]
    described += [{**_describe(duplicate, "duplicate", texts, order), "op": None} for duplicate in duplicates]
    return {
        **about,
        "row": row,
        "changes": sorted(described, key=lambda c: c["sequence"], reverse=True),
    }


def _named_task(run: Run, name: str) -> Task:
    """The table of this name: of several sources that have one, that which has the name in gold, too."""
    found = named_tasks(all_tasks(run), name, run.config)
    with_place = [task for task in found if task.rival is None and not task.yields] or found
    chosen = [task for task in with_place if is_name_of(name, _gold_parts(task))] or with_place
    if len(chosen) > 1:
        names = [task.settings.replica or task.name.dotted for task in chosen]
        raise ConfigurationError(
            "TABLE_AMBIGUOUS",
            found=f"several sources have a table {name!r}",
            where=f"sources {', '.join(task.source for task in chosen)}",
            action=f"use its name in gold: {', '.join(names)}"
            if len(set(names)) == len(names)
            else "give each but one a name of its own in gold, under `tables:`:"
            f" `- {{match: {chosen[-1].name.dotted}, source: {chosen[-1].source}, replica: database.name}}`",
        )
    return chosen[0]


def _gold_parts(task: Task) -> tuple[str | None, ...]:
    return task.settings.replica_parts or (task.name.database, task.name.schema, task.name.table)


def _rows(run: Run, task: Task, key: Mapping[str, str | None]) -> tuple[Plan | None, list[_Change]]:
    """The plan of a large table, and those of its row changes that have these column values."""
    changes = run.lake.read(run.spark, CHANGES_TABLE)
    plan = plan_to_read(
        run.spark, run.lake, TableChanges(lambda: changes), task, StoredSchemas(run.spark, run.lake)
    )
    if plan is None:
        return None, []
    key = _current_key(plan, key)
    named = table_changes.changes_with_current_key(changes, plan)
    kinds = _kinds(plan, key)
    keys = [tuple(sorted(read_all(read, key, kinds).items())) for read in _readings(run, task)]
    found = changes_with_keys(named, keys, kinds)
    return plan, [row.asDict() for row in found.collect()]


def _current_key(plan: Plan, key: Mapping[str, str | None]) -> dict[str, str | None]:
    """The key with the names of today: a statement that waits may have renamed a column of the replica."""
    names = {column.name for column in plan.layout.columns}
    today = {column.name: name for name, column in columns_by_current_name(plan.task, plan.namings).items()}
    return {name if name in names else today.get(name, name): text for name, text in key.items()}


def _check_columns(plan: Plan, key: Mapping[str, str | None]) -> None:
    names = [column.name for column in plan.layout.columns]
    unknown = sorted(set(key) - set(names))
    if unknown:
        raise ConfigurationError(
            "COLUMN_UNKNOWN",
            found=f"no column {unknown[0]!r}",
            where=plan.task.name.dotted,
            action=f"use columns among: {', '.join(names[:30])}; "
            f"the key is {', '.join(plan.layout.keys) or 'not known'}",
        )


def _kinds(plan: Plan, key: Iterable[str]) -> dict[str, str]:
    """The type of each column of a key; that of a column that the table does not have is text."""
    kinds = {column.name: column.type for column in plan.layout.columns}
    return {name: kinds.get(name, "string") for name in key}


def _readings(run: Run, task: Task) -> Sequence[Callable[[str, str], str]]:
    source = run.config.sources.get(task.source)
    return readings("UTC" if source is None else source.timezone)


def _row_and_changes(
    run: Run, plan: Plan, changes: Sequence[_Change], key: Mapping[str, str | None]
) -> tuple[dict[str, Any] | None, list[_Change], _Values]:
    """The replica's row with these texts, its changes, the newest first, and the values of the texts.

    Texts with several readings have the first one that a row or a change has.
    """
    kinds, stored, stored_kinds = _kinds(plan, key), _stored_texts(plan, key), _stored_kinds(plan)
    tried: list[Any] = []
    for read in _readings(run, plan.task):
        texts = read_all(read, key, kinds)
        own = None if stored is None else read_all(read, stored, stored_kinds)
        if (texts, own) in tried:
            continue
        tried.append((texts, own))
        values = {name: (kinds[name], comparable(text, kinds[name])) for name, text in texts.items()}
        found = [each for each in changes if is_of_row(each, values)]
        row = None if own is None else _replica_row(run, plan, own)
        if found or row is not None:
            break
    return row, sorted(found, key=_in_order_of_source, reverse=True), values


def is_of_row(change: _Change, values: _Values) -> bool:
    """Whether the row has these values before or after a change."""
    return _has(change["before"], values) or _has(_row_after(change), values)


def _row_after(change: _Change) -> _Image:
    """The row after a change, with what its image leaves out as it was before; None if it is gone."""
    after = change["after"]
    return None if after is None else {**(change["before"] or {}), **after}


def _has(image: _Image, values: _Values) -> bool:
    return image is not None and all(
        name in image and comparable(image[name], kind) == own for name, (kind, own) in values.items()
    )


def removals(truncates: Sequence[tuple[str, str]], changes: Sequence[_Change], values: _Values) -> list[str]:
    """The ids of the truncates that removed the row; `changes` are its own, the newest first."""
    events: list[tuple[str, bool, Any]] = [(sequence, False, change_id) for sequence, change_id in truncates]
    events += [(change["sequence"], True, change) for change in reversed(changes)]
    found, is_there = [], False
    for _, is_change, event in sorted(events, key=lambda event: event[:2]):
        if is_change:
            is_there = _has(_row_after(event), values)
        elif is_there:
            found.append(event)
            is_there = False
    return found


def _replica_row(run: Run, plan: Plan, texts: Mapping[str, str | None]) -> dict[str, Any] | None:
    if plan.task.state.replica is None:
        return None
    kinds = _stored_kinds(plan)
    found = _collected_row(run, plan.task.state.replica, texts, kinds)
    if found is None:
        return None
    kinds |= {"_cdc_event_time": "timestamp"}
    return {
        name: value(cell, kinds.get(name) or ("decimal" if isinstance(cell, Decimal) else "string"))
        for name, cell in found.items()
    }


def _stored_kinds(plan: Plan) -> dict[str, str]:
    """The types of the stored replica's columns by their names there."""
    columns = plan.task.state.columns
    names = replace(plan.layout, columns=columns).gold_names
    return {names[column.name]: column.type for column in columns}


def _stored_texts(plan: Plan, key: Mapping[str, str | None]) -> dict[str, str | None] | None:
    """The key with the names that the stored replica has; None where it lacks one of these columns yet."""
    stored = columns_by_current_name(plan.task, plan.namings)
    if not set(key) <= set(stored):
        return None
    names = replace(plan.layout, columns=plan.task.state.columns).gold_names
    return {names[stored[name].name]: text for name, text in key.items()}


def _collected_row(
    run: Run, replica: str, texts: Mapping[str, str | None], kinds: Mapping[str, str]
) -> dict[str, Any] | None:
    """A row of a replica with these texts of silver; a text that does not fit its column is of none."""
    values = {name: None if text is None else reader(kinds[name])(text) for name, text in texts.items()}
    if any(values[name] is None and text is not None for name, text in texts.items()):
        return None
    if is_read_locally(run.lake):
        from framework.lakehouse.local_reader import Unreadable
        from framework.lakehouse.local_rows import local_row

        with suppress(Unreadable):
            return local_row(replica, values)
    names = {name: name for name in texts}
    row = rows_with_keys(read_table(run.spark, replica), [tuple(texts.items())], kinds, names).first()
    return None if row is None else row.asDict()


def _duplicates(tables: TableReader, ids: Sequence[str]) -> list[_Change]:
    """The duplicates of changes with these ids."""
    return sorted(_with_ids(tables, _DUPLICATES, ids), key=_in_order_of_source, reverse=True)


def _truncates(tables: TableReader, ids: Sequence[str]) -> list[_Change]:
    """The truncates with these ids, each once."""
    found = {row["change_id"]: {**row, "op": _TRUNCATE} for row in _with_ids(tables, _TRUNCATES, ids)}
    return list(found.values())


def _with_ids(tables: TableReader, query: Query, ids: Sequence[str]) -> list[_Change]:
    rows = [row for some in portions(ids) for row in tables.rows(query, ids=some)]
    return [{**row, "event_time": in_utc(row["event_time"])} for row in rows]


def _in_order_of_source(change: _Change) -> tuple[Any, ...]:
    """What changes are sorted by; duplicates of one change are in the order in which they landed."""
    place = (change["topic"] or "", change["partition"] or 0, change["offset"] or 0)
    return (change["sequence"] or "", change["batch"], *place, change["change_id"])


def outcomes(
    changes: Sequence[Any], applied: str | None, reached: float = inf, *, is_keyed: bool = True
) -> list[str]:
    """The outcome of each change: applied, superseded, late, or waiting.

    A change is late where an earlier batch has a newer one, and waits where the table has not come so far.

    Args:
        changes: The changes of a row and the truncates that removed it, the highest `sequence` first.
        applied: The id of the change that the replica's row has; None where there is no row.
        reached: The last batch that the table has applied.
        is_keyed: Whether the table has a key: else each change is a row.
    """
    found: list[str] = []
    earliest: float = inf
    for _, equals in groupby(changes, key=lambda change: change["sequence"]):
        mine = list(equals)
        for change in mine:
            # a soft delete by a truncate leaves the id of the change before it
            is_last = earliest == inf and (applied is None or change.get("op") == _TRUNCATE)
            if change["batch"] > reached:
                found.append("waiting")
            elif change["change_id"] == applied or is_last or not is_keyed:
                found.append("applied")
            else:
                found.append("late" if earliest < change["batch"] else "superseded")
        earliest = min([earliest, *(change["batch"] for change in mine if change["batch"] <= reached)])
    return found


def _messages(tables: TableReader, source: str, changes: Sequence[_Change]) -> _Texts:
    coordinates = [each for change in changes for each in coordinates_of(change)]
    return {
        at: _describe_message(at[0], rows[0])
        for at, rows in landed_messages(tables, source, coordinates).items()
    }


def _describe_message(coordinates: Coordinates, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **dict(zip(("topic", "partition", "offset"), coordinates, strict=True)),
        "file": row["file"],
        "line": row["line"],
        "ingested_at": row["ingested_at"],
        "value": None if row["value"] is None else bytes(row["value"]).decode("utf-8", "replace"),
    }


def _describe(change: _Change, outcome: str, texts: _Texts, order: Mapping[str, int]) -> dict[str, Any]:
    at = [(coordinates, epoch_of(change)) for coordinates in coordinates_of(change)]
    return {
        "fate": outcome,
        **{name: change[name] for name in _COLUMNS},
        **{side: _in_order(change[side], order) for side in ("before", "after")},
        "position": position_text(change["sequence"], change["format"] or "") if change["sequence"] else None,
        "messages": [texts[each] for each in at if each in texts],
    }


def _in_order(image: _Image, order: Mapping[str, int]) -> _Image:
    """The image with the replica's columns first, in their order, as Spark's maps come in any order."""
    if image is None:
        return None
    return dict(sorted(image.items(), key=lambda cell: (order.get(cell[0], len(order)), cell[0])))
