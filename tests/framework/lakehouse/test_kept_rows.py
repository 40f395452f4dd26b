"""Rows of a log that are kept: they are those of the log, whatever has become of it or of the copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from framework.lakehouse import kept_rows as module
from framework.lakehouse.kept_rows import Log, forget_kept_rows, keep_rows, kept_rows
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_tables import DataFile, read_files
from framework.lakehouse.table_reader import Row
from tests.benchmarks.lengthen import repeat

SCHEMA = pa.schema([("name", pa.string()), ("revision", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
TABLE = "ops/states"


def newest(rows: Iterable[Row]) -> Sequence[Row]:
    found: dict[str, Row] = {}
    for row in rows:
        found[row["name"]] = max(row, found.get(row["name"], row), key=lambda one: one["revision"])
    return list(found.values())


STATES = Log(TABLE, ("name", "revision"), newest)


class History:
    """A log in a lakehouse, written as Spark does: each commit has a checksum."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lakehouse(str(folder))
        self.location = Path(self.lake.location(TABLE))
        self.kept = Path(self.lake.checkpoints, "kept", "ops.states.parquet")

    def append(self, **revisions: int) -> None:
        moment = datetime(9999, 12, 31, tzinfo=UTC)
        rows = [{"name": name, "revision": number, "at": moment} for name, number in revisions.items()]
        write_deltalake(self.location, pa.Table.from_pylist(rows, SCHEMA), mode="append")
        self.check_sum()

    def check_sum(self) -> None:
        opened = DeltaTable(self.location)
        sizes = pa.table(opened.get_add_actions())["size_bytes"].to_pylist()
        said = {
            "numFiles": len(sizes),
            "tableSizeBytes": sum(sizes),
            "metadata": {
                "id": str(opened.metadata().id),
                "schemaString": opened.schema().to_json(),
                "partitionColumns": [],
            },
            "protocol": {"minReaderVersion": 1},
        }
        self.commit(opened.version()).with_suffix(".crc").write_text(json.dumps(said))

    def commit(self, version: int) -> Path:
        return self.location / "_delta_log" / f"{version:020d}.json"

    def read(self, log: Log = STATES) -> dict[str, int] | None:
        rows = kept_rows(self.lake, log)
        return None if rows is None else {row["name"]: row["revision"] for row in rows}


@pytest.fixture
def log(tmp_path: Path) -> History:
    """A log with two commits that are kept."""
    history = History(tmp_path / "lakehouse")
    history.append(a=1, b=1)
    history.append(a=2)
    keep_rows(history.lake, STATES)
    return history


@pytest.fixture
def reads() -> Iterator[list[int]]:
    """The number of files at each reading of some commits, and -1 for each reading of a whole log."""
    found: list[int] = []

    def some(files: Sequence[DataFile], columns: Iterable[str]) -> pa.Table | None:
        found.append(len(files))
        return read_files(files, columns)

    def whole(location: str, log: Log, read: object = module._whole) -> object:
        found.append(-1)
        return read(location, log)  # type: ignore[operator]

    with mock.patch.object(module, "read_files", some), mock.patch.object(module, "_whole", whole):
        yield found


def test_rows_of_later_commits_are_added(log: History) -> None:
    assert log.read() == {"a": 2, "b": 1}
    log.append(b=2, c=1)
    assert log.read() == {"a": 2, "b": 2, "c": 1}


def test_a_log_of_which_nothing_is_kept_must_be_read(tmp_path: Path) -> None:
    history = History(tmp_path / "lakehouse")
    keep_rows(history.lake, STATES)
    assert history.read() is None
    history.append(a=1)
    assert history.read() is None


def test_an_old_log_costs_no_more_files_than_a_young_one(log: History, reads: list[int]) -> None:
    for number in range(20):
        log.append(a=number + 3)
        assert log.read() == {"a": number + 3, "b": 1}
        keep_rows(log.lake, STATES)
    young, most = len(reads), max(reads)
    repeat(str(log.location), 400)
    log.check_sum()
    keep_rows(log.lake, STATES)
    reads.clear()
    for number in range(20):
        log.append(a=number + 500)
        assert log.read() == {"a": number + 500, "b": 1}
        keep_rows(log.lake, STATES)
    assert len(reads) <= young
    assert (min(reads), max(reads)) == (1, most)


def test_rows_are_as_they_are_kept_at_any_time(tmp_path: Path) -> None:
    random, history, expected = Random(21), History(tmp_path / "lakehouse"), dict[str, int]()
    for _ in range(60):
        names = random.sample("abcdefgh", random.randint(1, 3))
        rows = {name: random.randint(0, 1_000) for name in names}
        history.append(**rows)
        expected = {
            name: max(rows.get(name, 0), expected.get(name, 0)) for name in rows.keys() | expected.keys()
        }
        if random.random() < 0.3:
            keep_rows(history.lake, STATES)
        assert history.read() in (None, expected)
    assert history.read() == expected


