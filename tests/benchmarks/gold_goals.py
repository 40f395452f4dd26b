"""P5 to P7: what gold costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import gold.job
from framework.lakehouse.lakehouse import Lakehouse
from gold.job import run_gold
from tests.benchmarks import feeds
from tests.benchmarks.measure import Result, Sides, side_by_side

_ONE: Mapping[str, int] = {"item": 0}
_SHAPES = 40
"""How many shapes the tables of P7 have: each is a plan, and code, of its own."""


class Replica:
    """A pipeline with tables of `size` rows, and hand-written twins of them."""

    def __init__(
        self, spark: SparkSession, folder: Path, size: int, tables: Mapping[str, int] = _ONE
    ) -> None:
        self.spark, self.folder, self.size, self.tables, self.batch = spark, folder, size, tables, 0
        self.config = feeds.config(folder, ("datahub_blob",))
        self.lake = Lakehouse(self.config.root)
        rows = spark.range(size).withColumn("version", F.lit(1))
        feeds.silver(self.lake, rows, 0, tables)
        for table, extra in tables.items():
            typed(rows, extra).write.format("delta").option("delta.enableChangeDataFeed", "true").save(
                self.twin(table)
            )
        self.apply()

    def twin(self, table: str) -> str:
        return str(self.folder / "twins" / table)

    def publish(self, count: int) -> None:
        """A batch of changes to the newest keys, for each table."""
        self.batch += 1
        feeds.silver(self.lake, self.newest(count), self.batch, self.tables)

    def newest(self, count: int) -> DataFrame:
        rows = self.spark.range(max(self.size - count, 0), self.size)
        return rows.withColumn("version", F.lit(self.batch + 1))

    def apply(self) -> None:
        run_gold(self.spark, self.lake, self.config, f"r{self.batch}")

    def merge_by_hand(self, count: int, threads: int = 1) -> None:
        def one(table: str) -> None:
            session = self.spark.newSession()
            target = DeltaTable.forPath(session, self.twin(table)).alias("t")
            rows = session.read.parquet(str(self.folder / f"reduced-{self.batch}-{self.tables[table]}"))
            same = f"t.id = s.id AND t.id BETWEEN {max(self.size - count, 0)} AND {self.size - 1}"
            target.merge(rows.alias("s"), same).whenMatchedUpdateAll(
                "t.n <= s.n"
            ).whenNotMatchedInsertAll().execute()

        with ThreadPoolExecutor(max_workers=threads) as pool:
            list(pool.map(one, self.tables))

    def reduce(self, count: int) -> None:
        for extra in set(self.tables.values()):
            typed(self.newest(count), extra).write.mode("overwrite").parquet(
                str(self.folder / f"reduced-{self.batch}-{extra}")
            )


def typed(rows: DataFrame, extra: int) -> DataFrame:
    kinds = feeds.types(extra)
    return rows.select(*(cell.cast(kinds[name]).alias(name) for name, cell in feeds.cells(extra).items()))


def goals(spark: SparkSession, folder: Path, size: int, rounds: int) -> Iterator[Result]:
    """P5 and P6 with tables of `size` rows."""
    replica = Replica(spark, folder / "p5", size)
    for share, limit, stretch in ((20, 1.3, 1.15), (2000, 1.4, 1.25)):
        count = max(size // share, 10)
        found = _against_hand(replica, count, rounds)
        yield Result(
            "P5",
            f"gold, {count:,} rows into {size:,}, against a MERGE",
            found.ratio,
            limit,
            stretch,
            found.note,
        )
    small = Replica(spark, folder / "p6", max(size // 10, 10))
    count = max(size // 100, 10)
    found = _twice(replica, count, small, count, rounds)
    growth = math.log(max(found.ratio, 0.01), 10)
    yield Result("P6", "growth with the table's size, exponent", growth, 0.2, 0.15, found.note)
    found = _twice(replica, max(size // 10, 10), replica, count, rounds)
    growth = math.log(max(found.ratio, 0.01), max(size // 10, 10) / count) if size // 10 > count else 0.0
    yield Result("P6", "growth with the batch's size, exponent", growth, 1.05, 1.0, found.note)


def _against_hand(replica: Replica, count: int, rounds: int, threads: int = 1) -> Sides:
    ready: set[int] = set()

    def prepare(n: int) -> None:
        if n not in ready:
            ready.add(n)
            replica.publish(count)
            replica.reduce(count)

    return side_by_side(
        lambda n: replica.apply(), lambda n: replica.merge_by_hand(count, threads), rounds, (prepare, prepare)
    )


def _twice(big: Replica, big_count: int, small: Replica, small_count: int, rounds: int) -> Sides:
    prepare = (lambda n: big.publish(big_count), lambda n: small.publish(small_count))
    return side_by_side(lambda n: big.apply(), lambda n: small.apply(), rounds, prepare)


def many_tables(spark: SparkSession, folder: Path, tables: int, rounds: int) -> Iterator[Result]:
    """P7 with so many tables."""
    replica = Replica(spark, folder / "p7", 2_000, {f"t{n:03d}": n % _SHAPES for n in range(tables)})
    found = _against_hand(replica, 500, rounds, gold.job.THREADS)
    yield Result(
        "P7",
        f"{tables} tables of 500 changes against as many MERGEs by hand",
        found.ratio,
        1.0,
        0.7,
        found.note,
    )

    def with_threads(threads: int) -> None:
        before, gold.job.THREADS = gold.job.THREADS, threads
        try:
            replica.apply()
        finally:
            gold.job.THREADS = before

    def prepare(n: int) -> None:
        replica.publish(500)

    found = side_by_side(lambda n: with_threads(8), lambda n: with_threads(1), rounds, (prepare, prepare))
    yield Result("P7", "8 threads against 1", found.ratio, 0.65, 0.5, found.note)
