"""An archive of the JVM's classes, made by the first start and used by later ones, which load them twice as fast.

The archive belongs to one Java and one installation of Spark; the JVM itself refuses one that does not fit, and goes on
without. It is written when the first JVM ends, beside its name, and takes its name at the next start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from importlib.util import find_spec
from pathlib import Path

from framework.jars import cache_folder
from framework.session_errors import find_java

_QUIET = "-Xlog:cds*=off"


def java_options() -> list[str]:
    """Options that use the archive, or else have the JVM write one at its end; none where that is not possible."""
    archive = _archive()
    if archive is None:
        return []
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        _take_finished(archive)
        if archive.is_file():
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
        made_for = (str(place), place.stat().st_size, place.stat().st_mtime_ns, spark.origin, Path(spark.origin).stat().st_mtime_ns)
    except OSError:
        return None
    folder = cache_folder()
    if any(character.isspace() or character in "\"'" for character in str(folder)):
        return None
    return folder / f"classes-{hashlib.sha256(repr(made_for).encode()).hexdigest()[:16]}.jsa"


def _take_finished(archive: Path) -> None:
    """Give the archive its name once the process that wrote it has ended."""
    for draft in archive.parent.glob(f"{archive.name}.*"):
        owner = draft.suffix[1:]
        if owner.isdigit() and not _is_alive(int(owner)) and not archive.exists():
            draft.replace(archive)


def _is_alive(process: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
