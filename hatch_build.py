"""Gives the wheel a time of change that follows from its content.

The Databricks command line makes a wheel's version from that time (`dynamic_version`): the same code then has
the same version wherever and whenever it is built, and changed code has another one.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_EARLIEST = 1_000_000_000
"""September 2001, in seconds: a time that every file system and archive can hold."""


class ContentTime(BuildHookInterface[Any]):
    """The build hook that hatchling calls."""

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Set the time of a wheel that has been built. An editable one stays as it is."""
        if version == "standard":
            digest = hashlib.sha256(Path(artifact_path).read_bytes()).digest()
            seconds = _EARLIEST + int.from_bytes(digest[:4], "big") // 8
            nanoseconds = seconds * 10**9 + int.from_bytes(digest[4:7], "big") * 10
            os.utime(artifact_path, ns=(nanoseconds, nanoseconds))
