"""Row groups that tasks read themselves."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from framework.lakehouse.row_groups import (
    RowGroup,
    read_row_groups,
    row_groups,
    rows_with_texts,
    shares_of,
)


def written(folder: Path, name: str, rows: range, size: int) -> Path:
    file = folder / name
    table = pa.table({"id": list(rows), "text": [str(row) for row in rows]})
    parquet.write_table(table, file, row_group_size=size)
    return file


def test_the_rows_of_all_groups_come_in_their_order(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20é#?"
    folder.mkdir()
    files = [written(folder, f"{part} 1.parquet", range(part, part + 10), 4) for part in (0, 10)]
    groups = row_groups([files[0].as_uri(), str(files[1])], ["id"])
    assert groups is not None
    assert [(Path(group.path), group.number, group.rows) for group in groups] == [
        (file, number, rows) for file in files for number, rows in enumerate((4, 4, 2))
    ]
    batches = list(read_row_groups(groups, ["text", "id"], 3))
    assert [row for batch in batches for row in batch["id"].to_pylist()] == list(range(20))
    assert [batch.schema.names for batch in batches] == [["text", "id"]] * len(batches)
    assert max(batch.num_rows for batch in batches) == 3


@pytest.mark.parametrize("sizes", [(99, 101), (101, 99), (100, 100), (60, 40, 100), (1, 99, 100)])
def test_two_tasks_share_groups_of_about_half_the_size(sizes: tuple[int, ...]) -> None:
    groups = [RowGroup("f", number, 1, size) for number, size in enumerate(sizes)]
    first, second = (sum(group.size for group in share) for share in shares_of(groups, 2))
    assert 90 < first < 110
    assert 90 < second < 110


@pytest.mark.parametrize("fault", ["gone", "no parquet", "lacks a column"])
def test_files_that_cannot_be_read_here_are_left_to_spark(tmp_path: Path, fault: str) -> None:
    file = written(tmp_path, "1.parquet", range(3), 3)
    other = tmp_path / "2.parquet"
    if fault == "no parquet":
        other.write_bytes(b"PAR")
    elif fault == "lacks a column":
        parquet.write_table(pa.table({"id": [1]}), other)
    assert row_groups([str(file), str(other)], ["id", "text"]) is None


def test_shares_are_neighbours_of_about_the_same_size() -> None:
    draw = random.Random(5)
    for _ in range(500):
        groups = [RowGroup("f", number, 1, draw.randrange(100)) for number in range(draw.randrange(30))]
        count = draw.randrange(1, 12)
        shares = shares_of(groups, count)
        assert [group for share in shares for group in share] == groups
        assert len(shares) <= count
        assert all(shares)
        fair = sum(max(group.size, 1) for group in groups) / count
        most = max((group.size for group in groups), default=0) + 1
        assert all(sum(group.size for group in share) <= fair + most for share in shares)


def test_rows_with_some_texts_are_read_from_the_groups_that_may_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(written(tmp_path, f"{part}.parquet", range(part, part + 40), 10)) for part in (10, 50)]
    read = list[tuple[int, object]]()
    read_group = parquet.ParquetFile.read_row_group

    def noted(opened: parquet.ParquetFile, number: int, columns: list[str] | None = None) -> pa.Table:
        read.append((number, columns))
        return read_group(opened, number, columns)

    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", noted)
    texts = ("05", "12", "19", "33", "3x", "71", "99")
    found = pa.concat_tables(rows_with_texts(files, "text", texts)).to_pylist()
    assert found == [{"id": number, "text": str(number)} for number in (12, 19, 33, 71)]
    assert read == [(0, ["text"]), (0, None), (2, ["text"]), (2, None), (2, ["text"]), (2, None)]
    assert list(rows_with_texts(files, "text", ["3x"])) == []


def test_rows_with_some_texts_are_found_in_groups_without_statistics(tmp_path: Path) -> None:
    file = str(tmp_path / "a.parquet")
    parquet.write_table(pa.table({"text": ["a", None, "b"]}), file, write_statistics=False)
    (found,) = rows_with_texts([file], "text", ["b", "c"])
    assert found.to_pylist() == [{"text": "b"}]
