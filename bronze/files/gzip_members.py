"""Decompresses gzip files that strangers wrote: the work is in proportion to the compressed data."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import FileIO
from typing import BinaryIO

ALWAYS_UNPACKED = 64 * 1024 * 1024
"""Bytes of a gzip file that are read whatever the ratio: a small file may well repeat one line many times."""

MOST_IDLE = 1024 * 1024
"""Bytes in a row that may give no content: zero bytes after a member, names in headers, empty members."""

_READ_BYTES = 1024 * 1024
_PIECE = 16 * 1024  # zlib copies what follows a member: with larger pieces, tiny members would be slow
_MEMBER = 31  # the `wbits` of zlib for one gzip member with its header and its checksum


class InflatedError(Exception):
    """A gzip file decompresses to more than it may."""


def unpacked(file: BinaryIO | FileIO, ratio: int, most: int) -> Iterator[bytes]:
    """The content of all members of an open gzip file, in chunks of at most `most` bytes.

    Raises:
        InflatedError: The content is larger than `ALWAYS_UNPACKED` and than `ratio` times the compressed
            bytes that gave it. Padding does not count.
        EOFError: The file ends within a member.
        zlib.error: The file is no gzip, or more than `MOST_IDLE` bytes of it in a row give no content.
    """
    member = zlib.decompressobj(_MEMBER)
    is_open, idle, used, size = False, 0, 0, 0
    for whole in _pieces(file):
        piece = whole
        while piece:
            if not is_open:
                rest = piece.lstrip(b"\0") if size or idle else piece
                idle += len(piece) - len(rest)
                piece, is_open, member = rest, bool(rest), zlib.decompressobj(_MEMBER)
            content = member.decompress(piece, most) if piece else b""
            rest = member.unused_data if member.eof else member.unconsumed_tail
            is_open = is_open and not member.eof
            taken, piece = len(piece) - len(rest), rest
            if content:
                idle, used, size = 0, used + taken, size + len(content)
                if size > ALWAYS_UNPACKED and size > ratio * used:
                    raise InflatedError
                yield content
            else:
                idle += taken
            if idle > MOST_IDLE:
                raise zlib.error(f"more than {MOST_IDLE:,} bytes in a row without content")
    if is_open:
        raise EOFError("the compressed file ends within its data")


def _pieces(file: BinaryIO | FileIO) -> Iterator[bytes]:
    while block := file.read(_READ_BYTES):
        yield from (block[start : start + _PIECE] for start in range(0, len(block), _PIECE))
