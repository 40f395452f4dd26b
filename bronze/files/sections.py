"""Sections of large files: tasks read them side by side, and a line keeps its number in the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bronze.files.listing import ListedFile
from bronze.files.local_files import open_file
from bronze.files.zeros import ZerosError, check_holes

SECTION_BYTES = 32 * 1024 * 1024
_CHUNK = 1024 * 1024
_LINE_END = 10


@dataclass(frozen=True, slots=True)
class Section:
    """Whole lines of a file.

    Attributes:
        listed: The file.
        start: The byte with which the section begins: the first of the file, or of a line.
        size: How many bytes it has; None for all that follow, however the file is compressed.
        lines: How many lines of the file are before it.
    """

    listed: ListedFile
    start: int = 0
    size: int | None = None
    lines: int = 0


def sections_of(
    listed: ListedFile, folder: str, most_lines: int, *, follow_links: bool = False
) -> list[Section]:
    """The sections of a file below a folder, in order; its line ends are counted in this process.

    A compressed file is one section. So is a file with more than `most_lines` lines, or with more zero
    bytes than a file may have, and one that cannot be read: the task that reads it says what is wrong.
    """
    if not is_large(listed):
        return [Section(listed)]
    try:
        sections, lines = _cut(listed, folder, follow_links)
    except (OSError, ZerosError):
        return [Section(listed)]
    return sections if lines <= most_lines else [Section(listed)]


def is_large(listed: ListedFile) -> bool:
    """Whether a file may have several sections."""
    return listed.size >= 2 * SECTION_BYTES and not listed.file.endswith(".gz")


def _cut(listed: ListedFile, folder: str, follow_links: bool) -> tuple[list[Section], int]:
    """Cuts a file behind the first line end after each SECTION_BYTES; also returns how many lines it has."""
    sections: list[Section] = []
    start = lines = lines_before = position = 0
    with open_file(listed.path, folder, follow_links=follow_links) as file:
        check_holes(file.fileno())
        while chunk := file.read(_CHUNK):
            begin, is_end = 0, np.frombuffer(chunk, np.uint8) == _LINE_END
            while position + len(chunk) - start > SECTION_BYTES:
                end = chunk.find(b"\n", max(begin, start + SECTION_BYTES - position)) + 1
                if not end:
                    break
                lines += int(np.count_nonzero(is_end[begin:end]))
                sections.append(Section(listed, start, position + end - start, lines_before))
                start, lines_before, begin = position + end, lines, end
            lines += int(np.count_nonzero(is_end[begin:]))
            position += len(chunk)
    if start < position or not sections:
        sections.append(Section(listed, start, None, lines_before))
    return sections, lines + 1
