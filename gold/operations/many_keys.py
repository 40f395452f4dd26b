"""Compares the keys that many changes of a table imply with its replica, in this process, column by column.

This is the usual case of a first load, a rebuild or a large batch: Spark would need seconds to plan the
comparison of each table. What does not hold, and what is not plain (a key change, a truncate, a half of an
update), is left to Spark (`key_comparison`), which names the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import compute, parquet

from framework.config.tables import Deletes
from framework.contracts.events import Op
from framework.lakehouse.local_tables import DataFile, LocalTable
from framework.lakehouse.sorted_rows import sorted_by
from gold.changes.effects import key_names
from gold.operations.new_keys import MOST_ROWS, NotTold, lineage_with_one_key, live_rows
from gold.planning.table_state import TableState
from gold.planning.task import Task
from gold.schema.columns import TableColumn
from gold.schema.layout import Layout
from gold.schema.lineage import Segment

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

pc: Any = compute  # its types lack some functions, and columns in chunks
_MOST_OTHERS, _FEW_ROWS = 4, 100_000
"""To find a table's changes, so many times as many rows are read at most, and some more.

Files of earlier releases have the changes of all tables mixed.
"""
_AT_ONCE = 20_000
"""Row groups of Spark's writers can have a million rows, whose images do not fit into memory at once."""
_PLACE = ("source", "database", "schema", "table", "kind", "batch", "op", "sequence", "half")
_TYPES: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
}
_WHOLE = "^-?[0-9]+$"


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file of `silver/changes`.

    Attributes:
        path: Where it is.
        metadata: Its footer.
        groups: The number of rows of each row group with the lowest and the highest name of their tables;
            null where the footer does not tell these.
    """

    path: Path
    metadata: FileMetaData
    groups: tuple[tuple[int, str | None, str | None], ...]


def change_files(files: Iterable[DataFile] | None) -> tuple[ChangeFile, ...] | None:
    """Files of `silver/changes`, whose footers serve for all tables; None where Spark must read them."""
    try:
        return None if files is None else tuple(_change_file(file.path) for file in files)
    except (pa.ArrowException, OSError, ValueError):
        return None


def _change_file(path: Path) -> ChangeFile:
    metadata = parquet.read_metadata(path)
    names = [metadata.schema.column(at).path for at in range(len(metadata.schema))]
    place, groups = names.index("table"), list[tuple[int, str | None, str | None]]()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        bounds: Any = group.column(place).statistics
        is_told = bounds is not None and bounds.has_min_max
        groups.append((group.num_rows, *((bounds.min, bounds.max) if is_told else (None, None))))
    return ChangeFile(path, metadata, tuple(groups))


def many_rows_as_implied(
    task: Task, state: TableState, changes: Sequence[ChangeFile], since: int, stored: LocalTable
) -> int:
    """The rows of the keys that changes after the batch `since` touch, where all keys are as implied.

    With -1 for `since` these are all changes, and no other key has a row.

    Args:
        task: The table.
        state: How far it is applied.
        changes: The files of `silver/changes` with all changes after `since`.
        since: A batch of silver.
        stored: The replica.

    Raises:
        NotTold: A key differs, is null or has several rows, or the changes are not plain.
    """
    layout, segment = Layout(state.columns, state.keys, {}), _only_segment(task, state, is_all=since < 0)
    try:
        effects = list(_key_rows(task, state, layout, (segment, changes), since))
        if since >= 0 and not effects:
            return 0
        newest = _newest(effects, layout)
        has_row = newest.filter(newest["has_row"])
        if since < 0 and not has_row.num_rows:
            raise NotTold
        return _same(has_row, _stored_rows(layout, stored, newest if since >= 0 else None), layout)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise NotTold from error


def _only_segment(task: Task, state: TableState, *, is_all: bool) -> Segment:
    """The one segment of a table whose key has always been called the same, and which was never truncated."""
    lineage = lineage_with_one_key(task, state, is_all=is_all)
    is_plain = (
        len(lineage.segments) == 1
        and task.truncated_at is None
        and all(key.type in _TYPES for key in Layout(state.columns, state.keys, {}).key_columns)
    )
    if not is_plain:
        raise NotTold
    return lineage.segments[0]


def _key_rows(
    task: Task,
    state: TableState,
    layout: Layout,
    changes: tuple[Segment, Sequence[ChangeFile]],
    since: int,
) -> Iterator[pa.Table]:
    """The effects of the changes, in parts: k0…, `sequence`, and `has_row`: the key has a row then."""
    segment, files = changes
    name = segment.table
    for group in _groups(files, name.table, _MOST_OTHERS * state.changes_applied + _FEW_ROWS):
        own: Any = pc.field("source") == task.source
        own &= (pc.field("table") == name.table) & (pc.field("kind") == "row")
        own &= (pc.field("batch") > since) & (pc.field("batch") <= state.batch)
        own &= pc.field("sequence") >= segment.start
        for column, text in (("database", name.database), ("schema", name.schema)):
            own &= pc.field(column).is_null() if text is None else pc.field(column) == text
        if segment.end is not None:
            own &= pc.field("sequence") < segment.end
        rows = group.filter(own)
        if rows.num_rows:
            yield _effects(rows, layout.key_columns, task.settings.deletes)


def _groups(changes: Sequence[ChangeFile], name: str, most: int) -> Iterator[pa.Table]:
    """The row groups that may have rows of a table, in parts; raises NotTold where they have more rows."""
    found, count = list[tuple[ChangeFile, list[int]]](), 0
    for file in changes:
        numbers = []
        for number, (rows, low, high) in enumerate(file.groups):
            if low is None or high is None or low <= name <= high:
                numbers.append(number)
                count += rows
        if numbers:
            found.append((file, numbers))
    if count > min(most, MOST_ROWS):
        raise NotTold
    for file, numbers in found:
        with parquet.ParquetFile(file.path, metadata=file.metadata) as opened:
            for part in opened.iter_batches(_AT_ONCE, numbers, [*_PLACE, "before", "after"]):
                yield pa.Table.from_batches([part])


def _effects(rows: pa.Table, keys: Sequence[TableColumn], deletes: Deletes) -> pa.Table:
    ops = rows["op"]
    is_known = pc.is_in(ops, value_set=pa.array([str(op) for op in Op]))
    if rows["half"].null_count < rows.num_rows or not pc.all(is_known).as_py():
        raise NotTold
    is_delete: Any = pc.equal(ops, pa.scalar(str(Op.DELETE)))
    if deletes is Deletes.IGNORE:
        rows = rows.filter(pc.invert(is_delete))
        is_delete = pa.chunked_array([pa.array([False] * rows.num_rows)])
    before, after = ([_texts(rows[side], key.name) for key in keys] for side in ("before", "after"))
    has_before = reduce(pc.and_, map(pc.is_valid, before))
    moved = reduce(pc.or_kleene, (pc.not_equal(one, other) for one, other in zip(before, after, strict=True)))
    if pc.any(pc.and_(pc.and_(has_before, pc.invert(is_delete)), moved)).as_py():
        raise NotTold
    columns: dict[str, Any] = {}
    for number, key in enumerate(keys):
        text: Any = pc.if_else(pc.and_(is_delete, has_before), before[number], after[number])
        if text.null_count:
            raise NotTold
        columns[f"k{number}"] = text if key.type == "string" else _whole(text).cast(_TYPES[key.type])
    columns |= {"sequence": rows["sequence"], "has_row": pc.invert(is_delete)}
    return pa.table(columns)


def _texts(image: pa.ChunkedArray[Any], name: str) -> Any:
    return pc.map_lookup(image, pa.scalar(name), "first")


def _whole(texts: Any) -> Any:
    """The whole numbers that texts write; raises NotTold where one is written in another way."""
    if not pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():
        raise NotTold
    return texts.cast(pa.int64())


def _newest(parts: Sequence[pa.Table], layout: Layout) -> pa.Table:
    """The newest effect on each key, sorted by key."""
    if not parts:
        raise NotTold
    names = key_names(len(layout.keys))
    rows = sorted_by(pa.concat_tables(parts), [*names, "sequence"])
    if not rows.num_rows:
        raise NotTold
    first, second = rows.slice(0, rows.num_rows - 1), rows.slice(1)
    is_same_key = reduce(pc.and_, (pc.equal(first[name], second[name]) for name in names))
    is_tie = pc.and_(is_same_key, pc.equal(first["sequence"], second["sequence"]))
    if pc.any(pc.and_(is_tie, pc.not_equal(first["has_row"], second["has_row"]))).as_py():
        raise NotTold
    is_last = pa.concat_arrays([*pc.invert(is_same_key).chunks, pa.array([True])])
    return rows.filter(is_last)


def _stored_rows(layout: Layout, stored: LocalTable, touched: pa.Table | None) -> pa.Table:
    """The keys and sequences of the replica, sorted; only those of keys that are touched, where given."""
    rows, names = live_rows(layout, stored), key_names(len(layout.keys))
    if rows is None:
        raise NotTold
    rows = rows.rename_columns([*names, "sequence"])
    if touched is not None:
        rows = rows.join(touched.select(names), names, join_type="left semi")
    if any(column.null_count for column in rows.columns):
        raise NotTold
    return sorted_by(rows, names)


def _same(newest: pa.Table, stored: pa.Table, layout: Layout) -> int:
    """How many rows there are where both have the same keys, and no row is older than it should be."""
    if newest.num_rows != stored.num_rows:
        raise NotTold
    for name in key_names(len(layout.keys)):
        if newest[name].type != stored[name].type or not newest[name].equals(stored[name]):
            raise NotTold
    if not pc.all(pc.greater_equal(stored["sequence"], newest["sequence"])).as_py():
        raise NotTold
    return stored.num_rows
