"""Named points where a test can kill the process, as a power cut would."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

VARIABLE = "MAINSTEM_CRASH_AT"


def crash_point(name: str) -> None:
    """Kill the process tree if the test-only variable MAINSTEM_CRASH_AT names this point; else do nothing.

    `bronze.after_land` kills at the first visit, `bronze.after_land:3` at the third; the variable itself
    keeps the count. Children (the JVM, its Python workers) are killed first, with SIGKILL: nothing is
    flushed, closed or committed.
    """
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    point, _, visit = wanted.partition(":")
    if point != name:
        return
    left = int(visit or "1") - 1
    if left > 0:
        os.environ[VARIABLE] = f"{point}:{left}"
        return
    for pid in [*_descendants(os.getpid(), _parents()), os.getpid()]:
        _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _descendants(pid: int, parents: Iterable[tuple[int, int]]) -> list[int]:
    """All processes below `pid`, nearest first."""
    pairs = list(parents)
    found = [pid]
    for parent in found:
        found.extend(child for child, its_parent in pairs if its_parent == parent and child not in found)
    return found[1:]


def _parents() -> list[tuple[int, int]]:
    """Each running process and its parent, from /proc; empty where there is none."""
    pairs = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:
            continue
        pairs.append((int(stat.parent.name), int(text.rpartition(")")[2].split()[1])))
    return pairs
