"""Sections of large files: tasks read them side by side, and a line keeps its number in the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from bronze.files.listing import ListedFile
from bronze.files.local_files import open_file
from bronze.files.zeros import ZerosError, check_holes

SECTION_BYTES = 32 * 1024 * 1024
_CHUNK = 1024 * 1024
_PEEK = 64 * 1024
_THREADS = 4
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
    files: Iterable[ListedFile], folder: str, most_lines: int, *, follow_links: bool = False
) -> dict[ListedFile, list[Section]]:
    """The sections of files below a folder, in order; line ends of large files are counted in this process.

    Large files, and the sections of one, are read side by side. A compressed file is one section. So is a
    file with more than `most_lines` lines, or with more zero bytes than a file may have, and one that cannot
    be read: the task that reads it says what is wrong.
    """

    def spans_of(listed: ListedFile) -> list[_Span]:
        try:
            with open_file(listed.path, folder, follow_links=follow_links) as file:
                check_holes(file.fileno())
                return _spans(file.fileno())
        except (OSError, ZerosError):
            return []

    def lines_of(listed: ListedFile, span: _Span) -> int:
        with open_file(listed.path, folder, follow_links=follow_links) as file:
            return _line_ends(file.fileno(), span)

    found = {listed: [Section(listed)] for listed in files}
    large = [listed for listed in found if is_large(listed)]
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:  # reading and counting leave Python's lock alone
        cut = dict(zip(large, pool.map(spans_of, large), strict=True))
        counted = {listed: pool.map(partial(lines_of, listed), spans) for listed, spans in cut.items()}
        for listed, spans in cut.items():
            try:
                before = list(accumulate(counted[listed], initial=0))
            except OSError:
                continue
            if spans and before[-1] + 1 <= most_lines:
                found[listed] = [
                    Section(listed, span.start, span.size, lines)
                    for span, lines in zip(spans, before, strict=False)
                ]
    return found


def is_large(listed: ListedFile) -> bool:
    """Whether a file may have several sections."""
    return listed.size >= 2 * SECTION_BYTES and not listed.file.endswith(".gz")


class _Span(NamedTuple):
    """The bytes of a section: the first one, and how many; None for all that follow."""

    start: int
    size: int | None


def _spans(descriptor: int) -> list[_Span]:
    """Cuts an open file behind the first line end after each SECTION_BYTES; reads little else of it."""
    spans, start = list[_Span](), 0
    while end := _behind_line_end(descriptor, start + SECTION_BYTES):
        spans.append(_Span(start, end - start))
        start = end
    if not spans or os.pread(descriptor, 1, start):
        spans.append(_Span(start, None))
    return spans


def _behind_line_end(descriptor: int, position: int) -> int | None:
    """Where the line begins that follows this byte's; None where the file ends before."""
    while chunk := os.pread(descriptor, _PEEK, position):
        if found := chunk.find(_LINE_END) + 1:
            return position + found
        position += len(chunk)
    return None


def _line_ends(descriptor: int, span: _Span) -> int:
    """How many line ends these bytes of an open file have."""
    lines, position = 0, span.start
    end = sys.maxsize if span.size is None else span.start + span.size
    while chunk := os.pread(descriptor, min(_CHUNK, end - position), position):
        lines += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == _LINE_END))
        position += len(chunk)
    return lines
