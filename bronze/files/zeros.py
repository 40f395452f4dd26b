"""Finds zero bytes in files: a file that uses no disk may have any size, and reading it may take days."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

from bronze.files.line_parser import MAX_LINE_BYTES

MOST_ZEROS = MAX_LINE_BYTES
"""Zero bytes that a file may have in its holes or in a row: such a run is longer than any line that lands."""


class ZerosError(Exception):
    """A file has more zero bytes than it may."""


def check_holes(descriptor: int) -> None:
    """Raises ZerosError where more than `MOST_ZEROS` bytes of an open file were never written.

    Says nothing where the file system does not tell. The position in the file is 0 afterwards.
    """
    size = os.fstat(descriptor).st_size
    holes = end = 0
    try:
        while (begin := os.lseek(descriptor, end, os.SEEK_HOLE)) < size:
            end = _data_after(descriptor, begin, size)
            holes += end - begin
            if holes > MOST_ZEROS:
                raise ZerosError
            if end >= size:
                break
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENXIO, errno.ENOTSUP):
            raise
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def _data_after(descriptor: int, hole: int, size: int) -> int:
    """Where the next data begins, the size of the file where none follows."""
    try:
        return os.lseek(descriptor, hole, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return size


def without_long_zeros(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same chunks; raises ZerosError where chunks of zeros alone have more than `MOST_ZEROS` bytes."""
    zeros = 0
    for chunk in chunks:
        zeros = zeros + len(chunk) if chunk.count(0) == len(chunk) else 0
        if zeros > MOST_ZEROS:
            raise ZerosError
        yield chunk
