"""A task gets what it reads, and next to nothing of what other tasks read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from bronze.files import local_files, sections
from bronze.files.arrow_reader import Reader, Reading
from bronze.files.listing import ListedFile
from bronze.files.message_files import _writer
from bronze.files.sections import Section
from bronze.files.task_groups import content_reader, grouped, pack, path_reader, unpack
from framework.errors import MainstemError

READING = Reading("orders", "lines", 1_700_000_000_123_456, folder="/")

dumps: Callable[[Reader], bytes] = cloudpickle.dumps


def written(path: Path, content: bytes) -> ListedFile:
    path.write_bytes(content)
    status = path.stat()
    return ListedFile(path.name, str(path), status.st_size, status.st_mtime_ns // 1000)


def found(read: Reader, **columns: list[object]) -> list[tuple[bytes, int]]:
    batches = read([pa.RecordBatch.from_pydict(columns)])
    rows = [row for batch in batches for row in batch.to_pylist()]
    micros = [row["ingested_at"].timestamp() * 1_000_000 for row in rows]
    return [(row["value"], round(at) - READING.ingested_at) for row, at in zip(rows, micros, strict=True)]


def many(count: int) -> list[ListedFile]:
    names = [f"2026/01/{number % 31:02d}/orders-{number:08d}.json" for number in range(count)]
    return [
        ListedFile(name, f"/landing/{name}", 10_000, 1_700_000_000_000_000 + number)
        for number, name in enumerate(names)
    ]


def test_a_group_comes_back_as_it_was_packed() -> None:
    first, second = ListedFile("ä\udcff\n.gz", "/l/ä\udcff\n.gz", 9, 1), ListedFile("b", "/other/b", 2**40, 2)
    group = [Section(first), Section(second, 7, 9, 3), Section(second, 16, None, 4)]
    places = {first.file: 4, second.file: 0, "c": 2}
    assert unpack(pack(group, replace(READING, places=places)), READING) == (
        group,
        replace(READING, places={first.file: 4, second.file: 0}),
    )


def test_a_task_reads_the_files_of_its_groups_alone(tmp_path: Path) -> None:
    files = [written(tmp_path / name, name.encode()) for name in ("a", "b", "c")]
    reading = replace(READING, places={"a": 0, "b": 1, "c": 2})
    read = path_reader(reading, [[Section(file)] for file in files])
    assert found(read, id=[2]) == [(b"c", 2)]
    assert found(read, id=[1, 0]) == [(b"b", 1), (b"a", 0)]


def test_a_task_finds_each_file_whose_contents_it_has() -> None:
    files = many(100)
    reading = replace(READING, places={file.file: place for place, file in enumerate(files)})
    read = content_reader(reading, files)

    def columns(chosen: list[ListedFile], length: int) -> dict[str, list[object]]:
        return {
            "path": [file.path for file in chosen],
            "length": [length] * len(chosen),
            "modified_at": [file.modified_at for file in chosen],
            "content": [file.file.encode() for file in chosen],
        }

    chosen = files[::-1]
    expected = [(file.file.encode(), reading.places[file.file]) for file in chosen]
    assert found(read, **columns(chosen, 10_000)) == expected
    with pytest.raises(MainstemError, match="FILE_CHANGED"):
        found(read, **columns(chosen[:1], 9_999))


def test_the_command_of_a_task_has_no_list_of_all_files(tmp_path: Path) -> None:
    """What each task loads again: 1.3 MB, were all files in it as they are."""
    files = many(10_000)
    reading = replace(READING, places={file.file: place for place, file in enumerate(files)})
    groups = grouped(files, reading)
    assert len(groups) > 20
    assert len(dumps(_writer(groups, reading, str(tmp_path)))) < 4_000
    assert len(dumps(path_reader(reading, groups))) < 20 * len(files)
    assert len(dumps(content_reader(reading, files))) < 40 * len(files)


def test_large_files_are_cut_side_by_side_and_stay_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 4)
    together = threading.Barrier(2, timeout=60)

    def open_together(*given: Any, **named: Any) -> Any:
        together.wait()
        return local_files.open_file(*given, **named)

    monkeypatch.setattr("bronze.files.sections.open_file", open_together)
    contents = {"a": b"one\ntwo\n\nthree\n", "b": b"4", "c": b"five\nsix\nseven"}
    files = [written(tmp_path / name, content) for name, content in contents.items()]
    groups = grouped(files, replace(READING, folder=str(tmp_path)))
    found = [(section.listed.file, section.start, section.lines) for group in groups for section in group]
    assert found == [("a", 0, 0), ("a", 8, 2), ("b", 0, 0), ("c", 0, 0), ("c", 5, 1)]
    assert unpack(pack(groups[1], READING), READING)[0] == groups[1]
