"""How much memory this machine has."""

from __future__ import annotations

import os
from pathlib import Path


def machine_memory() -> int:
    """The bytes of memory of this machine, or of the container, if that may have less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical
