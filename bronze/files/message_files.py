"""Messages of landing files as Parquet files, which become files of `bronze/messages` without a copy.

Spark's writers would take each message through the JVM once more, for several times what reading it costs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from bronze.files.arrow_reader import ARROW_MESSAGES, Reading, read_section
from bronze.files.sections import Section
from bronze.files.task_groups import GroupFiles
from bronze.source import MessageFiles
from framework.lakehouse.task_files import RowGroups, TaskCounter, TaskFile

_SCHEMA = "file string, messages bigint"
_DICTIONARIES = ["source", "topic", "partition", "file", "ingested_at", "headers.list.element.key"]
_GROUPS = RowGroups(20_000, 8 * 1024 * 1024)
"""Silver decodes row groups side by side."""


def write_messages(
    spark: SparkSession, folder: str, groups: Sequence[Sequence[Section]], reading: Reading, *, are_few: bool
) -> MessageFiles:
    """Writes the messages of these sections to files in a folder, which is emptied first.

    Args:
        spark: The session.
        folder: A folder that tasks and this process see.
        groups: The sections, a group for each task.
        reading: How files are read.
        are_few: They have so few bytes that this process reads them: a Spark job would cost more.

    Raises:
        MainstemError: As `read_section` does.
    """
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    if are_few:
        sections = [section for group in groups for section in group]
        written = [_write_sections(sections, reading, folder)]
    else:
        numbers = spark.range(0, len(groups), 1, len(groups))
        rows = numbers.mapInArrow(_writer(groups, reading, folder), _SCHEMA).collect()
        written = [(row["file"], row["messages"]) for row in rows]
    files = tuple(file for file, _ in written if file is not None)
    return MessageFiles(files, sum(messages for _, messages in written))


def _writer(
    groups: Sequence[Sequence[Section]], reading: Reading, folder: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over group numbers (`id`): gives the file of each group, if it has one.

    The groups go into files of the folder.
    """
    stored = GroupFiles(folder, reading)
    stored.write(groups, reading)

    def write(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            found = [_write_sections(*stored.read(number.as_py()), folder) for number in batch.column("id")]
            files, messages = ([each[at] for each in found] for at in (0, 1))
            yield pa.RecordBatch.from_arrays(
                [pa.array(files, pa.string()), pa.array(messages, pa.int64())], ["file", "messages"]
            )

    return write


def _write_sections(sections: Sequence[Section], reading: Reading, folder: str) -> tuple[str | None, int]:
    """The file with the messages of these sections, None if they have none; and how many these are."""
    counter = TaskCounter(folder)
    with TaskFile(folder, ARROW_MESSAGES, _DICTIONARIES, _GROUPS) as file:
        for section in sections:
            for batch in read_section(section, reading):
                file.write(batch)
            counter.add(section.size or section.listed.size - section.start)
    return file.path, file.rows
