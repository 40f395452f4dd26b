"""Decoding the messages of a batch: in Spark's tasks, or in this process if they are few.

A Spark job costs more than decoding some thousands of messages. Both ways call the same functions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_schemas import HEADERS, MESSAGES
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.row_groups import RowGroup, read_row_groups, shares_of
from framework.lakehouse.task_files import counted, is_shared, local_cores
from framework.spark.local_frame import arrow_frame, local_frame
from silver.batches import encodings
from silver.batches.arrival import BatchExtent, message_bytes
from silver.batches.contents import Contents, FewRows, contents_of, contents_of_summaries, read_contents
from silver.batches.few_landings import identified
from silver.batches.few_outcomes import are_few
from silver.batches.run_state import RunState
from silver.batches.seed_plans import plans_with_seeds
from silver.batches.staged_files import FILES, ArrowFunction, into_parquet, read_staged, write_few
from silver.changes.batch_summary import SUMMARY_DDL, with_summaries
from silver.changes.decode import arrow_decoder
from silver.changes.staged_rows import STAGED, STAGED_DDL
from silver.epochs.assignment import epochs_by_source, sources_with_epochs
from silver.epochs.event_clock import newest_believable

FEW_MESSAGES = 5_000
FEW_BYTES = 8 * 1024 * 1024
"""Up to this number of messages, and of bytes in them, a batch is decoded in this process."""
_FEW_SUMMARY_BYTES = 4 * 1024 * 1024
"""Files of summaries with so few bytes are read in this process."""
_COLUMNS = tuple(MESSAGES.names)
_AT_ONCE = 5_000
"""The messages of an Arrow batch; halves of an update that are in the same one are paired at once."""
_SMALL_TASK, _LARGE_TASK = 8 * 1024 * 1024, 128 * 1024 * 1024
"""A task decodes at least, and about at most, so many bytes of messages; to begin one takes 0.1 s or more."""
_Decode = Callable[[], tuple[DataFrame, Contents]]


def decode_batch(
    place: str, messages: DataFrame, state: RunState, arrived: BatchExtent, batch: int
) -> tuple[DataFrame, Contents, list[encodings.EncodingRow]]:
    """Decode the messages of a batch, twice if their values narrow the modes in which they can be read.

    Args:
        place: A folder for the decoded rows, unless they are few.
        messages: The messages, from `identify`.
        state: The state of the run.
        arrived: The extent of the batch.
        batch: The number of the batch.

    Returns:
        The decoded rows (STAGED), what they hold, and rows to record in `ops/encodings`.
    """
    spark = messages.sparkSession
    decode_now = _here(messages, state, arrived) or _into_files(place, messages, state, arrived, batch)
    staged, contents = decode_now()
    known = state.known_encodings(spark)
    rows = known.news(contents.evidence, batch)
    if rows:
        before, known = known, encodings.Encodings((*known.rows, *rows))
        state.encodings = known
        shown = (state.plans[source] for source in contents.evidence)
        if any(before.open_modes(plan) != known.open_modes(plan) for plan in shown):
            staged, contents = decode_now()
    waiting = [
        encodings.waiting_row(state.plans[source], known, batch) for source in sorted(contents.waiting)
    ]
    return staged, contents, [*rows, *waiting]


def decode(messages: DataFrame, state: RunState) -> DataFrame:
    """Decode messages from `identify` into rows (STAGED)."""
    plans = plans_with_seeds(messages, state)
    return for_arrow(messages).mapInArrow(arrow_decoder(plans), STAGED_DDL)


def for_arrow(messages: DataFrame) -> DataFrame:
    """The messages with what the decoder needs of them, as far as it costs time to hand it over.

    They have an empty list of headers where they have none. Spark looks at the size of an Arrow batch after
    each row. Then it goes through the rows since the last one that has a list: without any, that is the
    square of their number. File and line are looked at only beside headers.
    """
    has_headers = F.size("headers") > 0  # false for null
    return messages.withColumns(
        {
            "headers": F.coalesce("headers", F.array().cast(HEADERS)),
            "file": F.when(has_headers, F.col("file")),
            "line": F.when(has_headers, F.col("line")),
        }
    )


def _into_files(
    place: str, messages: DataFrame, state: RunState, arrived: BatchExtent, batch: int
) -> _Decode:
    """Decoding by Spark's tasks into files in the folder `place`.

    On one machine the tasks write the rows as Arrow has them, which costs less than handing them to Spark.
    """
    believable = newest_believable(arrived.landed_at)
    spark = messages.sparkSession

    def decode_now() -> tuple[DataFrame, Contents]:
        plans = plans_with_seeds(messages, state)
        decoder = with_summaries(arrow_decoder(plans), believable)
        if not is_shared(spark, place):
            schema = f"{STAGED_DDL}, {SUMMARY_DDL}"
            for_arrow(messages).mapInArrow(decoder, schema).write.mode("overwrite").parquet(place)
            stored = read_parquet(spark, schema, place)
            return stored.drop("summary"), read_contents(stored)
        write = into_parquet(decoder, _rows(place), batch)
        groups = _groups_of(messages, state, arrived)
        if not groups:
            contents = _file_rows(place, for_arrow(messages), write)
        else:
            shares = _shares(spark, groups)
            numbers = spark.range(0, len(shares), 1, len(shares))
            contents = _file_rows(place, numbers, _reading(shares, state.source_epochs(spark).newest, write))
        files = (*contents.files, *contents.half_files)
        return read_staged(spark, files) if files else local_frame(spark, [], STAGED_DDL), contents

    return decode_now


def _groups_of(messages: DataFrame, state: RunState, arrived: BatchExtent) -> Sequence[RowGroup]:
    """The row groups with the messages of a batch; none where Spark reads them.

    That is so unless the row groups have exactly these messages, and each one has the epoch of its source.
    """
    is_plain = not arrived.others and not sources_with_epochs(state.epoch_history(messages.sparkSession))
    are_all = sum(group.rows for group in arrived.groups) == arrived.messages
    return arrived.groups if is_plain and are_all else ()


def _shares(spark: SparkSession, groups: Sequence[RowGroup]) -> list[list[RowGroup]]:
    """The row groups in a share for each task."""
    size, cores = sum(group.size for group in groups), local_cores(spark)
    waves = size // (cores * _LARGE_TASK) + 1
    return shares_of(groups, min(size // _SMALL_TASK + 1, cores * waves))


def _reading(
    shares: Sequence[Sequence[RowGroup]], epochs: Mapping[str, int], write: ArrowFunction
) -> ArrowFunction:
    """A function for `mapInArrow` over numbers of shares, whose messages it reads for `write`."""

    def messages_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                yield from _messages(shares[number], epochs)

    return lambda batches: write(messages_of(batches))


def _messages(groups: Iterable[RowGroup], epochs: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    """The messages of row groups of `bronze/messages`, which landed once, as `identify` has them."""
    return (
        identified(rows, epochs_by_source(rows.column("source"), epochs))
        for rows in read_row_groups(groups, _COLUMNS, _AT_ONCE)
    )


def _rows(place: str) -> str:
    return os.path.join(place, "rows")


def _file_rows(place: str, rows: DataFrame, write: ArrowFunction) -> Contents:
    """Let Spark's tasks write decoded rows into files in a folder that they share.

    Args:
        place: The folder.
        rows: What they are decoded from.
        write: Decodes and writes them (`into_parquet`).
    """
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(_rows(place))
    named = ", ".join(f"{name} string" for name in FILES)
    schema, summaries = f"{named}, {SUMMARY_DDL}", os.path.join(place, "summaries")
    rows.mapInArrow(write, schema).write.parquet(summaries)
    # a task that failed and was repeated may have left a file in the folder of rows
    if sum(file.stat().st_size for file in Path(summaries).iterdir()) <= _FEW_SUMMARY_BYTES:
        return _contents_of_files(parquet.read_table(summaries, coerce_int96_timestamp_unit="us"))
    written = read_parquet(rows.sparkSession, schema, summaries)
    found = written.select(*FILES).distinct().collect()
    return _with_files(read_contents(written), [[row[name] for row in found] for name in FILES])


def _contents_of_files(written: pa.Table) -> Contents:
    """The contents of rows in files, from the rows that `into_parquet` gives."""
    contents = contents_of_summaries(written.column("summary"))
    return _with_files(contents, [written.column(name).to_pylist() for name in FILES])


def _with_files(contents: Contents, named_files: Sequence[Sequence[str | None]]) -> Contents:
    """The contents with their files (FILES), each of which is named at least once."""
    whole, halves, refused = (
        tuple(sorted({str(file) for file in files if file is not None})) for files in named_files
    )
    return replace(contents, files=whole, half_files=halves, refused_files=refused)


def messages_decoded(place: str) -> int:
    """How many messages of a batch tasks have decoded into files in this folder so far, about."""
    return counted(_rows(place))


def file_outcomes(
    place: str, outcomes: DataFrame | pa.Table, contents: Contents, arrived: BatchExtent, batch: int
) -> Contents:
    """Write outcomes (STAGED) of a batch into files in a folder: Spark's tasks do it, or this process.

    Args:
        place: The folder.
        outcomes: The outcomes, as a frame for the tasks or as rows of this process.
        contents: What else the batch holds: it knows the columns of their tables.
        arrived: The extent of the batch.
        batch: The number of the batch.
    """
    believable = newest_believable(arrived.landed_at)
    same = with_summaries(iter, believable, contents.measured, are_decided=True)
    write = into_parquet(same, _rows(place), batch, of_messages=False)
    if not isinstance(outcomes, pa.Table):
        return _file_rows(place, outcomes, write)
    if not outcomes.num_rows:
        return contents_of((), believable)
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(_rows(place))
    return _contents_of_files(pa.Table.from_batches(write(outcomes.combine_chunks().to_batches())))


def file_few(place: str, few: FewRows, outcomes: pa.Table, arrived: BatchExtent, batch: int) -> Contents:
    """Write outcomes (STAGED) of a batch that this process holds into files, as tasks do.

    Args:
        place: A folder for the files; tasks need not see it.
        few: The decoded rows that the outcomes are of.
        outcomes: The outcomes.
        arrived: The extent of the batch.
        batch: The number of the batch.
    """
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(_rows(place))
    decided = contents_of(outcomes.to_batches(), newest_believable(arrived.landed_at), are_decided=True)
    files, refused_files = write_few(outcomes, few.messages, _rows(place), batch)
    return replace(decided, files=files, refused_files=refused_files)


def is_decoded_here(messages: int, size: int) -> bool:
    """Whether so many messages, with so many bytes in them, are decoded in this process."""
    return messages <= FEW_MESSAGES and size <= FEW_BYTES


def _messages_here(messages: DataFrame, state: RunState, arrived: BatchExtent) -> pa.Table:
    """The few messages of a batch."""
    groups = _groups_of(messages, state, arrived)
    if arrived.here is not None:
        given: Iterable[pa.RecordBatch] = [arrived.here]
    elif groups:
        given = _messages(groups, state.source_epochs(messages.sparkSession).newest)
    else:
        return messages.toArrow().combine_chunks()
    return pa.Table.from_batches(given).combine_chunks()


def _here(messages: DataFrame, state: RunState, arrived: BatchExtent) -> _Decode | None:
    """Decoding in this process; None if the messages are too many or too large for it."""
    if arrived.messages > FEW_MESSAGES:
        return None
    size = arrived.size
    if size is None:
        found = messages.agg(F.sum(message_bytes())).first()
        size = 0 if found is None else found[0] or 0
    if not is_decoded_here(arrived.messages, size):
        return None
    few = _messages_here(messages, state, arrived)
    believable = newest_believable(arrived.landed_at)

    def decode_now() -> tuple[DataFrame, Contents]:
        plans = plans_with_seeds(messages, state)
        rows = list(arrow_decoder(plans)(few.to_batches()))
        table = pa.Table.from_batches(rows, schema=STAGED)
        frame, contents = arrow_frame(messages.sparkSession, table, STAGED_DDL), contents_of(rows, believable)
        held = FewRows(frame, table, few) if are_few(table) else None
        return frame, replace(contents, few=held)

    return decode_now
