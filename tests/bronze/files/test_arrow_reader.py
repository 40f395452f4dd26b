from __future__ import annotations

import gzip
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from bronze.files.arrow_reader import ARROW_MESSAGES, CHUNK, Reading, read_section
from bronze.files.gzip_members import ALWAYS_UNPACKED, MOST_IDLE
from bronze.files.listing import ListedFile
from bronze.files.sections import Section
from bronze.files.zeros import MOST_ZEROS
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError

READING = Reading("orders", "lines", 1_700_000_000_123_456, folder="/")


def written(path: Path, content: bytes) -> ListedFile:
    path.write_bytes(content)
    status = path.stat()
    return ListedFile(path.name, str(path), status.st_size, status.st_mtime_ns // 1000)


def values(found: ListedFile) -> list[bytes]:
    return [
        value
        for batch in read_section(Section(found), READING)
        for value in batch.column("value").to_pylist()
    ]


def test_batches_have_the_columns_of_the_table() -> None:
    assert [(field.name, field.type) for field in to_arrow_schema(MESSAGES)] == [
        (field.name, field.type) for field in ARROW_MESSAGES
    ]


def test_row_holds_bytes_coordinates_and_the_pinned_time(tmp_path: Path) -> None:
    (batch,) = read_section(Section(written(tmp_path / "a.txt", b"\nx\xff\r\n")), READING)
    (row,) = batch.to_pylist()
    assert str(row.pop("ingested_at")) == "2023-11-14 22:13:20.123456+00:00"
    assert row == {
        "source": "orders",
        "topic": "a.txt",
        "partition": 0,
        "offset": 2,
        "timestamp": None,
        "key": None,
        "value": b"x\xff",
        "headers": None,
        "file": "a.txt",
        "line": 2,
    }


def test_gzip_members_are_read_as_one_text(tmp_path: Path) -> None:
    content = gzip.compress(b"a\nb") + gzip.compress(b"c\n") + gzip.compress(b"")
    assert values(written(tmp_path / "a.txt.gz", content)) == [b"a", b"bc"]


@pytest.mark.parametrize(
    ("content", "action"),
    [
        (gzip.compress(b"a" * 1000)[:-5], "complete file"),
        (b"no gzip", "a name without `.gz`"),
        (gzip.compress(b"a\n") + b"rubbish", "complete file"),
    ],
    ids=["cut", "another", "rubbish"],  # gzip writes the time, and workers must find the same tests
)
def test_broken_gzip_stops_with_its_name(tmp_path: Path, content: bytes, action: str) -> None:
    with pytest.raises(MainstemError) as raised:
        values(written(tmp_path / "a.gz", content))
    assert (raised.value.condition, "a.gz" in raised.value.where) == ("FILE_CORRUPT", True)
    assert action in raised.value.action


def test_empty_file_gives_nothing(tmp_path: Path) -> None:
    assert values(written(tmp_path / "a.txt", b"")) == []
    assert values(written(tmp_path / "a.gz", b"")) == []


def test_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    batches = read_section(Section(written(path, b"line\n" * 20_000)), READING)
    next(batches)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(MainstemError) as raised:
        list(batches)
    assert raised.value.condition == "FILE_CHANGED"


def test_file_other_than_the_one_taken_up_is_refused(tmp_path: Path) -> None:
    found = written(tmp_path / "a.txt", b"a\n")
    os.utime(tmp_path / "a.txt", (1, 1))
    with pytest.raises(MainstemError) as raised:
        values(found)
    assert raised.value.condition == "FILE_CHANGED"


def test_vanished_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MainstemError) as raised:
        values(ListedFile("a.txt", str(tmp_path / "a.txt"), 1, 1))
    assert raised.value.condition == "FILE_VANISHED"


def test_a_small_gzip_file_that_holds_far_more_than_its_size_stops_its_source(tmp_path: Path) -> None:
    bomb = written(tmp_path / "bomb.gz", gzip.compress(b"\n" * (ALWAYS_UNPACKED + CHUNK)))
    with pytest.raises(MainstemError, match="FILE_INFLATED") as stopped:
        list(read_section(Section(bomb), READING))
    assert "max_gzip_ratio" in str(stopped.value)
    assert bomb.path in str(stopped.value)
    assert list(read_section(Section(bomb), replace(READING, max_gzip_ratio=2_000))) == []
    copied = written(
        tmp_path / "small.gz", gzip.compress(b"x" * 1_000 + b"\n", 9) + gzip.compress(b"y" * 1_000_000)
    )
    assert [len(value) for value in values(copied)] == [1_000, 1_000_000]


