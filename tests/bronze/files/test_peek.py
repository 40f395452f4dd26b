from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

from bronze.files.gzip_members import ALWAYS_UNPACKED, MOST_IDLE
from bronze.files.peek import peek_messages
from framework.contracts.file_messages import Sample


def test_gzip_file_is_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n\nb\n"))
    found = [(each.line, each.message.value, each.fault) for each in peek_messages(tmp_path)]
    assert found == [(1, b"a", None), (3, b"b", None)]


def test_gzip_file_that_is_filled_up_ends_with_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n") + bytes(16 * MOST_IDLE))
    begun = time.process_time()
    first, last = peek_messages(tmp_path)
    assert time.process_time() - begun < 1
    assert (first.message.value, f"{MOST_IDLE:,} bytes in a row" in (last.fault or "")) == (b"a", True)


def test_gzip_file_with_endless_content_ends_with_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\n" * (2 * ALWAYS_UNPACKED)))
    (last,) = peek_messages(tmp_path)
    assert "more than 200 times" in (last.fault or "")


def test_file_without_content_on_the_disk_is_a_fault_at_once(tmp_path: Path) -> None:
    with (tmp_path / "a.jsonl").open("wb") as file:
        file.truncate(2**40)
    begun = time.process_time()
    (only,) = peek_messages(tmp_path)
    assert time.process_time() - begun < 1
    assert "bytes of zeros" in (only.fault or "")


def test_sample_has_messages_of_every_file(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"x\n" * 1_000)
    sample = Sample(messages=300)
    found = [each.file for each in peek_messages(tmp_path, sample)]
    assert found == ["a"] * 100 + ["b"] * 100 + ["c"] * 100
    assert (sample.messages, sample.is_cut) == (0, True)


def test_what_a_small_file_does_not_need_is_for_the_files_after_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x\n")
    (tmp_path / "b").write_bytes(b"x\n" * 299)
    sample = Sample(messages=300)
    assert len(list(peek_messages(tmp_path, sample))) == 300
    assert not sample.is_cut


def test_sample_ends_before_the_line_that_it_would_cut(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"aa\nbb\ncc\n"))
    sample = Sample(size=7)
    assert [each.message.value for each in peek_messages(tmp_path, sample)] == [b"aa", b"bb"]
    assert sample.is_cut


def test_sample_names_what_a_run_would_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"{}\n")
    (tmp_path / os.fsdecode(b"b\xe4.json")).write_bytes(b"{}\n")
    sample = Sample()
    assert [each.file for each in peek_messages(tmp_path, sample)] == ["a.json"]
    (skipped,) = sample.skipped
    assert skipped.startswith("b\\xe4.json: a name that is not UTF-8")


def test_sample_of_an_empty_folder_is_all_of_it(tmp_path: Path) -> None:
    sample = Sample()
    assert (list(peek_messages(tmp_path, sample)), sample.is_cut) == ([], False)
