"""An archive of the JVM's classes: the first start writes it, and later ones load it twice as fast.

The archive belongs to one Java and one installation of Spark; the JVM ignores one that does not fit. It is
written beside its name when the first JVM ends, and gets its name at the next start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from importlib.util import find_spec
from pathlib import Path

from framework.private_files import is_trusted, private_folder
from framework.spark.jars import cache_folder
from framework.spark.startup_errors import find_java

_QUIET = "-Xlog:cds*=off"
_UNUSED_FOR = 30 * 86_400


def java_options() -> list[str]:
    """The options that use the archive, or that let the JVM write one at its end; none if neither works."""
    archive = _archive()
    if archive is None:
        return []
    try:
        if not private_folder(archive.parent):
            return []
        _remove_unused(archive)
        _take_finished(archive)
        if archive.is_file():
            if not is_trusted(archive):
                return []
            with contextlib.suppress(OSError):  # an image's cache may be read-only
                os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", _QUIET]
        if any(archive.parent.glob(f"{archive.name}.*")):
            return []  # another process is about to write it
        return [f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()}", _QUIET]
    except OSError:
        return []


def _archive() -> Path | None:
    java, spark = find_java(), find_spec("pyspark")
    if java is None or spark is None or spark.origin is None:
        return None
    try:
        place = Path(java).resolve()
        made_for = (
            str(place),
            place.stat().st_size,
            place.stat().st_mtime_ns,
            spark.origin,
            Path(spark.origin).stat().st_mtime_ns,
        )
    except OSError:
        return None
    folder = cache_folder()
    if any(character.isspace() or character in "\"'" for character in str(folder)):
        return None
    return folder / f"classes-{hashlib.sha256(repr(made_for).encode()).hexdigest()[:16]}.jsa"


def _remove_unused(archive: Path) -> None:
    """Remove the archives of other Javas and Sparks unused for a month: each has 200 MB."""
    horizon = time.time() - _UNUSED_FOR
    for other in archive.parent.glob("classes-*.jsa*"):
        if other.name.startswith(archive.name):
            continue
        with contextlib.suppress(OSError):
            if other.stat().st_mtime < horizon:
                other.unlink()


def _take_finished(archive: Path) -> None:
    """Give the archive its name once the process that wrote it has ended; remove what others have written."""
    for draft in archive.parent.glob(f"{archive.name}.*"):
        owner = draft.suffix[1:]
        if owner.isdigit() and not _is_alive(int(owner)):
            if archive.exists():
                draft.unlink()
            else:
                draft.replace(archive)


def _is_alive(process: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
