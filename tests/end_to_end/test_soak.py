"""Many rounds over ten tables in one process: what the process holds does not grow with the rounds.

    MAINSTEM_SOAK=1000 python -m pytest -s tests/end_to_end/test_soak.py

Prints the driver's heap after a collection, its threads and open files, and what Spark keeps cached, every so
often.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.pipeline.continuous import repeat
from framework.pipeline.layer import Run
from framework.pipeline.run import run_layers
from framework.spark.session import jvm_process
from tests.end_to_end.test_blob_to_replica import Shop, item, message

ROUNDS = int(os.environ.get("MAINSTEM_SOAK") or 0)
SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
TABLES = [f"item_{number}" for number in range(10)]
PER_ROUND = 3
SAMPLES = 20
GROWTH = 0.01
"""How much of the heap may come to it in a hundred rounds."""


@dataclass(frozen=True)
class Usage:
    """What a process and its JVM hold at a moment; `heap` in MB, after a collection."""

    round: int
    heap: float
    threads: int
    files: int
    cached: int
    python_threads: int
    python_files: int
    seconds: float
    """A round's, on average since the sample before."""


def usage(spark: SparkSession, number: int, seconds: float) -> Usage:
    context: Any = spark.sparkContext
    java = context._jvm.java.lang
    gc.collect()
    for _ in range(3):
        java.System.gc()
        time.sleep(0.3)
    runtime = java.Runtime.getRuntime()
    pid = jvm_process(spark)
    return Usage(
        number,
        (runtime.totalMemory() - runtime.freeMemory()) / 2**20,
        java.management.ManagementFactory.getThreadMXBean().getThreadCount(),
        len(os.listdir(f"/proc/{pid}/fd")),
        context._jsc.sc().getPersistentRDDs().size(),
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),
        seconds,
    )


class Feed:
    """Ten tables that change at random; each round some of them."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.draw, self.at, self.rounds = shop, Random(SEED), 0, 0
        self.rows: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in TABLES}

    def land(self) -> None:
        first = self.rounds * PER_ROUND
        self.rounds += 1
        self.shop.land([self._change(TABLES[(first + number) % len(TABLES)]) for number in range(PER_ROUND)])

    def _change(self, table: str) -> dict[str, Any]:
        self.at += 1
        rows, key = self.rows[table], self.draw.randint(1, 20)
        old, new = rows.get(key), item(key, self.draw.choice(("pen", "ink")), self.at + 0.5)
        if old is None:
            rows[key] = new
            return message("INSERT", self.at, after=new, tableName=table)
        if self.draw.random() < 0.3:
            return message("DELETE", self.at, before=rows.pop(key), tableName=table)
        rows[key] = new
        return message("UPDATE", self.at, before=old, after=new, tableName=table)


def growth(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of a line through points, and its standard error: few rounds show little."""
    xs, ys = zip(*points, strict=True)
    slope, begin = statistics.linear_regression(xs, ys)
    left = sum((y - begin - slope * x) ** 2 for x, y in points)
    spread = sum((x - statistics.mean(xs)) ** 2 for x in xs)
    return slope, math.sqrt(left / (len(points) - 2) / spread)


@pytest.mark.parametrize("rounds", [40, 1_000])
@pytest.mark.parametrize(("rise", "is_growth"), [(0, False), (60, True)])
def test_growth_is_told_from_what_scatters(rounds: int, rise: int, is_growth: bool) -> None:
    draw = Random(SEED)
    steps = range(0, rounds, rounds // SAMPLES)
    slope, error = growth([(n, 150 + rise * n / rounds + draw.uniform(-10, 10)) for n in steps])
    assert (slope - 2 * error > 0.02) == is_growth


@pytest.mark.skipif(not ROUNDS, reason="many rounds in one process are for make soak")
def test_what_a_process_holds_does_not_grow_with_its_rounds(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    feed, ended, found, spent = Feed(shop), threading.Event(), list[Usage](), list[float]()
    every = max(1, ROUNDS // SAMPLES)
    print(
        f"\nMAINSTEM_SEED={SEED} MAINSTEM_SOAK={ROUNDS}\n"
        + " ".join(f"{field.name:>14}" for field in fields(Usage))
    )

    def work() -> int:
        feed.land()
        reports, seconds = run_layers(
            Run(spark, shop.lake, shop.config, f"round-{feed.rounds}"), "gold", time.monotonic()
        )
        assert [report.errors for report in reports] == [()] * 3
        spent.append(seconds)
        if feed.rounds % every == 0:
            found.append(usage(spark, feed.rounds, statistics.mean(spent)))
            spent.clear()
            print(
                " ".join(
                    f"{value:>14.1f}" if isinstance(value, float) else f"{value:>14}"
                    for value in astuple(found[-1])
                ),
                flush=True,
            )
        if feed.rounds == ROUNDS:
            ended.set()
        return 0

    repeat(work, timedelta(0), ended)
    for name in TABLES:
        assert shop.rows(f"shop/{name}") == feed.rows[name], name
    settled = found[len(found) // 3 :]
    slope, error = growth([(one.round, one.heap) for one in settled])
    typical = settled[0].heap
    print(
        f"the heap grows by {100 * slope:+.2f} MB a hundred rounds, {100 * slope / typical:+.1%}, "
        f"give or take {200 * error:.2f} MB"
    )
    assert 100 * (slope - 2 * error) < GROWTH * typical + 1
    for one in settled:
        assert one.threads <= settled[0].threads + 10
        assert one.files <= settled[0].files + 20
        assert one.cached <= settled[0].cached
        assert one.python_threads <= settled[0].python_threads + 5
        assert one.python_files <= settled[0].python_files + 10
