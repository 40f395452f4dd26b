"""Processes that tests start, with all that these start in turn: looked at, measured, killed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path


def family(process: int) -> dict[int, int]:
    """The parent of each process that is this one or below it, parents first; this one's own is 0."""
    parents, waiting = {process: 0}, [process]
    for pid in waiting:
        for task in Path("/proc").glob(f"{pid}/task/*/children"):
            try:
                children = [int(child) for child in task.read_text().split()]
            except OSError:
                continue
            parents |= dict.fromkeys(children, pid)
            waiting += children
    return parents


def memory_of(process: int) -> int:
    """The bytes that a process and all below it hold in memory, shared ones counted once."""
    total = 0
    for pid in family(process):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def cpu_of(process: int) -> float:
    """The seconds of CPU that a process and all below it have used, with the children that have ended."""
    ticks = 0
    for pid in family(process):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for a process that we started and all below it, children first."""
    for pid in reversed(family(process.pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that we started. A busy machine is slow:
    only after half an hour it is ended.
    """
    try:
        return process.wait(timeout=1800)
    except subprocess.TimeoutExpired:
        kill_tree(process)
        raise
