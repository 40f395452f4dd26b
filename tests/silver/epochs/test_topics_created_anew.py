"""A topic that was created anew twice: messages are compared with those of the topic before theirs alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from framework.config.model import load_config
from framework.contracts.epochs import PartitionStart, TopicStart
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.landings import OffsetRange, identify
from silver.batches.source_epochs import SourceEpochs
from silver.epochs.history import EpochStart, History, started_rows
from silver.epochs.resets import StopPoint
from silver.epochs.starts import epoch_starts, of_present_topics
from silver.epochs.unknown_topics import find_unknown_topics
from silver.layer import LAYER as SILVER

Message = tuple[int, int, int]
"""The offset of a message, when it was sent, and when it landed."""
SECOND = PartitionStart("orders", 0, 0, (2_000, "dump-2000", 1), TopicStart(0, 200, 109, 9))
THIRD = PartitionStart("orders", 0, 0, (3_000, "dump-3000", 1), TopicStart(5, 300, 203, 3))
FIRST_TOPIC = [(offset, 100 + offset, 1_000) for offset in range(10)]
SECOND_TOPIC = [(offset, 200 + offset, 2_000) for offset in range(4)]
THIRD_TOPIC = [(offset, 300 + offset, 3_000) for offset in range(4)]
PIPELINE = """
pipeline: shop
lakehouse: ./lakehouse
sources:
  feed: {epoch: 2, format: canal, layout: kcat, files: ./landing}
"""


def log(*starts: PartitionStart) -> History:
    found = History()
    for epoch, start in enumerate(starts, 2):
        found = History((*found.rows, *started_rows(EpochStart("feed", epoch, epoch - 1, [start]), found)))
    return found


def landed(spark: SparkSession, messages: Sequence[Message]) -> DataFrame:
    rows = spark.createDataFrame(messages, "offset bigint, sent bigint, at bigint").coalesce(1)
    values = {
        "source": "'feed'",
        "topic": "'orders'",
        "partition": "0",
        "offset": "offset",
        "timestamp": "timestamp_micros(sent)",
        "value": "encode(concat('message ', sent), 'UTF-8')",
        "file": "concat('dump-', at)",
        "line": "offset + 1",
        "ingested_at": "timestamp_micros(at)",
    }
    return rows.selectExpr(
        *(f"CAST({values.get(f.name, 'NULL')} AS {f.dataType.simpleString()}) `{f.name}`" for f in MESSAGES)
    )


def test_an_epoch_remembers_how_far_the_topic_before_it_had_come(spark: SparkSession) -> None:
    history = log(SECOND)
    messages = landed(spark, [*FIRST_TOPIC, *SECOND_TOPIC, *THIRD_TOPIC])
    unread = landed(spark, THIRD_TOPIC).selectExpr("*", "CAST(NULL AS string) relanding", "1 restart")
    stop = StopPoint("feed", "orders", 0, 0, "offsets_restarted", "", 1, (3_000, "dump-3000", 1))
    [start] = epoch_starts(of_present_topics(messages, history, {"feed": 2}), unread, [stop])
    assert start.since == TopicStart(0, 300, 203, 3)


def test_a_message_between_two_topics_stops_its_source_where_the_former_one_had_not_come(
    spark: SparkSession,
) -> None:
    history = log(SECOND, THIRD)
    new = landed(spark, [(4, 290, 4_000)]).selectExpr("*", "CAST(NULL AS string) relanding", "3 epoch")
    bronze = landed(spark, [*FIRST_TOPIC, *SECOND_TOPIC, (5, 300, 3_000)])
    assert [stop.offset for stop in find_unknown_topics(new, bronze, history, {"feed": 3})] == [4]


def test_the_rest_of_a_topic_that_lands_with_the_next_one_is_no_part_of_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "mainstem.yml").write_text(PIPELINE, encoding="utf-8")
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    lake = Lakehouse(config.root)
    rest = [(offset, 240 + offset, 3_500) for offset in range(4, 8)]
    lake.append(landed(spark, [*FIRST_TOPIC, *SECOND_TOPIC, *THIRD_TOPIC, *rest]).coalesce(1), MESSAGES_TABLE)
    batch = lake.read(spark, MESSAGES_TABLE).where("ingested_at >= timestamp_micros(3000)")
    known = SourceEpochs(config, log(SECOND))
    found = identify(batch, lake, known, [OffsetRange("feed", "orders", 0, 0, 7, is_plain=False)])
    restarts = {row["offset"]: row["restart"] for row in found.collect()}
    assert restarts == {0: 1, 1: 1, 2: 1, 3: 1, 4: 0, 5: 0, 6: 0, 7: 0}
