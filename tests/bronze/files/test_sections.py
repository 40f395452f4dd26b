"""A large file is read in sections: the same lines with the same numbers, whoever reads them."""

from __future__ import annotations

import tempfile
import threading
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bronze.files import sections
from bronze.files.arrow_reader import Reading, read_section
from bronze.files.listing import ListedFile
from bronze.files.local_files import open_file
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
    found = sections_of([file], "/", 100)[file]
    assert [(section.start, section.size, section.lines) for section in found] == [
        (0, 8, 0),
        (8, 7, 2),
    ]
    assert [messages(section) for section in found] == [[(1, b"one"), (2, b"two")], [(4, b"three")]]


def cut_in_one_pass(file: ListedFile, content: bytes, size: int) -> list[Section]:
    """What the sections are: the simplest way to cut and to count, with the whole file in memory."""
    found, start = list[Section](), 0
    while (end := content.find(b"\n", start + size) + 1) > 0:
        found.append(Section(file, start, end - start, content.count(b"\n", 0, start)))
        start = end
    if start < len(content) or not found:
        found.append(Section(file, start, None, content.count(b"\n", 0, start)))
    return found


@settings(max_examples=400, derandomize=True, deadline=None)
@given(st.lists(LINES, max_size=4), st.integers(1, 12), st.integers(1, 9), st.integers(1, 9), st.data())
def test_files_are_cut_and_counted_as_one_pass_would(
    contents: list[bytes], size: int, chunk: int, peek: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(sections, "SECTION_BYTES", size)
        patched.setattr(sections, "_CHUNK", chunk)
        patched.setattr(sections, "_PEEK", peek)
        files = {written(Path(folder) / f"{n}.txt", content): content for n, content in enumerate(contents)}
        for file, content in files.items():  # since it was listed, a file may have grown
            files[file] = content + data.draw(
                st.sampled_from((b"", b"\n", b"\r\n", b"x" * 30, b"a\nb\n" * 9))
            )
            Path(file.path).write_bytes(files[file])
        most = data.draw(st.integers(1, 60))
        assert sections_of(files, folder, most) == {
            file: cut_in_one_pass(file, content, size)
            if file.size >= 2 * size and content.count(b"\n") < most
            else [Section(file)]
            for file, content in files.items()
        }


@settings(max_examples=200, derandomize=True, deadline=None)
@given(LINES, st.integers(1, 12), st.integers(1, 9))
def test_the_sections_of_a_file_have_its_messages(content: bytes, size: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(sections, "SECTION_BYTES", size)
        patched.setattr(sections, "_CHUNK", chunk)
        file = written(Path(folder) / "a.txt", content)
        found = sections_of([file], folder, 1_000)[file]
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
    assert sections_of([file], str(tmp_path), most_lines) == {file: [Section(file)]}


def test_a_file_that_is_gone_or_a_link_is_left_to_the_task_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 10)
    gone = ListedFile("a.txt", str(tmp_path / "a.txt"), 100, 1)
    assert sections_of([gone], str(tmp_path), 1_000) == {gone: [Section(gone)]}


def test_a_file_that_is_gone_once_it_was_cut_is_left_to_the_task_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 10)
    gone, kept = (written(tmp_path / name, b"a line\n" * 10) for name in ("a.txt", "b.txt"))
    opened = list[str]()

    def open_once(path: str, folder: str, *, follow_links: bool) -> FileIO:
        opened.append(path)
        if opened.count(gone.path) == 2:
            Path(gone.path).unlink(missing_ok=True)
        return open_file(path, folder, follow_links=follow_links)

    monkeypatch.setattr(sections, "open_file", open_once)
    found = sections_of([gone, kept], str(tmp_path), 1_000)
    assert found[gone] == [Section(gone)]
    assert len(found[kept]) > 1


def test_the_sections_of_one_file_are_counted_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 4)
    file, together = written(tmp_path / "a.txt", b"one\ntwo\n\nthree\n"), threading.Barrier(2, timeout=60)
    count = sections._line_ends

    def count_together(descriptor: int, span: Any) -> int:
        together.wait()
        return count(descriptor, span)

    monkeypatch.setattr(sections, "_line_ends", count_together)
    assert [section.lines for section in sections_of([file], str(tmp_path), 100)[file]] == [0, 2]
