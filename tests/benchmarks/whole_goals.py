"""P8, P10 and P12: the whole way, an idle run, and memory."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from delta.tables import DeltaTable
from deltalake import DeltaTable as DeltaTableFile
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bronze.layer import LAYER as BRONZE
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.quality.layer import LAYER as QUALITY
from gold.layer import LAYER as GOLD
from silver.layer import LAYER as SILVER
from tests.benchmarks import feeds
from tests.benchmarks.measure import Result, cpu_seconds, side_by_side
from tests.end_to_end.random_wires import blob
from tests.processes import memory_of

_PAYLOAD = "struct<op:string,sequenceId:string,after:struct<dataColumn:map<string,string>>>"
LIMIT_BYTES = 4 * 1024**3


class Pipeline:
    """A pipeline over a folder, and a notebook by hand over the same files."""

    def __init__(self, spark: SparkSession, folder: Path, tables: int = 1) -> None:
        self.spark, self.folder, self.files, self.tables = spark, folder, 0, tables
        self.landed = 0
        config = feeds.config(folder, ("datahub_blob",))
        self.landing = folder / "landing" / "datahub_blob"
        self.work = Run(spark, Lakehouse(config.root), config, "bench")

    def land(self, count: int) -> None:
        """Files of inserts in the landing folder, old enough to be complete."""
        self.files += 1
        draft = self.landing / f".{self.files}"
        with draft.open("w") as stream:
            for change in feeds.changes(count, self.landed, "insert", self.tables):
                stream.writelines(f"{line}\n" for line in blob(change))
        self.landed += count
        os.utime(draft, (1_700_000_000 + self.files, 1_700_000_000 + self.files))
        draft.rename(self.landing / f"{self.files:04d}.jsonl")

    def run(self) -> None:
        for layer in (BRONZE, SILVER, GOLD):
            layer.run(self.work)

    def notebook(self) -> None:
        """A script for one feed alone: lossy, without quarantine, halves, late changes or a second table."""
        target, raw = str(self.folder / "notebook"), str(self.folder / "notebook-raw")
        if not DeltaTable.isDeltaTable(self.spark, target):
            empty = ", ".join(f"{name} {kind}" for name, kind in feeds.TYPES.items())
            self.spark.createDataFrame([], f"{empty}, _sequence bigint").write.format("delta").save(target)

        def keep(batch: DataFrame, number: int) -> None:
            batch.write.format("delta").mode("append").save(raw)

        def apply(batch: DataFrame, number: int) -> None:
            parsed = batch.select(F.from_json("value", f"payload {_PAYLOAD}").alias("m")).select(
                "m.payload.*"
            )
            newest = F.row_number().over(
                Window.partitionBy(F.col("after.dataColumn.id")).orderBy(
                    F.col("sequenceId").cast("bigint").desc()
                )
            )
            cells = [
                F.col(f"after.dataColumn.{name}").cast(kind).alias(name) for name, kind in feeds.TYPES.items()
            ]
            rows = (
                parsed.withColumn("n", newest)
                .where("n = 1")
                .select(*cells, F.col("sequenceId").cast("bigint").alias("_sequence"))
            )
            merge = (
                DeltaTable.forPath(batch.sparkSession, target)
                .alias("t")
                .merge(rows.alias("s"), "t.id = s.id")
            )
            merge.whenMatchedUpdateAll("t._sequence <= s._sequence").whenNotMatchedInsertAll().execute()

        landing = self.spark.readStream.schema("value string").text(str(self.landing))
        self._streamed(landing, keep, "land")
        self._streamed(self.spark.readStream.format("delta").load(raw), apply, "apply")

    def _streamed(self, frame: DataFrame, write: Callable[[DataFrame, int], None], name: str) -> None:
        writer = frame.writeStream.trigger(availableNow=True).option(
            "checkpointLocation", str(self.folder / f"checkpoint-{name}")
        )
        writer.foreachBatch(write).start().awaitTermination()

    def idle_streams(self) -> None:
        """Three streams with nothing new."""
        landing = self.spark.readStream.schema("value string").text(str(self.landing))
        for name in ("land", "two", "three"):
            self._streamed(landing, lambda batch, number: None, name)


def goals(spark: SparkSession, folder: Path, count: int, rounds: int) -> Iterator[Result]:
    """P8 with files of `count` messages."""
    pipeline = Pipeline(spark, folder / "p8")
    landed: set[int] = set()

    def prepare(n: int) -> None:
        if n not in landed:
            landed.add(n)
            pipeline.land(count)

    found = side_by_side(lambda n: pipeline.run(), lambda n: pipeline.notebook(), rounds, (prepare, prepare))
    yield Result(
        "P8", "bronze to gold against a notebook for one feed", found.ratio, 1.2, 1 / 1.2, found.note
    )


def idle(spark: SparkSession, folder: Path, count: int, rounds: int) -> Iterator[Result]:
    """P10 behind a run of `count` messages."""
    pipeline = Pipeline(spark, folder / "p10")
    pipeline.land(count)
    pipeline.run()
    pipeline.idle_streams()
    found = side_by_side(lambda n: pipeline.run(), lambda n: pipeline.idle_streams(), rounds)
    yield Result(
        "P10", "a run with nothing new against three empty streams", found.ratio, 1.3, 1.1, found.note
    )


def quality(spark: SparkSession, folder: Path, count: int) -> Iterator[Result]:
    """The quality step's share of a first run, and of one with a hundredth of its changes."""
    for name, changes in (("warm", max(count // 100, 1)), ("quality", count)):
        pipeline = Pipeline(spark, folder / name, tables=20)
        times, seen = [], dict[int, int]()
        for new in (changes, max(changes // 100, 1)):
            pipeline.land(new)
            marks = [(time.perf_counter(), cpu_seconds(seen))]
            pipeline.run()
            marks.append((time.perf_counter(), cpu_seconds(seen)))
            report = QUALITY.run(pipeline.work)
            assert not report.failures, report.failures
            marks.append((time.perf_counter(), cpu_seconds(seen)))
            times.append(
                [
                    [after - before for before, after in zip(one, other, strict=True)]
                    for one, other in pairwise(marks)
                ]
            )
    for what, (layers, step) in zip(
        (f"{count:,} changes to 20 tables", "a hundredth as many behind them"), times, strict=True
    ):
        others, mine = layers[0], step[0]
        note = f"CPU {step[1] / (layers[1] + step[1]):.2f}; {mine:.2f} s of {others + mine:.2f} s"
        yield Result("Q", f"quality's share of a run with {what}", mine / (others + mine), 0.25, 0.15, note)


def cores(folder: Path, count: int, rounds: int) -> Iterator[Result]:
    """The time of each layer on two cores, relative to that on one, for updates in halves.

    Medians of so many runs; they take turns, and which of them begins does so, too. The process is bound to
    its cores: a single task of Spark uses more than one, because its JVM and its Python process work side by
    side.
    """
    seconds: dict[tuple[int, str], list[float]] = {}
    for turn in range(max(rounds, 1)):
        for number in (1, 2) if turn % 2 == 0 else (2, 1):
            for layer, took in _steps_on(number, folder / f"cores{number}-{turn}", count).items():
                seconds.setdefault((number, layer), []).append(took)
    for layer in ("bronze", "silver", "gold"):
        one, two = (statistics.median(seconds[number, layer]) for number in (1, 2))
        what = f"{layer} on two cores against one, {count:,} messages"
        yield Result("C", what, two / one, 1 / 1.7, 1 / 1.9, f"{two:.1f} s and {one:.1f} s")


def _steps_on(number: int, folder: Path, count: int) -> dict[str, float]:
    """The seconds of each layer in a run over a new lakehouse, in a process bound to so many cores."""
    config = feeds.config(folder, ("datahub_blob",))
    with (folder / "landing" / "datahub_blob" / "all.jsonl").open("w") as stream:
        for change in feeds.changes(count // 2, 0):
            stream.writelines(f"{line}\n" for line in blob(change))
    command = [sys.executable, "-m", "framework.cli", "run", "--without-quality"]
    environment = {**os.environ, "MAINSTEM_MASTER": f"local[{number}]"}
    mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, mine[:number])
    try:
        place = str(folder / "mainstem.yml")
        subprocess.run([*command, "-c", place], check=True, env=environment, stdout=subprocess.DEVNULL)
    finally:
        os.sched_setaffinity(0, mine)
    (run,) = DeltaTableFile(f"{config.root}/ops/runs").to_pyarrow_table().to_pylist()
    shutil.rmtree(folder)
    steps: dict[str, float] = json.loads(run["steps"])
    return steps


def memory(folder: Path, size: int) -> Iterator[Result]:
    """P12: the peak of driver and workers while a file of `size` bytes becomes a table, relative to 4 GB."""
    config = feeds.config(folder / "p12", ("datahub_blob",))
    file = folder / "p12" / "landing" / "datahub_blob" / "big.jsonl"
    with file.open("w") as stream:
        for change in feeds.changes(10**9, 0, "insert"):
            stream.writelines(f"{line}\n" for line in blob(change))
            if stream.tell() >= size:
                break
    command = [
        sys.executable,
        "-m",
        "framework.cli",
        "run",
        "--json",
        "-c",
        str(folder / "p12" / "mainstem.yml"),
    ]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.2):
            peak = max(peak, memory_of(running.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = running.communicate()
    ended.set()
    watcher.join()
    assert running.returncode == 0, config.root
    messages = json.loads(output)["counts"]["messages"]
    note = f"{peak / 1024**3:.2f} GB, {messages:,} messages"
    yield Result(
        "P12",
        f"peak memory for a file of {size / 1024**2:,.0f} MB, share of 4 GB",
        peak / LIMIT_BYTES,
        1.0,
        0.5,
        note,
    )
