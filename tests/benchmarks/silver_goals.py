"""P1 to P4: what silver costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.process import process_batch
from silver.batches.run_state import BATCH_ID_STEP, RunState
from silver.changes.source_plans import source_plans
from silver.formats import FORMATS
from silver.stream.opened_state import open_state
from tests.benchmarks import feeds
from tests.benchmarks.measure import Result, side_by_side

_IMAGE = "struct<dataColumn:map<string,string>>"
_SOURCE = "struct<source:struct<dbName:string,tableName:string>>"
_LOSSY = f"schema {_SOURCE}, payload struct<op:string,sequenceId:string,before:{_IMAGE},after:{_IMAGE}>"


class Silver:
    """A pipeline of its own, into which batches are normalized one after the other."""

    def __init__(self, spark: SparkSession, folder: Path, formats: tuple[str, ...]) -> None:
        config = feeds.config(folder, formats)
        self.batch = 0
        self.spark = spark
        self.state: RunState = open_state(spark, Lakehouse(config.root), config)[0]
        assert source_plans(config, FORMATS)

    def normalize(self, messages: DataFrame) -> None:
        self.state.files = sorted(messages.inputFiles())  # as in the stream, a batch is all rows of them
        process_batch(messages, self.batch * BATCH_ID_STEP, self.state)
        self.batch += 1


def goals(spark: SparkSession, folder: Path, count: int, rounds: int) -> Iterator[Result]:
    """P1 to P4 with batches of `count` messages."""
    each = range(rounds + 1)
    inserts = [
        feeds.bronze(
            spark,
            folder / f"insert{n}.parquet",
            [("datahub_blob", feeds.changes(count, n * count, "insert"))],
        )
        for n in each
    ]
    blob = Silver(spark, folder / "p1", ("datahub_blob",))

    def lossy(n: int) -> None:
        parsed = inserts[n].select(
            "topic", "partition", "offset", F.from_json(F.col("value").cast("string"), _LOSSY).alias("m")
        )
        images = (F.col(f"m.payload.{side}.dataColumn").alias(side) for side in ("before", "after"))
        mapped = parsed.select(
            "topic",
            "partition",
            "offset",
            "m.schema.source.*",
            "m.payload.op",
            "m.payload.sequenceId",
            *images,
        )
        mapped.write.format("delta").mode("append").save(str(folder / "lossy"))

    found = side_by_side(lambda n: blob.normalize(inserts[n]), lossy, rounds)
    yield Result("P1", "silver against from_json that loses digits", found.ratio, 1.5, 1 / 0.9, found.note)

    share = max(count // len(feeds.SIX), 1)
    mixed = [_of_six(spark, folder / f"six{n}.parquet", share, n) for n in each]
    one = [
        feeds.bronze(
            spark, folder / f"one{n}.parquet", [("oms_default", feeds.changes(share * 6, n * share * 6))]
        )
        for n in each
    ]
    six, single = Silver(spark, folder / "p2", feeds.SIX), Silver(spark, folder / "p2one", ("oms_default",))
    found = side_by_side(lambda n: six.normalize(mixed[n]), lambda n: single.normalize(one[n]), rounds)
    yield Result("P2", "six formats in a batch against one", found.ratio, 1.15, 1.1, found.note)

    bad = [
        feeds.bronze(
            spark,
            folder / f"bad{n}.parquet",
            [("datahub_blob", feeds.changes(count, n * count, "insert"))],
            bad=0.01,
        )
        for n in each
    ]
    refusing, sound = (
        Silver(spark, folder / "p3", ("datahub_blob",)),
        Silver(spark, folder / "p3sound", ("datahub_blob",)),
    )
    found = side_by_side(lambda n: refusing.normalize(bad[n]), lambda n: sound.normalize(inserts[n]), rounds)
    yield Result("P3", "1 % bad messages against none", found.ratio, 1.15, 1.1, found.note)

    halves = [
        feeds.bronze(spark, folder / f"half{n}.parquet", [("datahub_blob", feeds.changes(count, n * count))])
        for n in each
    ]
    pairing, whole = (
        Silver(spark, folder / "p4", ("datahub_blob",)),
        Silver(spark, folder / "p4whole", ("datahub_blob",)),
    )
    found = side_by_side(
        lambda n: pairing.normalize(halves[n]), lambda n: whole.normalize(inserts[n]), rounds
    )
    yield Result("P4", "updates in two halves against single messages", found.ratio, 2.2, 1.8, found.note)


def _of_six(spark: SparkSession, file: Path, share: int, n: int) -> DataFrame:
    return feeds.bronze(spark, file, [(name, feeds.changes(share, n * share)) for name in feeds.SIX])
