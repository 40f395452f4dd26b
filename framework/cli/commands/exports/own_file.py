"""Writes a file for another tool, and never over a file that Mainstem has not written."""

from __future__ import annotations

from pathlib import Path

from framework.errors import MainstemError
from framework.private_files import replace_text


def write_own_file(file: Path, text: str, mark: str) -> None:
    """Replace a file at once, or not at all; its folder must exist.

    Args:
        file: The file. A file that exists must be empty, or begin with `mark`.
        text: The new content, which begins with `mark`.
        mark: How every file of this kind begins.

    Raises:
        MainstemError: FILE_NOT_WRITTEN, if it cannot be written, or is a file of somebody else.
    """
    try:
        if file.exists() and not file.is_symlink():
            with file.open("rb") as stream:
                start = stream.read(len(mark.encode()))
            if start.strip() and start != mark.encode():
                raise _not_written("a file that mainstem has not written", file)
        replace_text(file, text)
    except OSError as error:
        raise _not_written(error.strerror or str(error), file) from None


def _not_written(found: str, file: Path) -> MainstemError:
    return MainstemError(
        "FILE_NOT_WRITTEN",
        found=found,
        where=str(file),
        action="name another file with --file, in a folder that exists and can be written",
    )
