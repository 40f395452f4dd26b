"""Compares two ways of doing one thing: interleaved, medians after a warm-up, with the CPU time of each."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.processes import family

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Result:
    """One line of the table.

    `ratio` is ours divided by the other's; `limit` and `stretch` are its upper bounds.
    """

    goal: str
    what: str
    ratio: float
    limit: float
    stretch: float
    note: str = ""

    @property
    def verdict(self) -> str:
        return "stretch" if self.ratio <= self.stretch else "pass" if self.ratio <= self.limit else "MISSED"


@dataclass(frozen=True)
class Sides:
    """Medians of seconds and of CPU seconds, ours and the other's."""

    ours: float
    other: float
    ours_cpu: float
    other_cpu: float

    @property
    def ratio(self) -> float:
        return self.ours / self.other

    @property
    def note(self) -> str:
        return f"CPU {self.ours_cpu / max(self.other_cpu, 0.01):.2f}; {self.seconds}"

    @property
    def seconds(self) -> str:
        """Without CPU seconds: those of processes that come and go are not counted."""
        return f"{self.ours:.2f} s and {self.other:.2f} s"


Work = Callable[[int], object]


def _nothing(number: int) -> None:
    return None


def side_by_side(
    ours: Work, other: Work, rounds: int, prepare: tuple[Work, Work] = (_nothing, _nothing)
) -> Sides:
    """Runs both in turn, once to warm up and then `rounds` times; each is given the number of the round.

    They begin in turn, too.

    What is to be prepared for either side is not measured. Without any rounds the one to warm up counts.
    """
    times: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    seen: dict[int, int] = {}
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 else (1, 0)
        for side in order:
            prepare[side](number)
            cpu, started = cpu_seconds(seen), time.perf_counter()
            (ours, other)[side](number)
            if number or not rounds:
                times[side].append((time.perf_counter() - started, cpu_seconds(seen) - cpu))
    (wall, cpu), (other_wall, other_cpu) = (
        [statistics.median(column) for column in zip(*times[s], strict=True)] for s in (0, 1)
    )
    return Sides(wall, other_wall, cpu, other_cpu)


def cpu_seconds(seen: dict[int, int]) -> float:
    """The CPU seconds of this process, the JVM and Python's workers.

    `seen` keeps the seconds of processes that have ended.
    """
    for pid in family(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seen[pid] = int(fields[11]) + int(fields[12])
    return sum(seen.values()) / _TICKS


def table(results: list[Result]) -> list[str]:
    """The results as Markdown."""
    lines = ["| goal | what | ratio | at most | stretch | | measured |", "|---|---|---|---|---|---|---|"]
    return lines + [
        f"| {r.goal} | {r.what} | {r.ratio:.2f} | {r.limit:.2f} | {r.stretch:.2f} | {r.verdict} | {r.note} |"
        for r in results
    ]
