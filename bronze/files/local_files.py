"""Lists and opens the files of a landing folder on this machine, without following links that lead out of it.

Anybody who can write to a landing folder can put a link, a pipe or a very deep folder there. None of these
may reach a file outside the folder, stop the source or delay it. Entries that are not read are reported with
the reason.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import PurePath

from bronze.files.listing import ListedFile, is_ignored, no_folder, utf8_name
from framework.errors import MainstemError

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_PROTECTED_HARD_LINKS = "/proc/sys/fs/protected_hardlinks"
_HARD_LINK = (
    "a file with other hard links, on a system that lets anybody link to a file that he may not read"
    " (`fs.protected_hardlinks`; `follow_links: true` below the source reads it)"
)
_NAME = "a name that is not UTF-8, which no table can store: rename it, or the target of the link"
_OUTSIDE = "a link out of the folder (`follow_links: true` below the source reads it)"


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An entry of a folder that is not read: its path below the folder, and the reason."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to list: the prefix for the names of its files, and its path."""

    prefix: str
    path: str


def list_local(folder: str, *, follow_links: bool = False) -> Iterator[ListedFile | SkippedEntry]:
    """The files below a folder, and the entries that are not read.

    Hidden and unfinished files are left out, and so are links to files and folders that the listing has
    anyway. A link to a hidden file or folder below the folder is followed; a link out of the folder only with
    `follow_links`. Each folder is listed once, under its own name if it is below the folder. A file with
    other hard links is listed where the system prevents links to files of others, or with `follow_links`.

    Raises:
        MainstemError: LANDING_FOLDER_MISSING or LANDING_FOLDER_UNREADABLE where the folder itself cannot be
            listed.
    """
    root = os.path.realpath(folder)
    may_be_linked = follow_links or protects_hard_links()
    folders, links = [_Folder("", folder)], list[_Folder]()
    listed: set[tuple[int, int]] = set()
    while folders or links:
        place = folders.pop() if folders else links.pop(0)
        try:
            status = os.stat(place.path)
            if (status.st_dev, status.st_ino) in listed:
                continue
            listed.add((status.st_dev, status.st_ino))
            with os.scandir(place.path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            if not place.prefix:
                raise _cannot_list(folder, error) from None
            if not isinstance(error, FileNotFoundError):
                yield SkippedEntry(place.prefix.rstrip("/"), _reason(error))
            continue
        for entry in entries:
            if is_ignored(entry.name):
                continue
            name = f"{place.prefix}{entry.name}"
            try:
                path = _target(entry, root, follow_links) if entry.is_symlink() else entry.path
                if path is None:
                    continue
                status = os.stat(path)
            except FileNotFoundError:
                continue
            except _OutsideFolder:
                yield SkippedEntry(name, _OUTSIDE)
                continue
            except OSError as error:
                yield SkippedEntry(name, _reason(error))
                continue
            if stat.S_ISDIR(status.st_mode):
                (links if entry.is_symlink() else folders).append(_Folder(f"{name}/", path))
            elif not stat.S_ISREG(status.st_mode):
                yield SkippedEntry(name, "neither a file nor a folder")
            elif status.st_nlink > 1 and not may_be_linked:
                yield SkippedEntry(name, _HARD_LINK)
            elif not os.access(path, os.R_OK):
                yield SkippedEntry(name, "a file that may not be read")
            elif not (_is_utf8(name) and _is_utf8(path)):  # the log has both
                yield SkippedEntry(name, _NAME)
            else:
                yield ListedFile(name, path, status.st_size, status.st_mtime_ns // 1000)


def protects_hard_links(setting: str = _PROTECTED_HARD_LINKS) -> bool:
    """Whether the system lets nobody make a hard link to a file that he could not read and write himself.

    That is the default of Linux. False where the setting cannot be read, as on other systems.
    """
    try:
        with open(setting, encoding="ascii") as file:
            return file.read().strip() == "1"
    except (OSError, ValueError):
        return False


class _OutsideFolder(Exception):
    """A link leads out of the folder."""


def _target(entry: os.DirEntry[str], root: str, follow_links: bool) -> str | None:
    """The target of a link.

    None where the listing has it anyway. Raises _OutsideFolder where it may not be followed.
    """
    entry.stat()  # raises for a link to itself, which `realpath` does not
    target = os.path.realpath(entry.path)
    if target == root:
        return None
    if not target.startswith(f"{root}/"):
        if follow_links:
            return target
        raise _OutsideFolder
    is_hidden = any(is_ignored(part) for part in PurePath(target[len(root) + 1 :]).parts)
    return target if is_hidden else None


def open_file(path: str, folder: str, *, follow_links: bool = False) -> FileIO:
    """Opens a file below a folder for reading, without blocking (on a pipe, for example).

    Without `follow_links` no part of the path below the folder may be a link, and the file may have other
    hard links only where the system protects them: the file may have become one since it was listed.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, _READ) if follow_links else _open_below(path, folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(0, "neither a file nor a folder")
    if status.st_nlink > 1 and not follow_links and not protects_hard_links():
        os.close(descriptor)
        raise OSError(0, _HARD_LINK)
    return FileIO(descriptor, "rb")


def _open_below(path: str, folder: str) -> int:
    below = next(
        (
            path[len(start) :]
            for start in (f"{folder.rstrip('/')}/", f"{os.path.realpath(folder)}/")
            if path.startswith(start)
        ),
        None,
    )
    if below is None:
        raise OSError(0, "a file that is not below the landing folder")
    *folders, name = PurePath(below).parts
    descriptor = os.open(folder, _READ | os.O_DIRECTORY)
    try:
        for part in folders:
            inner = os.open(part, _READ | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return os.open(name, _READ | os.O_NOFOLLOW, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _is_utf8(name: str) -> bool:
    return name.isascii() or utf8_name(name) == name


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _cannot_list(folder: str, error: OSError) -> MainstemError:
    if isinstance(error, FileNotFoundError):
        return no_folder(folder)
    if isinstance(error, NotADirectoryError):
        return MainstemError(
            "LANDING_FOLDER_MISSING",
            found="a file, where a folder of files is needed",
            where=folder,
            action="name the folder that contains it",
        )
    return MainstemError(
        "LANDING_FOLDER_UNREADABLE",
        found=f"a folder that cannot be listed ({_reason(error)})",
        where=folder,
        action="give the user of this run the right to read it",
    )
