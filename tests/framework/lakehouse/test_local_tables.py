"""Rows of a local Delta table without Spark: those after a version, or None where Spark must read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from framework.lakehouse.local_tables import (
    LocalTable,
    Mark,
    appended_files,
    files_since,
    local_table,
    read_files,
)

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


class Table:
    """A Delta table of this process's own making: a log, checksums and files of rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.version = folder, folder / "_delta_log", -1
        self.live: dict[str, Mapping[str, Any]] = {}
        self.log.mkdir(parents=True)

    def commit(
        self,
        ids: Sequence[int] = (),
        remove: Sequence[str] = (),
        more: Sequence[Mapping[str, Any]] = (),
        is_change: bool = True,
        table: str = "one",
        reader: int = 1,
        features: Sequence[str] = ("deletionVectors",),
        **add: Any,
    ) -> str:
        """Commit a file with these ids, and without these files; returns the name of the file."""
        self.version += 1
        name = f"part-{self.version} of it.parquet"
        parquet.write_table(pa.table({"id": pa.array(ids, pa.int64())}), self.folder / name)
        size = (self.folder / name).stat().st_size
        stats = json.dumps({"numRecords": len(ids)})
        added = {"path": name.replace(" ", "%20"), "partitionValues": {}, "size": size, "stats": stats}
        added |= {"dataChange": is_change, **add}
        removed = [{"remove": {"path": path, "dataChange": is_change}} for path in remove]
        actions = [
            {"commitInfo": {"timestamp": self.version * 1000}},
            *more,
            *removed,
            *([{"add": added}] if ids else []),
        ]
        (self.log / f"{self.version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
        self.live = {path: file for path, file in self.live.items() if path not in remove}
        self.live |= {name: added} if ids else {}
        checksum = {
            "numFiles": len(self.live),
            "tableSizeBytes": sum(file["size"] for file in self.live.values()),
            "allFiles": list(self.live.values()),
            "metadata": {"id": table, "schemaString": json.dumps(SCHEMA), "partitionColumns": []},
            "protocol": {
                "minReaderVersion": reader,
                "readerFeatures": list(features) if reader > 1 else None,
            },
        }
        (self.log / f"{self.version:020d}.crc").write_text(json.dumps(checksum))
        return name

    def read(self) -> LocalTable | None:
        return local_table(str(self.folder), self.version)

    def new(self, since: int, until: int | None = None) -> list[int] | None:
        """The ids that came after a version; None where this process cannot tell."""
        last = Mark("one", self.version if until is None else until)
        files = appended_files(str(self.folder), Mark("one", since), last)
        if files is None:
            return None
        rows = read_files(files, ["id"])
        return [] if rows is None else rows["id"].to_pylist()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path / "table")
    made.commit([1, 2])
    made.commit([3])
    return made


def test_files_since_a_version_are_those_that_were_not_there(table: Table) -> None:
    table.commit([1], remove=["part-0 of it.parquet"])
    table.commit([4])
    table.commit([4, 5], remove=["part-3 of it.parquet"])
    found = table.read()
    assert found is not None

    def since(version: int, second: int) -> list[str] | None:
        files = files_since(found, version, datetime.fromtimestamp(second, UTC))
        return None if files is None else [file.path.name[:6] for file in files]

    assert since(1, 9) == ["part-2", "part-4"]
    assert since(4, 9) == []
    assert since(4, 3) is None  # that version came later: another table is in its place
    assert since(5, 9) is None
    (table.log / f"{2:020d}.json").unlink()
    assert (since(0, 9), since(2, 9), since(3, 9)) == (None, None, ["part-4"])


def test_rows_after_a_version_are_those_of_the_files_that_were_added(table: Table) -> None:
    assert table.new(1) == []
    assert table.new(0) == [3]
    table.commit([4, 5])
    assert table.new(0) == [3, 4, 5]
    assert table.new(0, until=1) == [3]


def test_the_newest_version_has_its_files_and_columns(table: Table) -> None:
    found = table.read()
    assert found is not None
    assert found.files is not None
    assert (found.mark, found.schema, [file.rows for file in found.files]) == (Mark("one", 1), SCHEMA, [2, 1])
    rows = read_files(found.files, ["id"])
    assert rows is not None
    assert rows["id"].to_pylist() == [1, 2, 3]


def test_a_commit_that_removes_rows_is_not_told(table: Table) -> None:
    table.commit([1], remove=["part-0 of it.parquet"])
    assert table.new(1) is None
    assert table.new(2) == []
    table.commit(remove=["part-1 of it.parquet"])
    assert table.new(2) is None


def test_the_same_rows_in_other_files_are_not_new(table: Table) -> None:
    table.commit([1, 2, 3], remove=["part-0 of it.parquet", "part-1 of it.parquet"], is_change=False)
    table.commit([4])
    assert table.new(1) == [4]


@pytest.mark.parametrize("action", ["metaData", "protocol"])
def test_other_columns_or_features_are_not_told(table: Table, action: str) -> None:
    table.commit([4], more=[{action: {}}])
    assert table.new(1) is None


def test_a_missing_commit_is_not_told(table: Table) -> None:
    table.commit([4])
    (table.log / f"{1:020d}.json").unlink()
    assert table.new(0) is None
    assert table.new(1) == [4]


def test_another_table_in_its_place_is_not_told(table: Table) -> None:
    assert appended_files(str(table.folder), Mark("other", 0), Mark("one", 1)) is None
    assert appended_files(str(table.folder), Mark("one", 2), Mark("one", 1)) is None


@pytest.mark.parametrize(
    "add",
    [
        {"deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "cardinality": 1}},
        {"partitionValues": {"day": "1"}},
        {"path": "/etc/passwd"},
        {"path": "../other/part.parquet"},
        {"stats": None},
    ],
)
def test_files_that_are_not_plain_rows_of_the_table_are_not_told(
    table: Table, add: Mapping[str, Any]
) -> None:
    table.commit([4], **add)
    assert (table.new(1), table.read()) == (None, None)


def test_a_table_that_readers_must_understand_more_of_is_not_told(table: Table) -> None:
    table.commit([4], reader=3, features=["timestampNtz"])
    assert table.read() is not None
    table.commit([4], reader=3, features=["timestampNtz", "columnMapping"])
    assert table.read() is None


def test_a_version_without_or_with_a_wrong_checksum_is_not_told(table: Table) -> None:
    file = table.log / f"{1:020d}.crc"
    said = json.loads(file.read_text())
    for wrong in ({**said, "numFiles": 3}, {**said, "tableSizeBytes": 0}, {}, []):
        file.write_text(json.dumps(wrong))
        assert table.read() is None
    file.unlink()
    assert table.read() is None
    assert local_table(str(table.folder), None) is None
    assert local_table("s3://bucket/table", 1) is None
    assert local_table("catalog.silver.changes", 1) is None


def test_many_files_are_not_listed(table: Table) -> None:
    file = table.log / f"{1:020d}.crc"
    file.write_text(json.dumps({k: v for k, v in json.loads(file.read_text()).items() if k != "allFiles"}))
    found = table.read()
    assert found is not None
    assert found.files is None


def test_a_missing_column_or_file_is_not_told(table: Table) -> None:
    found = table.read()
    assert found is not None
    assert found.files is not None
    assert read_files(found.files, ["id", "name"]) is None
    found.files[0].path.unlink()
    assert read_files(found.files, ["id"]) is None
