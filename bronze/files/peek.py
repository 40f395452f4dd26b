"""Reads files without landing them: every line of a file or folder as a message."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from bronze.files.arrow_reader import CHUNK
from bronze.files.gzip_members import InflatedError, unpacked
from bronze.files.line_parser import Block, LongLine, from_kcat, from_lines, split_lines
from bronze.files.listing import ListedFile, utf8_name
from bronze.files.local_files import SkippedEntry, list_local, open_file
from bronze.files.zeros import MOST_ZEROS, ZerosError, check_holes, without_long_zeros
from framework.contracts.file_messages import Cause, FiledMessage, Sample
from framework.contracts.messages import BAD_COORDINATES, RawMessage
from framework.errors import ConfigurationError

_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BEGINNINGS = {
    b"PK\x03\x04": Cause.ZIP,
    b"PAR1": Cause.PARQUET,
    b"Obj\x01": Cause.AVRO,
    b"\x28\xb5\x2f\xfd": Cause.PACKED,  # zstd
    b"BZh": Cause.PACKED,
    b"\xfd7zXZ\x00": Cause.PACKED,
}
"""Files that hold no lines begin so."""
_HEAD_BYTES = 64
_LEAST_MESSAGES = 20
_LEAST_BYTES = 16 * 1024 * 1024
_MAX_GZIP_RATIO = 200  # as in a run without settings
_KCAT_MEMBERS = (b'"topic"', b'"partition"', b'"offset"', b'"payload"')


def peek_messages(path: Path, sample: Sample | None = None) -> Iterator[FiledMessage]:
    """The messages of a file, or of all files below a folder by name; keeps one line in memory.

    With `sample`, only so many messages and bytes; it is updated with what was read.

    A line that `kcat -J` could have printed is read in layout `kcat`, any other line in layout `lines`.
    Compressed files are decompressed. A file that a run would not read as it is (UTF-16, gzip under another
    name) begins with a message whose fault says so. Hidden and unfinished files are left out, and empty lines
    are no messages. Of a file that holds no lines of text there is that message alone.

    Raises:
        ConfigurationError: NO_SUCH_PATH.
    """
    if not path.is_dir() and not path.is_file():
        raise ConfigurationError(
            "NO_SUCH_PATH",
            found="neither a file nor a folder",
            where=str(path),
            action="name a file or folder of messages",
        )
    folder = str(path if path.is_dir() else path.resolve().parent)
    files, skipped = _files(path if path.is_dir() else path.resolve())
    if sample is not None:
        sample.files, sample.skipped = len(files), skipped
    for at, (name, place) in enumerate(files):
        if sample is None:
            yield from _messages(place, name, folder)
        elif not (sample.messages and sample.size):
            sample.is_cut = True
            return
        else:
            yield from _sampled(place, name, folder, sample, len(files) - at)


def _sampled(place: str, name: str, folder: str, sample: Sample, files: int) -> Iterator[FiledMessage]:
    """The messages of one file, with its share of what the sample has left for `files` files."""
    share = Sample(
        min(sample.messages, max(sample.messages // files, _LEAST_MESSAGES)),
        min(sample.size, max(sample.size // files, _LEAST_BYTES)),
    )
    before = share.messages, share.size
    for message in _messages(place, name, folder, share):
        if share.messages == 0:
            share.is_cut = True
            break
        share.messages -= 1
        yield message
    sample.messages -= before[0] - share.messages
    sample.size -= before[1] - share.size
    sample.is_cut = sample.is_cut or share.is_cut


class _CutError(Exception):
    """The sample has enough bytes. The line that has begun is no message, as its end is not known."""


def _limited(chunks: Iterable[bytes], sample: Sample) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[: sample.size]
        if len(chunk) > sample.size:
            sample.size, sample.is_cut = 0, True
            raise _CutError
        sample.size -= len(chunk)


def _files(path: Path) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Name and path of each file, sorted by name, and the entries that are not read.

    A path of a file gives that file alone.
    """
    if path.is_file():
        return [(path.name, str(path))], ()
    entries = list(list_local(str(path)))
    files = sorted((each.file, each.path) for each in entries if isinstance(each, ListedFile))
    return files, tuple(utf8_name(str(each)) for each in entries if isinstance(each, SkippedEntry))


def _messages(place: str, name: str, folder: str, sample: Sample | None = None) -> Iterator[FiledMessage]:
    number = 0
    try:
        with open_file(place, folder) as stream:
            check_holes(stream.fileno())
            cause = _cause(stream.read(_HEAD_BYTES), name)
            stream.seek(0)
            if cause is not None:
                yield replace(_faulty(name, 1, str(cause)), cause=cause)
            if cause is Cause.UTF16 or cause in _BEGINNINGS.values():
                return
            chunks = without_long_zeros(_chunks(stream))
            for number, line in split_lines(chunks if sample is None else _limited(chunks, sample)):
                if isinstance(line, LongLine):
                    yield _faulty(name, number, f"a line of {line.size} bytes: too long to land")
                else:
                    yield _message(name, number, line)
    except _CutError:
        return
    except ZerosError:
        yield _faulty(
            name, number + 1, f"a file with more than {MOST_ZEROS:,} bytes of zeros and nothing else"
        )
    except InflatedError:
        fault = f"the file decompresses to more than {_MAX_GZIP_RATIO:,} times its compressed data"
        yield _faulty(name, number + 1, fault)
    except (OSError, EOFError, zlib.error) as error:
        yield _faulty(name, number + 1, f"the file cannot be read on: {error}")


def _cause(head: bytes, name: str) -> Cause | None:
    """Why a run would not read the file as it is, judged by its first bytes; None where it would."""
    for beginning, cause in _BEGINNINGS.items():
        if head.startswith(beginning):
            return cause
    is_compressed, is_named_so = head.startswith(_GZIP), name.endswith(".gz")
    if is_compressed != is_named_so and head:
        return Cause.GZIP if is_compressed else Cause.NO_GZIP
    zeros = (head[0::2].count(0), head[1::2].count(0))
    is_wide = len(head) >= 4 and not is_compressed and max(zeros) >= len(head) // 2 * 0.9 and min(zeros) == 0
    return Cause.UTF16 if head.startswith(_UTF16) or is_wide else None


def _chunks(stream: BinaryIO | FileIO) -> Iterator[bytes]:
    is_compressed = stream.read(2) == _GZIP
    stream.seek(0)
    return (
        unpacked(stream, _MAX_GZIP_RATIO, CHUNK) if is_compressed else iter(lambda: stream.read(CHUNK), b"")
    )


def _message(name: str, number: int, line: bytes) -> FiledMessage:
    block = Block([number], [line])
    layout = "lines"
    parsed = from_lines(block, name)
    if all(member in line for member in _KCAT_MEMBERS):
        kcat = from_kcat(block, name)
        if not any(header == BAD_COORDINATES for header, _ in kcat.headers[0] or ()):
            layout, parsed = "kcat", kcat
    headers = tuple(parsed.headers[0] or ())
    message = RawMessage(
        "",
        parsed.topic[0],
        parsed.partition[0],
        parsed.offset[0],
        parsed.timestamp[0],
        parsed.key[0],
        parsed.value[0],
        headers,
    )
    return FiledMessage(name, number, layout, message)


def _faulty(name: str, number: int, fault: str) -> FiledMessage:
    return FiledMessage(name, number, "lines", RawMessage("", name, 0, number, None, None, None), fault)