@pytest.mark.parametrize("rest", [b"", b"PAR1", b"{}"])
def test_a_copy_that_is_gone_or_damaged_is_made_anew(log: History, rest: bytes) -> None:
    log.kept.write_bytes(rest) if rest else log.kept.unlink()
    assert log.read() is None
    keep_rows(log.lake, STATES)
    assert log.read() == {"a": 2, "b": 1}


def test_a_copy_of_another_form_does_not_count(log: History) -> None:
    with mock.patch.object(module, "_FORM", "0"):
        assert log.read() is None


def test_a_copy_of_other_columns_does_not_count(log: History) -> None:
    assert log.read(Log(TABLE, ("name", "revision", "at"), newest)) is None


def test_the_copy_of_a_log_that_began_anew_does_not_count(log: History) -> None:
    shutil.rmtree(log.location)
    assert log.read() is None
    keep_rows(log.lake, STATES)
    for number in range(4):
        log.append(z=number)
    assert log.read() is None
    keep_rows(log.lake, STATES)
    assert log.read() == {"z": 3}


def test_the_copy_of_a_log_that_was_put_back_does_not_count(log: History, tmp_path: Path) -> None:
    shutil.copytree(log.location, tmp_path / "backup")
    log.append(a=3)
    log.kept.unlink()
    keep_rows(log.lake, STATES)
    shutil.rmtree(log.location)
    shutil.copytree(tmp_path / "backup", log.location)
    assert log.read() is None
    log.append(b=5)  # as an earlier release would, which keeps nothing: the version is that of the copy
    assert log.read() is None
    log.append(b=6)
    assert log.read() is None
    keep_rows(log.lake, STATES)
    assert log.read() == {"a": 2, "b": 6}


def test_a_log_whose_rows_were_changed_is_read_whole(log: History) -> None:
    DeltaTable(log.location).update({"revision": "0"}, predicate="name = 'a'")
    log.check_sum()
    assert log.read() is None
    keep_rows(log.lake, STATES)
    assert log.read() == {"a": 0, "b": 1}


def test_a_log_that_was_compacted_has_the_same_rows(log: History, reads: list[int]) -> None:
    DeltaTable(log.location).optimize.compact()
    log.check_sum()
    log.append(c=1)
    assert log.read() == {"a": 2, "b": 1, "c": 1}
    assert reads == [1]


def test_a_log_whose_commits_are_gone_is_read_whole(log: History) -> None:
    log.append(a=3)
    log.append(a=4)
    for version in range(3):
        log.commit(version).rename(log.commit(version).with_suffix(".old"))
        assert log.read() == ({"a": 4, "b": 1} if version == 0 else None)


def test_a_log_that_is_not_as_spark_writes_it_is_read_whole(log: History) -> None:
    log.append(a=3)
    log.commit(2).with_suffix(".crc").unlink()
    assert log.read() is None


def test_rows_that_were_reduced_with_a_greater_number_do_not_count(log: History) -> None:
    def reduced(until: int) -> Log:
        return Log(TABLE, STATES.columns, newest, until)

    log.kept.unlink()
    keep_rows(log.lake, reduced(5))
    assert [log.read(reduced(until)) is None for until in (4, 5, 6)] == [True, False, False]


def test_nothing_is_kept_of_what_was_forgotten(log: History) -> None:
    forget_kept_rows(log.lake)
    assert not log.kept.exists()
    assert log.read() is None


def test_what_another_process_reads_is_not_kept(log: History, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Lakehouse(log.lake.root, added={TABLE: mock.Mock()})
    assert kept_rows(planned, STATES) is None
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    assert log.read() is None
    log.kept.unlink()
    keep_rows(log.lake, STATES)
    assert not log.kept.exists()


def test_a_folder_that_cannot_be_written_stops_nothing(log: History) -> None:
    shutil.rmtree(log.kept.parent)
    log.kept.parent.write_text("no folder")
    keep_rows(log.lake, STATES)
    assert log.read() is None


def test_times_outside_of_what_nanoseconds_can_hold_are_kept(log: History) -> None:
    times = Log(TABLE, ("name", "revision", "at"), newest)
    log.kept.unlink()
    keep_rows(log.lake, times)
    log.append(c=1)
    rows = kept_rows(log.lake, times)
    assert rows is not None
    assert {row["at"] for row in rows} == {datetime(9999, 12, 31, tzinfo=UTC)}
