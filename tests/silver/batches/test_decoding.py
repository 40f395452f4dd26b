"""How messages come to the tasks: from Spark, or from files of bronze that have exactly these messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.config.model import Config, load_config
from framework.contracts.table_names import CHANGES_TABLE, ENCODINGS_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.row_groups import RowGroup
from framework.pipeline.layer import Run
from silver.batches import decoding
from silver.batches.decoding import for_arrow
from silver.changes.decode import SourcePlan, arrow_decoder
from silver.layer import LAYER as SILVER
from tests.benchmarks.whole_goals import Pipeline
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_encodings import Feeds

_reading = decoding._reading


@pytest.fixture
def pipeline(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_disk: None
) -> Pipeline:
    """A pipeline whose tasks decode also few messages, a row group each; its folder has an odd name."""
    monkeypatch.setattr(decoding, "FEW_MESSAGES", 0)
    monkeypatch.setattr(decoding, "_SMALL_TASK", 1)
    return Pipeline(spark, tmp_path / "a [b]{c}%20é", tables=2)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages of each batch tasks read from files themselves."""
    found = []

    def reading(shares: Sequence[Sequence[RowGroup]], epochs: Mapping[str, int], write: Any) -> Any:
        found.append(sum(group.rows for share in shares for group in share))
        return _reading(shares, epochs, write)

    monkeypatch.setattr(decoding, "_reading", reading)
    return found


def changes(pipeline: Pipeline) -> list[str]:
    rows = pipeline.work.lake.read(pipeline.spark, CHANGES_TABLE).where("kind = 'row'")
    return sorted(row["after"]["id"] for row in rows.collect())


@pytest.mark.slow
def test_each_batch_of_the_stream_is_read_by_its_tasks(pipeline: Pipeline, read: list[int]) -> None:
    for part, count in enumerate((30, 20)):
        pipeline.land(count)
        BRONZE.run(pipeline.work)
        assert SILVER.run(pipeline.work).errors == ()
        assert len(read) == part + 1
    assert read == [30, 20]
    assert changes(pipeline) == sorted(map(str, range(50)))


@pytest.mark.slow
def test_messages_that_are_gone_from_their_file_are_not_read(pipeline: Pipeline, read: list[int]) -> None:
    """A deletion vector marks them; the file still has them."""
    pipeline.land(30)
    BRONZE.run(pipeline.work)
    place = pipeline.work.lake.location(MESSAGES_TABLE)
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.appendOnly' = 'false'"
    pipeline.spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ({properties})")
    DeltaTable.forPath(pipeline.spark, place).delete("offset = 7")
    SILVER.run(pipeline.work)
    assert read == []
    assert len(changes(pipeline)) == 29


@pytest.mark.slow
def test_messages_of_a_source_that_is_not_configured_are_not_decoded(
    pipeline: Pipeline, read: list[int]
) -> None:
    pipeline.land(10)
    BRONZE.run(pipeline.work)
    lake, spark = pipeline.work.lake, pipeline.spark
    lake.append(
        lake.read(spark, MESSAGES_TABLE).selectExpr("* EXCEPT (source)", "'other' AS source"), MESSAGES_TABLE
    )
    SILVER.run(pipeline.work)
    assert read == []
    assert len(changes(pipeline)) == 10


def test_messages_without_headers_have_an_empty_list_on_their_way_to_the_tasks(spark: SparkSession) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    headers = [{"key": "__op", "value": bytearray(b"c")}]
    rows = [
        ("feed", "t", 0, number, now, None, bytearray(b"{}"), found, "a.txt", number, now)
        for number, found in enumerate((None, [], headers))
    ]
    messages = spark.createDataFrame(rows, MESSAGES)

    sent = for_arrow(messages)

    assert sent.schema["headers"].dataType == MESSAGES["headers"].dataType
    found = [row["headers"] for row in sent.orderBy("offset").collect()]
    assert [[header["key"] for header in each] for each in found] == [[], [], ["__op"]]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """The sources that each decoding of a batch has plans for."""
    found = []

    def decoder(plans: Mapping[str, SourcePlan]) -> Any:
        found.append(frozenset(plans))
        return arrow_decoder(plans)

    monkeypatch.setattr(decoding, "arrow_decoder", decoder)
    return found


def silver_of(spark: SparkSession, config: Config) -> Lakehouse:
    """Runs bronze and silver."""
    work = Run(spark, Lakehouse(config.root), config, "run")
    assert not BRONZE.run(work).errors + SILVER.run(work).errors
    return work.lake


def test_updates_that_share_a_position_are_decoded_once(
    spark: SparkSession, tmp_path: Path, decoded: list[frozenset[str]]
) -> None:
    """That they do is recorded, and changes nothing in how messages are read."""
    shop = Shop(spark, tmp_path)
    sides = [("UPDATE_BEFOR", "before", "pen"), ("UPDATE_AFTER", "after", "ink")]
    shop.land([message(op, 9, **{side: item(n, name, 1.5)}) for op, side, name in sides for n in (1, 2)])
    lake = silver_of(spark, shop.config)
    shown = [(row["kind"], row["modes"]) for row in lake.read(spark, ENCODINGS_TABLE).collect()]
    assert shown == [("positions", "shared")]
    assert decoded == [{"feed"}]


@pytest.mark.parametrize(
    ("setting", "times"), [pytest.param("", 2, marks=pytest.mark.slow), (", decimals: text", 1)]
)
def test_values_that_narrow_no_mode_are_decoded_once(
    spark: SparkSession, tmp_path: Path, decoded: list[frozenset[str]], setting: str, times: int
) -> None:
    Feeds(tmp_path / "landing").land("late", "12.50")
    file = tmp_path / "mainstem.yml"
    source = f"late: {{format: debezium, files: ./landing/late, layout: kcat{setting}}}"
    file.write_text(f"pipeline: modes\nlakehouse: ./lakehouse\nsources: {{{source}}}\nquality: false\n")
    lake = silver_of(spark, load_config(file, formats=SILVER.options()))
    assert [row["modes"] for row in lake.read(spark, ENCODINGS_TABLE).collect()] == ["text"]
    (row,) = lake.read(spark, CHANGES_TABLE).where("kind = 'row'").collect()
    assert row["after"]["amount"] == "12.50"
    assert len(decoded) == times
