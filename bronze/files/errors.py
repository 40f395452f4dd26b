"""Errors that stop a source of files, each with what to do; the other sources continue."""

from __future__ import annotations

from bronze.files.listing import ListedFile
from framework.errors import MainstemError
from framework.lakehouse.small_files import is_local
from framework.text.formatting import noun_for, quantity

_RENAME = (
    "delete a file if all its messages have landed; or, to read it as a new one, give it a name behind its"
    " old one (`orders-2.log` for `orders.log`), as the name decides between changes of one time;"
    " then run again"
)


def file_vanished(file: ListedFile, source: str, more: int = 0) -> MainstemError:
    """A file was deleted after it was listed and before it was read; so were `more` others."""
    text = f"a file that was found earlier is gone, and it has not been read{_others(more)}"
    return _error(
        "FILE_VANISHED",
        text,
        file,
        source,
        f"put it back, or {_without_messages(file)} if its content is lost, and run again",
    )


def file_changing(file: ListedFile, source: str) -> MainstemError:
    """A file changed while it was being read; nothing of it has landed."""
    text = "a file changed while it was being read; nothing of it has landed"
    return _error(
        "FILE_CHANGED",
        text,
        file,
        source,
        "let its writer finish (better: write under a hidden name and rename), and run again",
    )


def file_rewritten(file: ListedFile, source: str, others: int = 0, *, has_size: bool) -> MainstemError:
    """Files changed after their messages had landed: `file` is the first, and there are `others`.

    `has_size` says that all of them still have the size that they were read with.
    """
    files, have = quantity(others + 1, "file"), noun_for(others + 1, "has", "have")
    if has_size:
        text = (
            f"{files} that {have} another modification time than when the messages landed, and the same size;"
            " most likely the folder was copied without the times of its files"
        )
        action = (
            "copy the folder again with its times (`cp -p`, `rsync -a`), or delete the landed files;"
            " then run again"
        )
    else:
        text = f"{files} that {have} another size or modification time than when the messages landed"
        action = _RENAME
    return _error("FILE_CHANGED", text, file, source, action)


def file_relined(file: ListedFile, source: str, others: int = 0) -> MainstemError:
    """Files have other lines than have landed, `file` and `others` more; the log of their sizes was lost."""
    files, have = quantity(others + 1, "file"), noun_for(others + 1, "has", "have")
    return _error(
        "FILE_CHANGED",
        f"{files} that {have} another number of lines than when the messages landed",
        file,
        source,
        _RENAME,
    )


def file_unreadable(file: ListedFile, source: str, reason: str) -> MainstemError:
    """The operating system refuses to read the file."""
    return _error(
        "FILE_UNREADABLE",
        f"a file that cannot be read ({reason})",
        file,
        source,
        "make it readable for this user, and run again",
    )


def file_corrupt(file: ListedFile, source: str, reason: str, *, is_gzip: bool) -> MainstemError:
    """The file cannot be decompressed to its end; `is_gzip`: it begins as a gzip file does."""
    if not is_gzip:
        return _error(
            "FILE_CORRUPT",
            "a file whose name ends in .gz, and which is not compressed by gzip",
            file,
            source,
            "if it is plain text, compress it, or give it a name without `.gz` and put"
            f" {_without_messages(file)} in its place; then run again",
        )
    return _error("FILE_CORRUPT", f"not a complete gzip file ({reason})", file, source, _replace(file))


def file_inflated(file: ListedFile, source: str, ratio: int) -> MainstemError:
    """A gzip file decompresses to more than `ratio` times its compressed data."""
    text = (
        f"a gzip file of {quantity(file.size, 'byte')} that decompresses to more than {ratio:,} times its"
        " compressed data; nothing of it has landed"
    )
    return _error(
        "FILE_INFLATED",
        text,
        file,
        source,
        "if that is intended, raise `max_gzip_ratio` of the source and run again; otherwise"
        f" {_replace(file)}",
    )


def file_crowded(file: ListedFile, source: str, limit: int) -> MainstemError:
    """A file holds more than `limit` messages."""
    text = f"a file of more than {quantity(limit, 'message')}; nothing of it has landed"
    return _error(
        "FILE_CROWDED",
        text,
        file,
        source,
        "if that is intended, raise `max_file_messages` of the source and run again; otherwise"
        f" {_replace(file)}",
    )


def file_sparse(file: ListedFile, source: str, limit: int) -> MainstemError:
    """A file has a gap of more than `limit` bytes: zero bytes, most of which use no disk."""
    text = (
        f"a file with more than {quantity(limit, 'byte')} of zeros and nothing else; nothing of it has landed"
    )
    return _error("FILE_SPARSE", text, file, source, _replace(file))


def file_too_large(file: ListedFile, source: str, limit: int) -> MainstemError:
    """A file of an object store is larger than Spark may read whole."""
    text = f"a file of {file.size:,} bytes; Spark reads files of an object store whole, up to {limit:,} bytes"
    return _error(
        "FILE_TOO_LARGE",
        text,
        file,
        source,
        "mount the store as a folder; or split the file into smaller ones and put"
        f" {_without_messages(file)} in its place; then run again",
    )


def _replace(file: ListedFile) -> str:
    lost = f"by {_without_messages(file)} if its content is lost"
    return f"replace it by the complete file, or {lost}, and run again"


def _without_messages(file: ListedFile) -> str:
    """What may stand in the place of a file: Spark, which lists object stores, leaves out empty files."""
    if is_local(file.path):
        return "an empty file"
    return "the output of `gzip < /dev/null`" if file.file.endswith(".gz") else "a file with one line feed"


def _error(condition: str, text: str, file: ListedFile, source: str, action: str) -> MainstemError:
    return MainstemError(condition, found=text, where=f"source {source}, {file.path}", action=action)


def _others(more: int) -> str:
    return f", and {more} more" if more else ""
