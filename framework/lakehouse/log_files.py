"""The log folder of a Delta table on a local file system, asked without listing it.

It has two files for each commit of the last thirty days: in a table that gets a commit every few minutes, to
list it takes longer than to read the newest commits.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path


def newest_version(log: Path) -> int | None:
    """The number of a table's newest version by its log folder; None where there is no version.

    Versions have consecutive numbers, so the search begins at the last checkpoint. The folder is listed where
    there is no checkpoint, as in a young table, or where its commit is gone.
    """
    version = newest_checkpoint(log)
    if version is None or not _commit(log, version).is_file():
        return _newest_listed(log)
    while _commit(log, version + 1).is_file():
        version += 1
    return version


def newest_commit(log: Path) -> str | None:
    """A text that identifies a table's newest commit, also from that of a table that was there before.

    None where there is no version, or the newest one is gone.
    """
    version = newest_version(log)
    try:
        return None if version is None else commit_text(log, version)
    except FileNotFoundError:  # the newest commit is one of another process
        return None


def commit_time(log: Path) -> float | None:
    """When the newest commit was written, in seconds; None where there is none."""
    version = newest_version(log)
    try:
        return None if version is None else _commit(log, version).stat().st_mtime
    except FileNotFoundError:
        return None


def newest_checkpoint(log: Path) -> int | None:
    """The version of the last checkpoint; None where there is none."""
    try:
        return int(json.loads((log / "_last_checkpoint").read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_newest_commit(log: Path, version: int, changed_at: int) -> bool:
    """Whether a version is the newest of a table, and its commit was written at a time in milliseconds.

    The time tells it from a commit of the same number in a table that was made anew.
    """
    try:
        found = _commit(log, version).stat()
    except OSError:
        return False
    return found.st_mtime_ns // 1_000_000 == changed_at and not _commit(log, version + 1).exists()


def commit_text(log: Path, version: int) -> str:
    """The text with which `newest_commit` identifies a commit; raises OSError where it cannot be read."""
    return f"{version} {commit_file(log, version)}"


def commit_file(log: Path, version: int) -> str:
    """A text that identifies the file of a commit, also from one of the same number in a restored table.

    Raises OSError where it cannot be read.
    """
    found = _commit(log, version).stat()
    return f"{found.st_mtime_ns} {found.st_size} {found.st_ino}"


def commit_digest(log: Path, version: int) -> str | None:
    """A digest of a commit's text, which copies of the table share; None where the log does not have it."""
    try:
        return hashlib.sha256(_commit(log, version).read_bytes()).hexdigest()
    except OSError:
        return None


def has_commit(log: Path, version: int) -> bool:
    """Whether the log has the commit of a version."""
    return _commit(log, version).exists()


def has_versions(log: Path) -> bool:
    """Whether a log folder has any version of a table."""
    try:
        with os.scandir(log) as files:
            return any(file.name.endswith((".json", ".parquet")) for file in files)
    except (FileNotFoundError, NotADirectoryError):
        return False


def newest_properties(log: Path) -> Mapping[str, str] | None:
    """The properties of a table, by the checksum that Delta writes beside each commit; None without it."""
    version = newest_version(log)
    if version is None:
        return None
    try:
        said = json.loads((log / f"{version:020d}.crc").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # it is optional, and another process may just write it
        return None
    known: Mapping[str, str] | None = said.get("metadata", {}).get("configuration")
    return known


def newest_transaction(log: Path, app_id: str) -> int | None:
    """The newest version of an application that Delta has committed; None where the log does not tell.

    The checksum beside the newest commit usually has those of all applications. Else the commits are read,
    the newest first.
    """
    newest = newest_version(log)
    if newest is None:
        return None
    try:
        known = json.loads((log / f"{newest:020d}.crc").read_text(encoding="utf-8")).get("setTransactions")
    except (OSError, ValueError):
        known = None
    if known is None:
        versions = (_transaction_in(_commit(log, version), app_id) for version in range(newest, -1, -1))
        return next((version for version in versions if version is not None), None)
    return next((each["version"] for each in known if each["appId"] == app_id), None)


def _transaction_in(commit: Path, app_id: str) -> int | None:
    """The version of an application in one commit; None where it has none, or is gone."""
    if not commit.is_file():
        return None
    lines = commit.read_text(encoding="utf-8").splitlines()
    told = (json.loads(line)["txn"] for line in lines if line.startswith('{"txn"'))
    return next((each["version"] for each in told if each["appId"] == app_id), None)


def _commit(log: Path, version: int) -> Path:
    return log / f"{version:020d}.json"


def _newest_listed(log: Path) -> int | None:
    if not log.is_dir():
        return None
    names = (file.name.split(".")[0] for file in log.glob("*.json"))
    return max((int(name) for name in names if name.isdigit()), default=None)
