"""Archives that tests keep files in."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive; Python before 3.11.4 knows no filters."""
    with tarfile.open(archive) as content:
        if hasattr(tarfile, "data_filter"):
            content.extractall(folder, filter="data")
        else:
            content.extractall(folder)
