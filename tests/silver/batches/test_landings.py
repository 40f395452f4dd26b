"""Whether a message landed before where `forget` has emptied the earlier one: it has no bytes to compare."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from framework.contracts.erasure import FORGOTTEN
from silver.batches.landings import _compare_landings

SCHEMA = (
    "source string, topic string, `partition` int, offset bigint, timestamp timestamp, key binary, "
    "value binary, headers array<struct<key:string,value:binary>>, file string, line bigint, "
    "ingested_at timestamp, epoch int"
)
ERASED, AGAIN, REUSED, NEW = "erased", "landed again", "reused coordinates", "new"


def outcomes(spark: SparkSession, *landings: tuple[int, str, int, int]) -> list[str]:
    """What landings without a broker's time are: of offset, value, second of the landing, and epoch."""
    rows = []
    for offset, text, second, epoch in landings:
        value, headers = (None, [(FORGOTTEN, None)]) if text is ERASED else (text.encode(), None)
        landed = datetime.fromtimestamp(second, UTC)
        rows.append(
            ("feed", "orders", 0, offset, None, None, value, headers, f"{second}", offset, landed, epoch)
        )
    compared = _compare_landings(spark.createDataFrame(rows, SCHEMA)).orderBy("ingested_at", "offset")
    return [
        AGAIN if row["relanding"] is not None else REUSED if row["is_reused"] else NEW
        for row in compared.collect()
    ]


def test_a_second_landing_of_an_emptied_message_without_a_time_is_one(spark: SparkSession) -> None:
    first = [(0, ERASED, 1, 1), (1, "b", 1, 1)]
    assert outcomes(spark, *first, (0, "a", 2, 1), (1, "b", 2, 1)) == [NEW, NEW, AGAIN, AGAIN]


def test_messages_of_a_topic_that_was_created_again_are_no_second_landing(spark: SparkSession) -> None:
    first = [(0, ERASED, 1, 1), (1, "b", 1, 1)]
    assert outcomes(spark, *first, (0, "x", 2, 1), (1, "y", 2, 1)) == [NEW, NEW, REUSED, REUSED]
    assert outcomes(spark, *first, (0, "x", 2, 2), (1, "y", 2, 2)) == [NEW, NEW, NEW, NEW]
    assert outcomes(spark, *first, (0, ERASED, 2, 2)) == [NEW, NEW, NEW]
