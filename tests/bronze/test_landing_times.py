"""Messages of brokers and tables land one after the other, also where the clock is set back."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.checkpoint import Checkpoint
from bronze.landing import batch_lander
from bronze.source import Feed
from bronze.sources.table import KIND
from framework.config.sources import Source
from framework.contracts.table_names import MESSAGES_TABLE
from framework.lakehouse.small_files import write_note
from tests.bronze.conftest import NoOptions

NOON = 1_700_000_000_000_000
HOUR = 3_600_000_000


@pytest.mark.slow
def test_no_message_lands_before_those_that_have_landed(
    spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another generation of the checkpoint, which has noted no time, asks `bronze/messages`."""
    source = Source(name="crm", format="debezium", table="raw", options=NoOptions())
    table = replace(feed, source=source)

    def land(generation: str, number: int, now: int) -> None:
        write_note(spark, f"{table.checkpoint}.generation", json.dumps({"generation": generation}))
        monkeypatch.setattr(time, "time_ns", lambda: now * 1_000)
        row = spark.range(1).selectExpr("'v' value", "'t' topic", "0 `partition`", f"{number}L offset")
        batch_lander(table, KIND, Checkpoint(generation, is_reset=generation == "b"))(row, number)

    land("a", 0, NOON)
    land("a", 1, NOON - HOUR)
    land("b", 2, NOON - HOUR)

    rows = table.lake.read(spark, MESSAGES_TABLE).orderBy("offset").select(F.unix_micros("ingested_at"))
    assert [row[0] for row in rows.collect()] == [NOON, NOON + 1, NOON + 2]