def test_zero_bytes_after_the_gzip_data_are_left_out(tmp_path: Path) -> None:
    padded = gzip.compress(b"a\n") + bytes(1_000) + gzip.compress(b"b\n") + bytes(512)
    assert values(written(tmp_path / "a.gz", padded)) == [b"a", b"b"]


@pytest.mark.parametrize("filler", ["padding", "name", "empty members"])
def test_a_gzip_file_that_is_filled_up_stops_its_source_at_once(tmp_path: Path, filler: str) -> None:
    full = gzip.compress(b"a\n")
    content = {
        "padding": full + bytes(8 * MOST_IDLE),
        "name": full[:3] + b"\x08" + full[4:10] + b"n" * (8 * MOST_IDLE) + b"\0" + full[10:],
        "empty members": full + gzip.compress(b"") * (MOST_IDLE // 10),
    }
    found = written(tmp_path / "a.gz", content[filler])
    begun = time.process_time()
    with pytest.raises(MainstemError, match="FILE_CORRUPT") as stopped:
        values(found)
    assert time.process_time() - begun < 1
    assert f"{MOST_IDLE:,} bytes in a row" in str(stopped.value)


def test_padding_does_not_raise_what_a_gzip_file_may_hold(tmp_path: Path) -> None:
    bomb = gzip.compress(b"\n" * (ALWAYS_UNPACKED + CHUNK)) + bytes(MOST_IDLE)
    with pytest.raises(MainstemError, match="FILE_INFLATED"):
        values(written(tmp_path / "a.gz", bomb))


def with_hole(path: Path, size: int, content: bytes = b"") -> ListedFile:
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(content)
    status = path.stat()
    return ListedFile(path.name, str(path), status.st_size, status.st_mtime_ns // 1000)


@pytest.mark.parametrize("name", ["a.jsonl", "a.gz"])
@pytest.mark.parametrize("content", [b"", b"x\n"], ids=["empty", "data"])
def test_a_large_file_that_uses_no_disk_stops_its_source_at_once(
    tmp_path: Path, name: str, content: bytes
) -> None:
    found = with_hole(tmp_path / name, 2**40, content)
    begun = time.process_time()
    with pytest.raises(MainstemError, match="FILE_SPARSE") as stopped:
        values(found)
    assert time.process_time() - begun < 1
    assert found.path in str(stopped.value)


def test_a_small_hole_is_part_of_its_line(tmp_path: Path) -> None:
    assert values(with_hole(tmp_path / "a.jsonl", 100_000, b"x\ny")) == [bytes(100_000) + b"x", b"y"]


def test_zeros_that_were_written_stop_the_source_too(tmp_path: Path) -> None:
    found = written(tmp_path / "a.jsonl", b"a\n" + bytes(MOST_ZEROS + 3 * CHUNK))
    with pytest.raises(MainstemError, match="FILE_SPARSE"):
        values(found)
    assert values(written(tmp_path / "b.jsonl", b"a\n" + bytes(CHUNK * 3) + b"\nb"))[0::2] == [b"a", b"b"]


def test_a_file_of_more_messages_than_one_may_hold_stops_its_source(tmp_path: Path) -> None:
    found = written(tmp_path / "a.txt", b"x\n" * 20 + b"\n" * 100)
    with pytest.raises(MainstemError, match="FILE_CROWDED") as stopped:
        list(read_section(Section(found), replace(READING, max_file_messages=19)))
    assert "max_file_messages" in str(stopped.value)
    assert (
        sum(batch.num_rows for batch in read_section(Section(found), replace(READING, max_file_messages=20)))
        == 20
    )


def test_empty_lines_cost_next_to_nothing(tmp_path: Path) -> None:
    found = written(tmp_path / "a.txt", b"\n" * 30_000_000 + b"\r\n" * 3_000_000 + b"x")
    begun = time.process_time()
    (batch,) = read_section(Section(found), READING)
    assert time.process_time() - begun < 3  # a step of Python for each line takes four times as long
    assert batch.column("line").to_pylist() == [33_000_001]
