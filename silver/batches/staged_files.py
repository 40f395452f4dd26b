"""Files of decoded rows, written by the tasks that decode them.

They have the columns of `silver/changes`, so that rows that are committed as they were decoded need no copy:
their files become files of that table. Halves of updates that have found no partner are in other files. What
decoded rows have beside the table's columns is in columns of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from framework.contracts.table_schemas import CHANGES, QUARANTINE
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.row_groups import read_row_groups, row_groups, rows_with_texts
from framework.lakehouse.task_files import RowGroups, TaskCounter, TaskFile
from framework.spark.arrow_schemas import arrow_schema
from silver.changes.staged_rows import STAGED, column_values

_OWN = {
    "position": T.StringType(),
    "columns": T.StringType(),
    "block": T.LongType(),
    "evidence": T.StringType(),
    "restart": T.IntegerType(),
    "run": T.LongType(),
    "run_end": T.LongType(),
    "committed": T.StringType(),
    "earliest": T.StringType(),
}
"""What decoded rows have beside `silver/changes`, and `position`, of which that table has only some."""


def _own(name: str) -> str:
    return f"_staged_{name}"


_BATCH: Any = pa.field("batch", pa.int64())
_FILED = pa.schema(
    [
        *(_BATCH if name == "batch" else STAGED.field(name) for name in CHANGES.names),
        *(STAGED.field(name).with_name(_own(name)) for name in _OWN),
    ]
)
"""The columns of a file."""
_OF_ROW = ("source", "format", "topic", "partition", "offset", "ordinal", "reason", "detail", "epoch")
REFUSED = arrow_schema(QUARANTINE)
"""The columns of a file with quarantined messages: those of `silver/quarantine`."""
_MESSAGE = ("source", "topic", "partition", "offset")
_DIFFER = ("change_id", "sequence", "event_time", "offset", "before", "after", _own("position"))
_DICTIONARIES: Any = [
    *(name for name in _FILED.names if name not in _DIFFER),
    *("keys.list.element", "before.key_value.key", "after.key_value.key", "paired_with.topic"),
]
"""Columns with a dictionary: those whose values repeat. For values that differ it costs time and bytes."""
_GROUPS = RowGroups(20_000, 64 * 1024 * 1024, "table")
"""Gold reads the changes of one table: with those of many in each row group it would read all of them."""
_REFUSED_GROUPS = replace(_GROUPS, by=None)
ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
FILES = ("file", "halves", "refused")


class Bound(NamedTuple):
    """So many rows, and uncompressed bytes in them, are read into this process at most."""

    rows: int
    size: int


def into_parquet(
    decode: ArrowFunction, folder: str, number: int, *, of_messages: bool = True
) -> ArrowFunction:
    """A function for `mapInArrow` that writes decoded rows to files in a folder that this process sees.

    Args:
        decode: The decoder (`with_summaries`).
        folder: The folder, which exists.
        number: The number of the batch.
        of_messages: Whether the decoder is given messages, from `landings.identify`.

    Returns:
        A function of messages to rows of `file`, `halves`, `refused` and `summary`: one for each Arrow batch
        of decoded rows. `halves` is the file with the halves that have found no partner, `refused` that with
        the messages that are quarantined (REFUSED); they are null where there is none yet.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        whole, halves = (TaskFile(folder, _FILED, _DICTIONARIES, _GROUPS) for _ in range(2))
        refused = TaskFile(folder, REFUSED, _DICTIONARIES, _REFUSED_GROUPS)
        written: list[pa.RecordBatch] = []
        counted = TaskCounter(folder)
        with whole, halves, refused:
            for messages, batch in _made_of(batches, decode, counted):
                is_half = pc.is_valid(batch.column("half"))
                filed = _filed(batch, number)
                has_halves = pc.any(is_half).as_py()
                whole.write(filed.filter(pc.invert(is_half)) if has_halves else filed)
                if has_halves:
                    halves.write(filed.filter(is_half))
                if of_messages:
                    refused.write(_refused(batch, messages, number))
                names = [pa.array([file.path], pa.string()) for file in (whole, halves, refused)]
                summary = batch.column("summary").slice(0, 1)
                written.append(pa.RecordBatch.from_arrays([*names, summary], [*FILES, "summary"]))
        yield from written  # once the files are complete

    return write


