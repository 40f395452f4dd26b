"""Runs a tool in a process of its own, with the wall time and the CPU seconds of all that it starts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.processes import cpu_of, kill_tree

_SUBREAPER = 36  # of prctl: what a tool leaves behind becomes our child, so that its CPU time is counted
_PATIENCE = 30.0
_TELLING = re.compile(r"error|exception", re.IGNORECASE)
_BEFORE_IT = re.compile(
    r'^(?:[\w.]+\.\w+(?:Exception|Error)|error|debug_error_string = "\w+): ?', re.IGNORECASE
)

Command = Sequence[str | Path]


@dataclass(frozen=True)
class Cost:
    """What a piece of work took."""

    seconds: float
    cpu: float


class ToolFailed(Exception):
    """A tool ended with an error; the text says in one line what it said."""


def reap_orphans() -> None:
    """Let this process be the parent of all that its children leave behind."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def run_whole(
    command: Command, folder: Path, environment: Mapping[str, str], longest: float = 1800.0
) -> Cost:
    """Runs a command from its start to its end, with nothing in its standard input.

    Raises:
        ToolFailed: It ended with another code than 0, or not after `longest` seconds.
    """
    others, before, started = _children(), _cpu_of_the_ended(), time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            code = process.wait(longest)
        except subprocess.TimeoutExpired:
            kill_tree(process)
            raise ToolFailed(f"it had not ended after {longest:.0f} seconds") from None
    seconds = time.perf_counter() - started
    _wait_for_orphans(others)
    if code:
        raise ToolFailed(reason((folder / "log").read_text(errors="replace")))
    return Cost(seconds, _cpu_of_the_ended() - before)


class Staying:
    """A process that stays, and does a round of work for each line that it reads."""

    def __init__(self, command: Command, folder: Path, environment: Mapping[str, str]) -> None:
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def __enter__(self) -> Staying:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(_PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            kill_tree(self._process)

    def round(self) -> Cost:
        """One round of work.

        Raises:
            ToolFailed: The process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        cpu, started = cpu_of(self._process.pid), time.perf_counter()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"round\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            if line.strip() == b"round done":
                return Cost(time.perf_counter() - started, cpu_of(self._process.pid) - cpu)
        raise ToolFailed(reason(self._log.read_text(errors="replace")))


def reason(log: str) -> str:
    """The last line of a log that tells of an error, or its last line; without what a table cannot show."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line) and not line.startswith("at ")]
    line = (telling or lines or ["it said nothing"])[-1]
    plain = _BEFORE_IT.sub("", line).strip('"').replace("|", " ").replace("`", "")
    return " ".join(plain.split())[:300]


def _cpu_of_the_ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_orphans(others: set[int]) -> None:
    """Waits until nothing is left of what a tool started; ends it after a while. Other children stay."""
    until = time.monotonic() + _PATIENCE
    while orphans := _children() - others:
        for pid in orphans:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)


def _children() -> set[int]:
    lists = (task.read_text() for task in Path("/proc/self/task").glob("*/children"))
    return {int(child) for text in lists for child in text.split()}
