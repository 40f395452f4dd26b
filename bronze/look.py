"""Looking at files without landing them: every line of a file or folder as the message that it holds."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

from bronze.contents import CHUNK
from bronze.read import BAD_COORDINATES, Block, LongLine, from_kcat, from_lines, split_lines
from framework.contracts.lines import FiledMessage
from framework.contracts.raw import RawMessage
from framework.errors import ConfigurationError

_HIDDEN = (".", "_")
_GZIP = b"\x1f\x8b"
_KCAT_MEMBERS = (b'"topic"', b'"partition"', b'"offset"')


def look(path: Path) -> Iterator[FiledMessage]:
    """The messages of a file, or of all files below a folder, in the order of their names; one line is in memory.

    A line that `kcat -J` could have printed is read as such, any other one is a message's value. Compressed files are
    read through. Hidden files are left out, and empty lines are no messages. Raises ConfigurationError where the path
    names nothing that can be read.
    """
    if not path.exists():
        raise ConfigurationError(
            "NO_SUCH_PATH", found="neither a file nor a folder", where=str(path), action="name a file or folder of messages"
        )
    for file in _files(path):
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        yield from _messages(file, name)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file())
    return sorted(file for file in found if not any(part.startswith(_HIDDEN) for part in file.relative_to(path).parts))


def _messages(file: Path, name: str) -> Iterator[FiledMessage]:
    number = 0
    try:
        with file.open("rb") as stream:
            for number, line in split_lines(_chunks(stream)):
                if isinstance(line, LongLine):
                    yield _faulty(name, number, f"a line of {line.size} bytes: too long to land")
                else:
                    yield _message(name, number, line)
    except (OSError, EOFError, zlib.error) as error:
        yield _faulty(name, number + 1, f"the file cannot be read on: {error}")


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    is_compressed = stream.read(2) == _GZIP
    stream.seek(0)
    with gzip.open(stream) if is_compressed else nullcontext(stream) as source:
        while chunk := source.read(CHUNK):
            yield chunk


def _message(name: str, number: int, line: bytes) -> FiledMessage:
    block = Block([number], [line])
    layout = "lines"
    found = from_lines(block, name)
    if all(member in line for member in _KCAT_MEMBERS):
        kcat = from_kcat(block, name)
        if not any(header == BAD_COORDINATES for header, _ in kcat.headers[0] or ()):
            layout, found = "kcat", kcat
    headers = tuple(found.headers[0] or ())
    message = RawMessage("", found.topic[0], found.partition[0], found.offset[0], found.timestamp[0], found.key[0], found.value[0], headers)
    return FiledMessage(name, number, layout, message)


def _faulty(name: str, number: int, fault: str) -> FiledMessage:
    return FiledMessage(name, number, "lines", RawMessage("", name, 0, number, None, None, None), fault)
