"""What the quality step keeps from one run to the next, so that a run reads no more than what is new.

It is a file beside the checkpoints of a local lakehouse, valid for one version of `ops/quality_results`:
without it, or after somebody else has written there, the step reads the tables themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from framework.contracts.expectations import PreviousResults
from framework.contracts.quality import QualityResult
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    QUALITY_RESULTS_TABLE,
)
from framework.lakehouse.local_tables import (
    DataFile,
    LocalTable,
    Mark,
    appended_files,
    local_table,
    read_files,
)
from framework.lakehouse.small_files import read_note, write_note
from framework.pipeline.layer import Run
from framework.quality.results import by_target, read_previous_results
from framework.spark.tuning import SMALL_ROWS

MOST_BYTES = 32_000_000
"""The largest size of files with new rows that this process reads whole."""
MOST_ROWS = 2_000_000
"""The most new rows of which this process reads a few columns, in parts."""
_TIMES = ("started_at", "checked_at")
_LISTS = ("columns", "failing_keys")
_NAMES = tuple(one.name for one in fields(QualityResult))
_values = attrgetter(*_NAMES)
_FORM = 1
_MEMO = "quality"


@dataclass(slots=True)
class Memory:
    """What earlier runs have found, and what has come to the tables since.

    Attributes:
        run: The run.
        previous: The newest results of each target.
        marks: The versions of tables up to which `batch` and all batches before it were judged.
        batch: The newest batch of silver that was judged; -1 for none.
        kept_batches: What an earlier run has kept of `ops/batches`, see `framework.quality.batch_log`.
        batches: What this run keeps of it.
        kept_offsets: What an earlier run has kept of the offsets of brokers, see `silver`.
        offsets: What this run keeps of them.
        version: The version of `ops/quality_results` that the results are from; -1 where there was none.
        is_first: Nothing was ever judged: all rows are new.
    """

    run: Run
    previous: PreviousResults = field(default_factory=PreviousResults)
    marks: Mapping[str, Mark] = field(default_factory=dict)
    batch: int = -1
    kept_batches: Mapping[str, Any] = field(default_factory=dict)
    batches: Mapping[str, Any] = field(default_factory=dict)
    kept_offsets: Mapping[str, Any] = field(default_factory=dict)
    offsets: Mapping[str, Any] = field(default_factory=dict)
    version: int = -1
    is_first: bool = False
    _found: tuple[object, ...] = ()
    _tables: dict[str, LocalTable | None] = field(default_factory=dict)
    _files: dict[tuple[str, Mark], tuple[DataFile, ...] | None] = field(default_factory=dict)
    _rows: dict[tuple[str, Mark, tuple[str, ...]], pa.Table | None] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        """Whether a later run finds what this run keeps; only for a lakehouse on local disks."""
        return _path(self.run) is not None

    def table(self, name: str) -> LocalTable | None:
        """A table of the lakehouse as it was when it was first asked for; None where only Spark can tell."""
        if name not in self._tables:
            run = self.run
            version = None if name in run.lake.added else _local_version(run, name)
            self._tables[name] = local_table(run.lake.location(name), version)
        return self._tables[name]

    def new_files(self, name: str, since: Mark | None) -> tuple[DataFile, ...] | None:
        """The files of the rows that came to a table after a version; None where Spark must read the table.

        That is so if rows were replaced or removed since then, or if more than MOST_ROWS are new.
        """
        now = self.table(name)
        if now is None or since is None:
            return None
        if (name, since) not in self._files:
            files = appended_files(self.run.lake.location(name), since, now.mark)
            is_too_much = files is not None and sum(file.rows for file in files) > MOST_ROWS
            self._files[name, since] = None if is_too_much else files
        return self._files[name, since]

    def new_rows(self, name: str, since: Mark | None, columns: Sequence[str]) -> pa.Table | None:
        """The rows after a version, read once and whole; None where they are not few, or Spark must read."""
        files = self.new_files(name, since)
        if files is None or since is None or not _are_few(files):
            return None
        wanted = (name, since, tuple(columns))
        if wanted not in self._rows:
            self._rows[wanted] = _read(files, columns)
        return self._rows[wanted]


def memory_of(run: Run) -> Memory:
    """The memory of the run's quality step; an empty one where the step has not begun."""
    found = run.memo.get(_MEMO)
    return found if isinstance(found, Memory) else Memory(run)


