"""A large file is read in sections: the same lines with the same numbers, whoever reads them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bronze.files import sections
from bronze.files.arrow_reader import Reading, read_section
from bronze.files.listing import ListedFile
from bronze.files.sections import Section, sections_of

READING = Reading("orders", "lines", 1_700_000_000_123_456, folder="/")
LINES = st.lists(st.sampled_from((b"", b"\r", b"a", b"long" * 9, b"\xff\r\r", b"\0")), max_size=40).map(
    b"\n".join
)


def written(path: Path, content: bytes) -> ListedFile:
    path.write_bytes(content)
    status = path.stat()
    return ListedFile(path.name, str(path), status.st_size, status.st_mtime_ns // 1000)


def messages(section: Section) -> list[tuple[int, bytes]]:
    rows = [row for batch in read_section(section, READING) for row in batch.to_pylist()]
    assert all(row["line"] == row["offset"] for row in rows)
    return [(row["offset"], row["value"]) for row in rows]


def test_a_file_is_cut_behind_the_line_that_fills_a_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 4)
    file = written(tmp_path / "a.txt", b"one\ntwo\n\nthree\n")
    found = sections_of(file, "/", 100)
    assert [(section.start, section.size, section.lines) for section in found] == [
        (0, 8, 0),
        (8, 7, 2),
    ]
    assert [messages(section) for section in found] == [[(1, b"one"), (2, b"two")], [(4, b"three")]]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(LINES, st.integers(1, 12), st.integers(1, 9))
def test_the_sections_of_a_file_have_its_messages(content: bytes, size: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(sections, "SECTION_BYTES", size)
        patched.setattr(sections, "_CHUNK", chunk)
        file = written(Path(folder) / "a.txt", content)
        found = sections_of(file, folder, 1_000)
        assert [each for section in found for each in messages(section)] == messages(Section(file))
        assert sum(section.size or file.size - section.start for section in found) == file.size


@pytest.mark.parametrize(
    ("name", "content", "most_lines"),
    [
        ("compressed.gz", b"x\n" * 100, 1_000),
        ("too many lines.txt", b"x\n" * 100, 99),
        ("one line.txt", b"x" * 100, 1_000),
    ],
)
def test_such_a_file_is_one_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, most_lines: int
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 10)
    file = written(tmp_path / name, content)
    assert sections_of(file, str(tmp_path), most_lines) == [Section(file)]


def test_a_file_that_is_gone_or_a_link_is_left_to_the_task_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 10)
    gone = ListedFile("a.txt", str(tmp_path / "a.txt"), 100, 1)
    assert sections_of(gone, str(tmp_path), 1_000) == [Section(gone)]
