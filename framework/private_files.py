"""Writes files at once and never through a link, and checks that no other user can have written them."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a text file at once or not at all. A link at `path` is replaced, not followed.

    Raises:
        OSError: The folder cannot be written to.
    """
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def is_trusted(path: Path | str) -> bool:
    """Whether only this user and the administrator can have written a file; False if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & stat.S_IWOTH


def private_folder(path: Path) -> bool:
    """Create a folder that only this user can enter; returns whether it can be trusted."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return is_private_folder(path)


def is_private_folder(path: Path) -> bool:
    """Whether only this user and the administrator can put files into a folder; False for a link to one."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.geteuid()) and not status.st_mode & others


def open_lock_file(path: Path) -> int:
    """The descriptor of a file to lock, which no other user can open: whoever can read it could lock it.

    An own file that others can open becomes private. The caller closes the descriptor.

    Raises:
        OSError: The file cannot be opened, or it is a link.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        with contextlib.suppress(OSError):  # some file systems have no permissions
            os.fchmod(descriptor, 0o600)
    return descriptor
