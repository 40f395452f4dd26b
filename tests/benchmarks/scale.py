"""Shows that a round costs what is new, however old, wide or deep a lakehouse is: `make scale`.

`python -m tests.benchmarks.scale --scale 0.01` only tries it.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.pipeline.run import run_layers
from framework.pipeline.status import read_status
from framework.spark.session import local_settings, start_local
from tests.benchmarks import feeds
from tests.benchmarks.measure import Result, Sides, cpu_seconds, side_by_side, table
from tests.benchmarks.multiply import deepen, widen
from tests.end_to_end.random_wires import blob

_BETWEEN_MARKERS = re.compile(r"(<!-- scale[^\n]*-->\n).*?(<!-- /scale -->)", re.DOTALL)
GROUPS = ("age", "width", "depth", "files")
_STEP = 4 * 3_600_000
"""The milliseconds of the source between two rounds: more than a round's rows take."""


class Pipeline:
    """A feed of DataHub Blob and its lakehouse: rows at first, then updates of the same rows."""

    def __init__(self, spark: SparkSession, folder: Path, tables: int) -> None:
        self.spark, self.tables, self.rounds, self.files = spark, tables, 0, 0
        self.config = feeds.config(folder, ("datahub_blob",))
        self.landing = folder / "landing" / "datahub_blob"

    @property
    def work(self) -> Run:
        return Run(self.spark, Lakehouse(self.config.root), self.config, f"round-{self.rounds}")

    def land(self, messages: int, files: int = 1) -> None:
        """Lands so many messages, which are inserts in the first round, then updates in two messages each."""
        number, self.rounds = self.rounds, self.rounds + 1
        count, op = (messages, "insert") if number == 0 else (messages // 2, "update")
        lines = (
            line
            for change in feeds.changes(count, 0, op, self.tables)
            for line in blob(
                dataclasses.replace(change, number=change.number + number, at=change.at + number * _STEP)
            )
        )
        for _ in range(files):
            self.files += 1
            draft = self.landing / f".{self.files}"
            draft.write_text("".join(f"{line}\n" for line in islice(lines, messages // files)))
            os.utime(draft, (1_700_000_000 + self.files,) * 2)
            draft.rename(self.landing / f"{self.files:07d}.jsonl")

    def run(self) -> None:
        reports, _ = run_layers(self.work, "quality", time.monotonic())
        for report in reports:
            assert not report.errors, report.errors
            assert not report.failures, report.failures

    def check(self, tables: int, changes: int | None = None) -> None:
        """Checks that `status` shows so many tables, all active and none behind, with so many changes."""
        found = read_status(self.work)["tables"]
        wrong = [one for one in found if one["state"] != "active" or one["behind"]]
        assert len(found) == tables, (len(found), tables)
        assert not wrong, wrong[:3]
        applied = sum(one["changes_applied"] for one in found)
        assert changes is None or applied == changes, (applied, changes)


def age(spark: SparkSession, folder: Path, rounds: int) -> Iterator[Result]:
    """The last tenth of the rounds against the second one; the first one warms up."""
    pipeline = Pipeline(spark, folder / "age", 3)
    window, spent, seen = max(rounds // 10, 1), list[tuple[float, float]](), dict[int, int]()
    for _ in range(rounds):
        pipeline.land(200)
        cpu, started = cpu_seconds(seen), time.perf_counter()
        pipeline.run()
        spent.append((time.perf_counter() - started, cpu_seconds(seen) - cpu))
    pipeline.check(3, 200 + 100 * (rounds - 1))
    tenths = [_medians(spent[at : at + window]) for at in range(0, rounds, window)]
    (late, late_cpu), (early, early_cpu) = _medians(spent[-window:]), tenths[1]
    found = Sides(late, early, late_cpu, early_cpu)
    what = f"rounds of 200 messages: the last {window} of {rounds:,} against the second {window}"
    course = " ".join(f"{seconds:.1f}" for seconds, _ in tenths)
    yield Result("age", what, found.ratio, 1.15, 1.05, f"{found.note}; in turn {course}")


def _medians(spent: Sequence[tuple[float, float]]) -> tuple[float, float]:
    seconds, cpu = (statistics.median(column) for column in zip(*spent, strict=True))
    return seconds, cpu


def width(spark: SparkSession, folder: Path, tables: int, rounds: int) -> Iterator[Result]:
    """`tables` known tables of which 20 change, against 20 that all change."""
    changing = min(20, tables // 2)
    wide, narrow = (Pipeline(spark, folder / name, changing) for name in ("wide", "narrow"))
    for pipeline in (wide, narrow):
        _begin(pipeline, 200, 1)
    widen(wide.work, tables)
    known = tables // changing * changing
    wide.check(known)
    found = side_by_side(
        lambda n: wide.run(),
        lambda n: narrow.run(),
        rounds,
        (lambda n: wide.land(200), lambda n: narrow.land(200)),
    )
    wide.check(known)
    what = f"{known:,} known tables of which {changing} change, against {changing} that are known"
    yield Result("width", what, found.ratio, 2.0, 1.3, found.note)


def depth(spark: SparkSession, folder: Path, changes: int, rounds: int) -> Iterator[Result]:
    """A batch of 1,000 messages after `changes` changes, against a hundredth of them."""
    deep, flat = (Pipeline(spark, folder / name, 3) for name in ("deep", "flat"))
    sizes = {deep: changes, flat: changes // 100}
    for pipeline, size in sizes.items():
        _begin(pipeline, 1_000, 2)
        deepen(pipeline.work, size)
        sizes[pipeline] = size = _changes(pipeline)
        pipeline.check(3, size)
    found = side_by_side(
        lambda n: deep.run(),
        lambda n: flat.run(),
        rounds,
        (lambda n: deep.land(1_000), lambda n: flat.land(1_000)),
    )
    for pipeline, size in sizes.items():
        pipeline.check(3, size + 500 * (rounds + 1))
    what = f"growth with the changes kept, {sizes[deep]:,} and {sizes[flat]:,}, exponent"
    yield Result("depth", what, _exponent(found, sizes[deep] / sizes[flat]), 0.2, 0.05, found.note)


def files(spark: SparkSession, folder: Path, count: int, rounds: int) -> Iterator[Result]:
    """A new file in a folder with `count` files that have landed, against a hundredth of them."""
    many, few = (Pipeline(spark, folder / name, 3) for name in ("many-files", "few-files"))
    sizes = {many: count, few: max(count // 100, 3)}
    for pipeline, size in sizes.items():
        pipeline.land(size, size)
        pipeline.run()
        pipeline.check(3, size)
    found = side_by_side(
        lambda n: many.run(),
        lambda n: few.run(),
        rounds,
        # no more updates than the smaller one has rows
        (lambda n: many.land(2 * min(100, sizes[few])), lambda n: few.land(2 * min(100, sizes[few]))),
    )
    for pipeline, size in sizes.items():
        pipeline.check(3, size + min(100, sizes[few]) * (rounds + 1))
    what = f"growth with the landing files seen before, {sizes[many]:,} and {sizes[few]:,}, exponent"
    yield Result("files", what, _exponent(found, sizes[many] / sizes[few]), 0.5, 0.2, found.note)


def _begin(pipeline: Pipeline, messages: int, runs: int) -> None:
    """The first runs: rows, then updates of half of them."""
    for _ in range(runs):
        pipeline.land(messages)
        pipeline.run()


def _changes(pipeline: Pipeline) -> int:
    work = pipeline.work
    return work.lake.read(work.spark, "silver/changes").count()


def _exponent(found: Sides, growth: float) -> float:
    return math.log(found.ratio) / math.log(growth)


def goals(
    spark: SparkSession, folder: Path, scale: float, rounds: int
) -> dict[str, Callable[[], Iterator[Result]]]:
    """The groups with their sizes."""
    return {
        "age": lambda: age(spark, folder, max(int(1_000 * scale), 3)),
        "width": lambda: width(spark, folder, max(int(10_000 * scale), 4), rounds),
        "depth": lambda: depth(spark, folder, max(int(50_000_000 * scale), 4_000), rounds),
        "files": lambda: files(spark, folder, max(int(100_000 * scale), 30), rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="make scale")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes that the goals speak of")
    parser.add_argument("--rounds", type=int, default=5, help="behind one that warms up; age has its own")
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="some groups of goals")
    parser.add_argument("--into", metavar="FILE", help="write the table between the markers in a file")
    options = parser.parse_args()
    results = list[Result]()
    spark = start_local(local_settings("scale"))
    for group in options.only or GROUPS:
        with tempfile.TemporaryDirectory(prefix="mainstem-scale-") as name:
            for result in goals(spark, Path(name), options.scale, options.rounds)[group]():
                results.append(result)
                print(table([result])[-1], flush=True)
    if options.into:
        fill(Path(options.into), results)


def fill(page: Path, results: list[Result]) -> None:
    """Writes the table between the markers of a page."""
    text = "\n".join(table(results))
    page.write_text(_BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page.read_text()))


if __name__ == "__main__":
    main()
