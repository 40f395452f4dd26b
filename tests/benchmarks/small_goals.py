"""Small runs: a warm round, a run of a new process, and one of those with nothing to do."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run, installed_layers
from tests.benchmarks import feeds, small_script
from tests.benchmarks.measure import Result, side_by_side
from tests.end_to_end.random_wires import blob

_BLANK = """
import sys
from framework.spark.session import local_settings, start_local
start_local(local_settings("blank")).stop()
"""


def _names(tables: int) -> list[str]:
    return ["item", *(f"item_{number}" for number in range(1, tables))]


def _land(folder: Path, number: int, messages: int, tables: int) -> None:
    """A file with so many messages: inserts at first, then updates of the same rows, which have halves."""
    draft = folder / f".{number}"
    rows = feeds.changes(
        messages if number == 0 else messages // 2, 0, "update" if number else "insert", tables
    )
    moved = (dataclasses.replace(c, number=c.number + number * 10**6, at=c.at + number * 10**9) for c in rows)
    draft.write_text("".join(f"{line}\n" for change in moved for line in blob(change)))
    os.utime(draft, (1_700_000_000 + number,) * 2)
    draft.rename(folder / f"{number:04d}.jsonl")


def warm(spark: SparkSession, folder: Path, messages: int, rounds: int) -> Iterator[Result]:
    """Rounds of few messages to three tables in a session that is open, with the quality step."""
    config = feeds.config(folder / "small", ("datahub_blob",))
    landing = folder / "small" / "landing" / "datahub_blob"
    landed: set[int] = set()

    def prepare(number: int) -> None:
        if number not in landed:
            landed.add(number)
            _land(landing, number, messages, 3)

    def ours(number: int) -> None:
        run = Run(spark, Lakehouse(config.root), config, f"run-{number}")
        for layer in installed_layers():
            report = layer.run(run)
            assert not report.errors, report.errors

    found = side_by_side(
        ours,
        lambda number: small_script.run(spark, folder / "small", _names(3)),
        rounds,
        (prepare, prepare),
    )
    yield Result(
        "S1",
        f"a warm round of {messages} messages to 3 tables, against a script",
        found.ratio,
        1.5,
        1.2,
        found.note,
    )


def cold(folder: Path, messages: int, rounds: int) -> Iterator[Result]:
    """New processes: a first run and one with an update of each row, then one with nothing new."""
    sides = (folder / "cold-ours", folder / "cold-script")
    for place in sides:
        feeds.config(place, ("datahub_blob",))

    def prepare(place: Path, number: int) -> None:
        shutil.rmtree(place / ("lakehouse" if place == sides[0] else "by-hand"), ignore_errors=True)
        _land(place / "landing" / "datahub_blob", 0, messages, 4)

    def ours(number: int) -> None:
        _call(["-m", "framework.cli", "run", "-c", str(sides[0] / "mainstem.yml")])

    def script(number: int) -> None:
        _call(["-m", "tests.benchmarks.small_script", str(sides[1]), *_names(4)])

    found = side_by_side(
        ours, script, rounds, (lambda n: prepare(sides[0], n), lambda n: prepare(sides[1], n))
    )
    what = f"a first run of {messages} messages to 4 tables in a new process, against a script"
    yield Result("S2", what, found.ratio, 1.0, 0.9, found.seconds)
    found = side_by_side(ours, lambda number: _call(["-c", _BLANK]), rounds)
    what = "a run with nothing new in a new process, against the start of its session"
    yield Result("S3", what, found.ratio, 1.2, 1.1, found.seconds)


def _call(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]