def write_few(
    outcomes: pa.Table, messages: pa.Table, folder: str, number: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the outcomes of a batch in this process, each of which is decided.

    Args:
        outcomes: The outcomes (STAGED).
        messages: The messages of the batch, from `landings.identify`.
        folder: The folder, which exists.
        number: The number of the batch.

    Returns:
        The file with the outcomes, and the file with the messages that are quarantined (REFUSED); each
        without a name where it has no row.
    """
    whole = TaskFile(folder, _FILED, _DICTIONARIES, _GROUPS)
    refused = TaskFile(folder, REFUSED, _DICTIONARIES, _REFUSED_GROUPS)
    given = messages.combine_chunks().to_batches()
    with whole, refused:
        for rows in outcomes.combine_chunks().to_batches():
            whole.write(_filed(rows, number))
            refused.write(_refused(rows, given[0], number))
    return tuple([whole.path] if whole.path else ()), tuple([refused.path] if refused.path else ())


def rows_of_batch(outcomes: pa.Table, number: int) -> pa.Table:
    """Outcomes (STAGED) of a batch as rows of `silver/changes`."""
    return rows_of_batches(outcomes, pa.repeat(pa.scalar(number, pa.int64()), outcomes.num_rows))


def rows_of_batches(outcomes: pa.Table, numbers: pa.Array[pa.Int64Scalar]) -> pa.Table:
    """Outcomes (STAGED) of several batches, each with the number of its own, as rows of `silver/changes`."""
    parts = [_filed(rows, numbers) for rows in outcomes.combine_chunks().to_batches()]
    return pa.Table.from_batches(parts, schema=_FILED).select(CHANGES.names)


def _made_of(
    batches: Iterable[pa.RecordBatch], decode: ArrowFunction, counted: TaskCounter
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """What is decoded from each batch, with that batch, which is counted when it is done."""
    for given in batches:
        for made in decode((given,)):
            yield given, made
        counted.add(given.num_rows)


def _filed(batch: pa.RecordBatch, number: int | pa.Array[pa.Int64Scalar]) -> pa.RecordBatch:
    """Decoded rows (STAGED and more) with the columns of a file; each has the number, or its own one."""
    if isinstance(number, int):
        number = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
    is_in_partition = pc.is_valid(batch.column("block"))
    made = {
        "batch": number,
        "position": pc.if_else(is_in_partition, batch.column("position"), pa.scalar(None, pa.string())),
    }
    columns = [made[name] if name in made else batch.column(name) for name in CHANGES.names]
    return pa.RecordBatch.from_arrays([*columns, *(batch.column(name) for name in _OWN)], schema=_FILED)


def _refused(batch: pa.RecordBatch, messages: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The messages that are quarantined, with their bytes (REFUSED).

    Without those whose coordinates several of the messages have: the number of rows shows that.

    Args:
        batch: The decoded rows (STAGED).
        messages: The messages that they are decoded from, among others.
        number: The number of the batch.
    """
    is_refused: Any = pc.equal(batch.column("kind"), pa.scalar("quarantined"))
    rows = batch.filter(is_refused)
    if not rows.num_rows:
        return pa.RecordBatch.from_pylist([], REFUSED)
    first = messages.filter(pc.is_null(messages.column("relanding")))
    found: dict[tuple[Any, ...], list[int]] = {}
    for at, place in enumerate(column_values(first, *_MESSAGE)):
        found.setdefault(place, []).append(at)
    origins = [found.get(place, []) for place in column_values(rows, *_MESSAGE)]
    rows = rows.filter(pa.array([len(places) == 1 for places in origins]))
    taken = pa.array([places[0] for places in origins if len(places) == 1], pa.int64())
    of_message = first.select(["key", "value", "ingested_at"]).take(taken)
    made: dict[str, Any] = {
        **{name: rows.column(name) for name in _OF_ROW},
        **{name: of_message.column(name) for name in ("key", "value")},
        **dict.fromkeys(("first_seen_at", "last_seen_at"), of_message.column("ingested_at")),
        "is_resolved": pa.repeat(pa.scalar(False), rows.num_rows),
        "batch": pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows),
    }
    return pa.RecordBatch.from_arrays(
        [
            made[field.name].cast(field.type) if field.name in made else pa.nulls(rows.num_rows, field.type)
            for field in REFUSED
        ],
        schema=REFUSED,
    )


def read_refused(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """The quarantined messages (REFUSED) of files."""
    return read_parquet(spark, QUARANTINE, *files)


def read_staged(spark: SparkSession, files: Iterable[str]) -> DataFrame:
    """The decoded rows (STAGED) of files."""
    own = [T.StructField(_own(name), kind) for name, kind in _OWN.items()]
    rows = read_parquet(spark, T.StructType([*CHANGES, *own]), *files)
    return rows.select(*(F.col(_own(n)).alias(n) if n in _OWN else F.col(f"`{n}`") for n in STAGED.names))


def read_few_staged(files: Sequence[str], bound: Bound) -> pa.Table | None:
    """The decoded rows (STAGED) of files, in this process.

    None where it cannot read one of the files, or where there are more of them than `bound` allows.
    """
    groups = row_groups(files, _FILED.names)
    if groups is None or sum(group.rows for group in groups) > bound.rows:
        return None
    if sum(group.size for group in groups) > bound.size:
        return None
    return _staged(pa.Table.from_batches(read_row_groups(groups, _FILED.names, _GROUPS.rows), _FILED))


def staged_updates_at(files: Sequence[str], sequences: Collection[str], bound: Bound) -> pa.Table | None:
    """The whole updates (STAGED) with one of these sequences in files, in this process.

    None where it cannot read one of the files, or where there are more of them than `bound` allows.
    """
    is_update = (pc.field("kind") == "row") & (pc.field("op") == "update")
    found, rows, size = [_FILED.empty_table()], 0, 0
    try:
        for near in rows_with_texts(files, "sequence", sequences):
            updates = near.filter(is_update)
            rows, size = rows + updates.num_rows, size + updates.nbytes
            if rows > bound.rows or size > bound.size:
                return None
            found.append(updates)
    except (OSError, pa.ArrowException):
        return None
    return _staged(pa.concat_tables(found))


def _staged(filed: pa.Table) -> pa.Table:
    """Rows of a file as decoded rows (STAGED)."""
    found = filed.select([_own(name) if name in _OWN else name for name in STAGED.names])
    return found.rename_columns(STAGED.names).cast(STAGED)
