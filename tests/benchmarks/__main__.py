"""Measures all performance goals: `make benchmark`.

`python -m tests.benchmarks --scale 0.001` only tries it. Each group of goals runs in a process of its own:
how fast code is depends on how long its JVM has run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from pyspark.sql import SparkSession

from framework.spark.session import local_settings, start_local
from tests.benchmarks import gold_goals, silver_goals, small_goals, whole_goals
from tests.benchmarks.measure import Result, table

_BETWEEN_MARKERS = re.compile(r"(<!-- benchmarks[^\n]*-->\n).*?(<!-- /benchmarks -->)", re.DOTALL)
_ONE_GROUP = "--group"


class Groups:
    """The groups of goals, each of which measures what it has in a folder."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder, self._scale = folder, options.scale
        self._rounds, self._tables = options.rounds, options.tables

    @cached_property
    def _spark(self) -> SparkSession:
        return start_local(local_settings("benchmark"))

    def _size(self, full: int, least: int) -> int:
        return max(int(full * self._scale), least)

    def silver(self) -> Iterator[Result]:
        """P1 to P4."""
        return silver_goals.goals(self._spark, self._folder, self._size(60_000, 60), self._rounds)

    def gold(self) -> Iterator[Result]:
        """P5 and P6."""
        return gold_goals.goals(self._spark, self._folder, self._size(2_000_000, 1_000), self._rounds)

    def tables(self) -> Iterator[Result]:
        """P7: one round, for it takes as long as all others together."""
        count = self._size(self._tables, 2)
        return gold_goals.many_tables(self._spark, self._folder, count, min(self._rounds, 1))

    def whole(self) -> Iterator[Result]:
        """P8."""
        return whole_goals.goals(self._spark, self._folder, self._size(100_000, 100), self._rounds)

    def idle(self) -> Iterator[Result]:
        """P10."""
        return whole_goals.idle(self._spark, self._folder, self._size(100_000, 100), self._rounds)

    def warm(self) -> Iterator[Result]:
        """S1."""
        return small_goals.warm(self._spark, self._folder, 200, self._rounds)

    def cold(self) -> Iterator[Result]:
        """S2 and S3."""
        return small_goals.cold(self._folder, 250, min(self._rounds, 2))

    def cores(self) -> Iterator[Result]:
        """C."""
        return whole_goals.cores(self._folder, self._size(1_000_000, 1_000), min(self._rounds, 2))

    def memory(self) -> Iterator[Result]:
        """P12."""
        return whole_goals.memory(self._folder, self._size(1024**3, 1024**2))

    def quality(self) -> Iterator[Result]:
        """Q."""
        return whole_goals.quality(self._spark, self._folder, self._size(1_000_000, 1_000))


_GROUPS: dict[str, Callable[[Groups], Iterator[Result]]] = {
    "silver": Groups.silver,
    "gold": Groups.gold,
    "tables": Groups.tables,
    "whole": Groups.whole,
    "idle": Groups.idle,
    "warm": Groups.warm,
    "cold": Groups.cold,
    "cores": Groups.cores,
    "memory": Groups.memory,
    "quality": Groups.quality,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make benchmark")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes that the goals speak of")
    parser.add_argument("--rounds", type=int, default=3, help="behind one that warms up")
    parser.add_argument("--tables", type=int, default=50, help="how many tables P7 has")
    parser.add_argument("--only", nargs="+", choices=_GROUPS, default=_GROUPS, help="some groups of goals")
    parser.add_argument("--into", metavar="FILE", help="write the table between the markers in a file")
    parser.add_argument(_ONE_GROUP, choices=_GROUPS, help=argparse.SUPPRESS)
    return parser


def _measure(options: argparse.Namespace) -> None:
    """Measures one group in this process; a line for each result."""
    with tempfile.TemporaryDirectory(prefix="mainstem-benchmark-") as name:
        for result in _GROUPS[options.group](Groups(Path(name), options)):
            print(table([result])[-1], flush=True)


def _lines_of(group: str) -> Iterator[str]:
    """The lines of a group, which a process of its own measures, as they come."""
    command = [sys.executable, "-m", "tests.benchmarks", *sys.argv[1:], _ONE_GROUP, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            if line.startswith("| "):
                yield line.rstrip("\n")
    if running.returncode:
        raise SystemExit(f"group {group} ended with {running.returncode}")


def main() -> None:
    options = _parser().parse_args()
    if options.group:
        _measure(options)
        return
    started = time.monotonic()
    lines = [*table([]), *(line for group in options.only for line in _lines_of(group))]
    print(f"measured in {(time.monotonic() - started) / 60:.0f} minutes")
    if options.into:
        page = Path(options.into)
        text = "\n".join(lines)
        page.write_text(_BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page.read_text()))


if __name__ == "__main__":
    main()
