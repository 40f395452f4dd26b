"""A message and its place in a file, for commands that read feeds without landing them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from framework.contracts.messages import RawMessage


class Cause(StrEnum):
    """Why the lines of a file are no messages, or why a run would not read them."""

    SEVERAL_LINES = "several_lines"
    ARRAY = "array"
    KEY_BEFORE = "key_before"
    ENVELOPE = "envelope"
    UTF16 = "utf16"
    GZIP = "gzip"
    NO_GZIP = "no_gzip"
    PACKED = "packed"
    ZIP = "zip"
    PARQUET = "parquet"
    AVRO = "avro"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class FiledMessage:
    """One message of a file.

    Attributes:
        file: The file.
        line: The line, from 1.
        layout: How the line holds the message: `lines` or `kcat`.
        message: The message; its value is empty if `fault` is set.
        fault: Why the line holds no message.
        cause: Why no line of the whole file does.
    """

    file: str
    line: int
    layout: str
    message: RawMessage
    fault: str | None = None
    cause: Cause | None = None


@dataclass(slots=True)
class Sample:
    """How much of a file or folder is read, shared out evenly to its files.

    Attributes:
        messages: How many messages may still be read.
        size: How many bytes of decompressed content may still be read.
        is_cut: Whether anything was left unread for these limits.
        files: How many files there are to read, empty ones included.
        skipped: The entries of a folder that are not read, each with the reason.
    """

    messages: int = 20_000
    size: int = 128 * 1024 * 1024
    is_cut: bool = False
    files: int = 0
    skipped: tuple[str, ...] = ()
