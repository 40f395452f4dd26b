"""Files that tasks write: their row groups."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from framework.lakehouse import task_files
from framework.lakehouse.task_files import RowGroups, TaskFile

_SCHEMA = pa.schema({"number": pa.int64(), "table": pa.string(), "image": pa.map_(pa.string(), pa.string())})


def _batches(names: Iterable[str | None], size: int) -> list[pa.RecordBatch]:
    rows = [
        {"number": number, "table": name, "image": [("id", str(number)), ("none", None)]}
        for number, name in enumerate(names)
    ]
    return [pa.RecordBatch.from_pylist(rows[at : at + size], _SCHEMA) for at in range(0, len(rows), size)]


def _written(folder: Path, batches: Iterable[pa.RecordBatch], groups: RowGroups) -> parquet.ParquetFile:
    with TaskFile(str(folder), _SCHEMA, ["table"], groups) as file:
        for batch in batches:
            file.write(batch)
    assert file.path is not None
    return parquet.ParquetFile(file.path)


def _names_of_groups(file: parquet.ParquetFile) -> list[set[str | None]]:
    return [
        set(file.read_row_group(number)["table"].to_pylist())
        for number in range(file.metadata.num_row_groups)
    ]


def test_rows_of_many_tables_are_in_row_groups_by_table_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "_FEW_ROWS", 10)
    source = random.Random(7)
    often = [*("abcd" * 25), None]
    names = source.sample([*often, *(f"few {number}" for number in range(12))], len(often) + 12)
    file = _written(tmp_path, _batches(names, 7), RowGroups(15, 1_000_000, "table"))
    rows = file.read()
    assert sorted(rows["number"].to_pylist()) == list(range(len(names)))
    for name in set(names):
        mine = [row for row in rows.to_pylist() if row["table"] == name]
        assert [row["number"] for row in mine] == [at for at, one in enumerate(names) if one == name]
        assert all(row["image"] == [("id", str(row["number"])), ("none", None)] for row in mine)
    groups = _names_of_groups(file)
    assert [names for names in groups if names & set("abcd")] == [{one} for one in "abcd" for _ in (0, 1)]
    assert all(len(names) < 12 for names in groups)


def test_rows_of_one_table_are_written_when_a_row_group_is_full(tmp_path: Path) -> None:
    file = _written(tmp_path, _batches(["a"] * 40, 10), RowGroups(20, 1_000_000, "table"))
    assert [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)] == [20, 20]
    assert file.read()["number"].to_pylist() == list(range(40))


def test_rows_of_many_tables_do_not_wait_without_end(tmp_path: Path) -> None:
    names = [f"t{number % 50}" for number in range(400)]
    file = _written(tmp_path, _batches(names, 10), RowGroups(10, 1_000_000, "table"))
    first = file.read_row_group(0)["number"].to_pylist()
    assert max(first) < 200
    small = _written(tmp_path, _batches(names, 10), RowGroups(10_000, 1_000, "table"))
    assert small.metadata.num_row_groups > 10
