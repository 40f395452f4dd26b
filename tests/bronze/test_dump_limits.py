"""What `seed` refuses before Spark reads a dump."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bronze.dump_limits import check_dump
from framework.config.sources import Source
from framework.errors import MainstemError
from tests.bronze.conftest import NoOptions


def source(**limits: int) -> Source:
    return Source(name="crm", format="debezium", files="/landing", options=NoOptions(), **limits)


def refusal(path: Path, **limits: int) -> MainstemError:
    with pytest.raises(MainstemError) as raised:
        check_dump(str(path), source(**limits))
    return raised.value


def test_dumps_of_usual_size_pass(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,Ann\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id,name\n2,Bob\n"))
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "c.parquet")
    (tmp_path / ".hidden.bz2").write_bytes(b"x")
    check_dump(str(tmp_path), source())
    check_dump(str(tmp_path / "a.csv"), source())
    check_dump("s3://bucket/a.csv.gz", source())
    check_dump(str(tmp_path / "missing.csv"), source())


def test_a_small_gzip_file_of_endless_content_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"id\n" + b"1\n" * 40_000_000))
    found = refusal(file)
    assert (found.condition, found.where) == ("DUMP_TOO_LARGE", str(file))
    assert "200 times" in found.found
    assert "`max_gzip_ratio`" in found.action
    check_dump(str(file), source(max_gzip_ratio=2_000))


def test_more_rows_than_a_feed_may_have_are_refused(tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id\n" + "1\n" * 10)
    pq.write_table(pa.table({"id": [1] * 11}), tmp_path / "b.parquet")
    for place in (tmp_path / "csv", tmp_path / "b.parquet"):
        found = refusal(place, max_file_messages=10)
        assert (found.condition, "`max_file_messages`" in found.action) == ("DUMP_TOO_LARGE", True)
        check_dump(str(place), source(max_file_messages=11))


def test_a_parquet_file_of_few_bytes_and_much_content_is_refused(tmp_path: Path) -> None:
    table = pa.table({"text": ["x" * 1_000_000] * 100})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert "200 times its size" in refusal(tmp_path / "a.parquet").found


def test_a_file_that_uses_no_disk_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("wb") as file:
        file.write(b"id\n")
        file.truncate(10**12)
    assert "zeros" in refusal(tmp_path / "a.csv").found


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bronze.dump_limits.MAX_LINE_BYTES", 10_000_000)
    (tmp_path / "a.csv").write_bytes(b"id\n" + b"x" * 10_000_001)
    assert "a line of more than 10,000,000 bytes" in refusal(tmp_path / "a.csv").found


def test_what_spark_would_unpack_or_wait_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n1\n")[:-9])
    assert "not a complete gzip file" in refusal(tmp_path / "a.csv.gz").found
    (tmp_path / "bombs").mkdir()
    (tmp_path / "bombs" / "b.csv.bz2").write_bytes(b"x")
    assert "not gzip" in refusal(tmp_path / "bombs").found
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "c.csv")
    assert "neither a file nor a folder" in refusal(tmp_path / "pipes").found


def test_a_folder_that_contains_itself_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "again").symlink_to(tmp_path)
    check_dump(str(tmp_path), source())


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("id,name\n1,pen\n2,Ärger\n".encode("latin-1"), 3),
        ("id,größe\n1,2\n".encode("latin-1"), 1),
        ("id,name\n1,中文\n".encode("gbk"), 2),
        ("id,name\n1,pen\n".encode("utf-16"), 1),
        ("id,name\n1,Ä".encode()[:-1], 2),
        (b"id\n" + b"1\n" * 3_000_000 + b"\xff\n" + b"2\n" * 3_000_000, 3_000_002),
    ],
)
def test_a_file_that_is_not_utf_8_is_refused_and_the_line_named(
    tmp_path: Path, content: bytes, line: int
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(content))
    for name in ("a.csv", "b.csv.gz"):
        found = refusal(tmp_path / name)
        assert (found.condition, found.found) == ("DUMP_UNREADABLE", f"line {line:,} is not UTF-8")
        assert "as UTF-8" in found.action


def test_every_text_of_utf_8_passes_also_across_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bronze.dump_limits._CHUNK", 3)
    (tmp_path / "a.csv").write_text("\ufeffid,größe\n1,中文 🖋 \ufffd\n", encoding="utf-8")
    check_dump(str(tmp_path / "a.csv"), source())