def recall(run: Run) -> Memory:
    """Begins the quality step of a run with what earlier runs have left."""
    version = _local_version(run, QUALITY_RESULTS_TABLE)
    memory = _kept(run, version) if version is not None else _beginning(run)
    if memory is None:
        memory = Memory(run, read_previous_results(run.spark, run.lake))
    memory.version = -1 if version is None else version
    run.memo[_MEMO] = memory
    return memory


def keep(memory: Memory, results: Iterable[QualityResult], commits: int) -> None:
    """Keeps the newest results, and the other attributes of the memory, for the next run.

    `commits` is how many commits this run made to `ops/quality_results`. Keeps nothing where somebody else
    has written there meanwhile.
    """
    run, path = memory.run, _path(memory.run)
    version = _local_version(run, QUALITY_RESULTS_TABLE)
    table = local_table(run.lake.location(QUALITY_RESULTS_TABLE), version)
    if path is None or table is None or version != memory.version + commits:
        return
    if not commits and memory._found == _state(memory):
        return
    said = {
        "form": _FORM,
        "mark": table.mark,
        "results": [_texts(result) for result in results],
        "marks": memory.marks,
        "batch": memory.batch,
        "batches": memory.batches,
        "offsets": memory.offsets,
    }
    write_note(run.spark, path, json.dumps(said, ensure_ascii=False, separators=(",", ":")))


def forget(run: Run) -> None:
    """Deletes what is kept: failing keys are in it."""
    path = _path(run)
    if path is not None:
        Path(path).unlink(missing_ok=True)


def _beginning(run: Run) -> Memory | None:
    """The memory of a lakehouse in which nothing was judged yet; None where its tables are not local."""
    if _path(run) is None:
        return None
    memory = Memory(run, is_first=True)
    tables = {name: memory.table(name) for name in (MESSAGES_TABLE, CHANGES_TABLE, BATCHES_TABLE)}
    marks = {name: Mark(table.mark.table, -1) for name, table in tables.items() if table is not None}
    memory.marks = marks
    if BATCHES_TABLE in marks:
        memory.kept_batches = {"mark": marks[BATCHES_TABLE], "top": -1, "rows": 0, "extents": []}
    return memory


def _kept(run: Run, version: int) -> Memory | None:
    path = _path(run)
    if path is None:
        return None
    table = local_table(run.lake.location(QUALITY_RESULTS_TABLE), version)
    try:
        said = json.loads(read_note(run.spark, path) or "{}")
        if table is None or said.get("form") != _FORM or Mark(*said["mark"]) != table.mark:
            return None
        results = by_target(map(_result, said["results"]))
        marks = {name: Mark(*mark) for name, mark in said["marks"].items()}
        batches, offsets = said["batches"], said["offsets"]
        found = PreviousResults(results)
        memory = Memory(run, found, marks, said["batch"], batches, batches, offsets, offsets)
        memory._found = _state(memory)
        return memory
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _state(memory: Memory) -> tuple[object, ...]:
    return memory.marks, memory.batch, memory.batches, memory.offsets


def _path(run: Run) -> str | None:
    is_local = run.lake.local_root is not None and run.lake.catalog is None
    return f"{run.lake.checkpoints}/quality.memory" if is_local else None


def _local_version(run: Run, name: str) -> int | None:
    """The newest version of a table on local disks; None for others, where the question costs a job."""
    return run.lake.version(run.spark, name) if _path(run) is not None else None


def _are_few(files: Sequence[DataFile]) -> bool:
    return sum(file.rows for file in files) <= SMALL_ROWS and sum(file.size for file in files) <= MOST_BYTES


def _read(files: Sequence[DataFile], columns: Sequence[str]) -> pa.Table | None:
    return read_files(files, columns) if files else pa.table({name: pa.nulls(0) for name in columns})


def _texts(result: QualityResult) -> list[Any]:
    # astuple copies each value, which takes longer than all else for ten thousand tables
    return [value.isoformat() if isinstance(value, datetime) else value for value in _values(result)]


def _result(texts: Sequence[Any]) -> QualityResult:
    values = dict(zip(_NAMES, texts, strict=True))
    values |= {name: datetime.fromisoformat(values[name]) for name in _TIMES}
    values |= {name: tuple(values[name]) for name in _LISTS}
    return QualityResult(**values)
