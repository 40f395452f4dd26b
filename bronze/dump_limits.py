"""What is checked of the files of a dump before Spark reads them: limits, those of a feed's files, and UTF-8.

The limits hold for CSV and Parquet on this machine. A Delta table is read as its log says, and files of an
object store are read as they are: `dump_reader` checks their text while Spark reads it.
"""

from __future__ import annotations

import codecs
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bronze.dump_reader import not_utf8
from bronze.files.gzip_members import ALWAYS_UNPACKED, InflatedError, unpacked
from bronze.files.line_parser import MAX_LINE_BYTES
from bronze.files.zeros import MOST_ZEROS, ZerosError, check_holes, without_long_zeros
from framework.config.sources import Source
from framework.errors import MainstemError
from framework.text.formatting import quantity

_CHUNK = 4 * 1024 * 1024
_HIDDEN = (".", "_")
_OTHER_CODECS = (".bz2", ".deflate", ".lz4", ".snappy", ".xz", ".zst", ".zstd")
"""Endings of compressed files that Spark would unpack without a limit."""


def check_dump(path: str, source: Source) -> None:
    """Passes a dump whose files keep to the source's `max_gzip_ratio` and `max_file_messages`.

    Raises:
        MainstemError: DUMP_TOO_LARGE for a file beyond the limits; DUMP_UNREADABLE for one that is no whole
            gzip file, that is compressed in another way, that is not UTF-8, or that is no file.
    """
    place = Path(path).absolute()
    if "://" in path or (place / "_delta_log").is_dir():
        return
    for file in _files(place):
        try:
            _check(file, source)
        except (EOFError, zlib.error) as error:
            raise _unreadable(file, f"not a complete gzip file ({error})") from None
        except OSError as error:
            raise _unreadable(file, f"a file that cannot be read ({error.strerror or error})") from None


def _files(place: Path) -> Iterator[Path]:
    """The files at or below a place as Spark lists them, hidden ones left out."""
    waiting, seen = [place], set[tuple[int, int]]()
    while waiting:
        entry = waiting.pop()
        try:
            status = entry.stat()
        except OSError:
            continue  # Spark says what is wrong with it
        if stat.S_ISREG(status.st_mode):
            yield entry
        elif not stat.S_ISDIR(status.st_mode):
            raise _unreadable(entry, "neither a file nor a folder")
        elif (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            names = sorted(os.listdir(entry), reverse=True)
            waiting += [entry / name for name in names if not name.startswith(_HIDDEN)]


def _check(file: Path, source: Source) -> None:
    if file.name.endswith(_OTHER_CODECS):
        raise _unreadable(file, "a compressed file that is not gzip")
    if file.name.endswith(".parquet"):
        _check_parquet(file, source)
        return
    with file.open("rb") as stream:
        try:
            check_holes(stream.fileno())
            plain = iter(lambda: stream.read(_CHUNK), b"")
            is_gzip = file.name.endswith(".gz")
            chunks = unpacked(stream, source.max_gzip_ratio, _CHUNK) if is_gzip else plain
            _check_lines(file, without_long_zeros(chunks), source)
        except ZerosError:
            raise _too_large(file, f"more than {quantity(MOST_ZEROS, 'byte')} of zeros") from None
        except InflatedError:
            text = f"content of more than {source.max_gzip_ratio:,} times its compressed data"
            raise _too_large(file, text, "max_gzip_ratio") from None


def _check_lines(file: Path, chunks: Iterable[bytes], source: Source) -> None:
    lines = length = 0
    text = codecs.getincrementaldecoder("utf-8")()
    for chunk, is_end in chain(((chunk, False) for chunk in chunks), [(b"", True)]):
        try:
            text.decode(chunk, is_end)
        except UnicodeDecodeError as error:  # begins with what the chunk before has of the character
            line = lines + error.object.count(b"\n", 0, error.start) + 1
            raise not_utf8(f"line {line:,}", str(file)) from None
        found = chunk.count(b"\n")
        length = len(chunk) - chunk.rfind(b"\n") - 1 if found else length + len(chunk)
        lines += found
        if lines > source.max_file_messages:
            raise _too_large(
                file, f"more than {quantity(source.max_file_messages, 'line')}", "max_file_messages"
            )
        if length > MAX_LINE_BYTES:
            raise _too_large(file, f"a line of more than {quantity(MAX_LINE_BYTES, 'byte')}")


def _check_parquet(file: Path, source: Source) -> None:
    """Compare what the file itself says about its rows and sizes."""
    try:
        about = pq.ParquetFile(file).metadata
    except pa.ArrowException:
        return  # Spark says what is wrong with it
    if about.num_rows > source.max_file_messages:
        raise _too_large(file, f"more than {quantity(source.max_file_messages, 'row')}", "max_file_messages")
    size = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    if size > ALWAYS_UNPACKED and size > source.max_gzip_ratio * file.stat().st_size:
        text = f"content of more than {source.max_gzip_ratio:,} times its size"
        raise _too_large(file, text, "max_gzip_ratio")


def _too_large(file: Path, found: str, setting: str | None = None) -> MainstemError:
    raised = f"if that is intended, raise `{setting}` of the source; otherwise " if setting else ""
    return MainstemError(
        "DUMP_TOO_LARGE",
        found=f"{found}; nothing has landed",
        where=str(file),
        action=f"{raised}dump the table again, in several files if it is large",
    )


def _unreadable(file: Path, found: str) -> MainstemError:
    return MainstemError(
        "DUMP_UNREADABLE", found=found, where=str(file), action="repair the dump; nothing has landed"
    )
