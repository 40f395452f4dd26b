"""The files of a stream's checkpoint, looked at before Spark reads them: a damaged one is named, with the way out."""

from __future__ import annotations

import json
import os
from pathlib import Path

from framework.errors import MainstemError
from framework.notes import is_local

_READ_AT_START = 2
"""How many of the newest files of a log Spark reads when a stream starts."""


def check_files(checkpoint: str, where: str) -> None:
    """Raises MainstemError CHECKPOINT_DAMAGED when a file that the stream needs is gone or cut short.

    A checkpoint that has not begun has none. Of one in an object store nothing is known here: its writes are whole.
    """
    fault = _fault(Path(checkpoint)) if is_local(checkpoint) else None
    if fault is not None:
        file, found = fault
        raise MainstemError(
            "CHECKPOINT_DAMAGED",
            found=f"{file} {found}",
            where=where,
            action=f"put it back from a backup; or delete {checkpoint}, create the empty file {checkpoint}.reset and run again:"
            " what was read is then left out",
        )


def _fault(checkpoint: Path) -> tuple[Path, str] | None:
    offsets = _newest(checkpoint / "offsets")
    if not offsets:
        return None
    metadata = checkpoint / "metadata"
    if not metadata.is_file():
        return metadata, "is gone"
    if not _is_json(metadata.read_text(encoding="utf-8", errors="replace")):
        return metadata, "is no JSON object: it was cut short"
    for file, lines in [*((f, 3) for f in offsets), *((f, 2) for f in _newest(checkpoint / "commits"))]:
        if not _is_whole(file.read_text(encoding="utf-8", errors="replace"), lines):
            return file, "is not whole: it was cut short"
    return None


def _newest(log: Path) -> list[Path]:
    numbers = sorted((int(name) for name in os.listdir(log) if name.isdigit()), reverse=True) if log.is_dir() else []
    return [log / str(number) for number in numbers[:_READ_AT_START]]


def _is_whole(text: str, lines: int) -> bool:
    """Whether a file of a log has its version, and as many lines at least, each one a JSON object, a number or a dash."""
    version, *rest = text.splitlines() or [""]
    return version.startswith("v") and len(rest) >= lines - 1 and all(_is_json(line) or line == "-" or line.isdigit() for line in rest)


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
