"""Messages that are decoded again: what nobody has read stays unread, what is refused tells why it is now."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config, load_config
from framework.contracts.dismissals import DismissalRequest, Selection
from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, MESSAGES_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.pipeline.layer import Run
from silver.job import rebuild_silver, replay_silver, run_silver
from silver.layer import LAYER
from silver.operations.dismiss import dismiss
from silver.operations.redecode import RedecodeResult
from tests.silver.operations.test_few_redecode import in_spark


def canal(number: int, seconds: int) -> str:
    time = 1_700_000_000_000 + seconds * 1000
    text = '{"database":"shop","table":"item","type":"INSERT","es":%d,"isDdl":false,"data":[{"id":"%d"}]}'
    return text % (time, number)


class Bronze:
    """A pipeline whose messages are put into bronze at once; `land` numbers the offsets from 0."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.file, self.landed = spark, folder / "mainstem.yml", 0
        self.lake = Lakehouse(str(folder / "lakehouse"))
        self.begin(1)

    def begin(self, epoch: int, more: str = "") -> None:
        source = f"{{format: canal, layout: kcat, files: ./landing, epoch: {epoch}}}"
        self.file.write_text(f"pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {source}\n{more}")

    @property
    def config(self) -> Config:
        return load_config(self.file, formats=LAYER.options())

    def land(self, texts: Sequence[str]) -> None:
        self.landed += 1
        now = datetime(2026, 1, self.landed, tzinfo=UTC)
        rows = [
            ("feed", "shop.item", 0, n, now, None, text.encode(), None, f"{self.landed}", n + 1, now)
            for n, text in enumerate(texts)
        ]
        self.lake.append(self.spark.createDataFrame(rows, MESSAGES), MESSAGES_TABLE)

    def outcomes(self) -> list[tuple[Any, ...]]:
        rows = self.lake.read(self.spark, CHANGES_TABLE).collect()
        return sorted((r["epoch"], r["offset"], r["kind"], dict(r["after"] or {}).get("id")) for r in rows)


@pytest.mark.slow
def test_no_repair_decodes_the_unread_messages_of_a_topic_that_was_created_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    bronze = Bronze(spark, tmp_path)
    bronze.land([canal(1, 1), canal(2, 2), "no message"])
    run_silver(spark, bronze.lake, bronze.config)
    first = [(1, 0, "row", "1"), (1, 1, "row", "2"), (1, 2, "quarantined", None)]
    assert bronze.outcomes() == first

    bronze.land([canal(11, 11), canal(12, 12), canal(13, 13)])
    (error,) = run_silver(spark, bronze.lake, bronze.config).errors
    assert "SOURCE_RESET" in str(error)
    assert rebuild_silver(spark, bronze.lake, bronze.config, "shop.item").messages == 2
    assert bronze.outcomes() == first
    replay_silver(spark, bronze.lake, bronze.config)
    assert bronze.outcomes() == first
    refused = bronze.lake.read(spark, QUARANTINE_TABLE).collect()
    assert [(row["value"], row["is_resolved"]) for row in refused] == [(b"no message", False)]

    bronze.begin(2)
    run_silver(spark, bronze.lake, bronze.config)
    assert bronze.outcomes() == [*first, *((2, n, "row", f"{11 + n}") for n in range(3))]


@pytest.mark.slow
def test_messages_that_stay_refused_have_the_reason_of_today(spark: SparkSession, tmp_path: Path) -> None:
    bronze = Bronze(spark, tmp_path)
    rule = (
        "quality:\n  rules:\n    - {match: shop.item, name: %s, range: {column: id, max: 1},"
        " on_change: quarantine}\n"
    )
    bronze.begin(1, rule % "old")
    bronze.land([canal(1, 1), canal(2, 2), canal(3, 3)])
    run_silver(spark, bronze.lake, bronze.config)
    table = sql_name(bronze.lake.location(QUARANTINE_TABLE))
    spark.sql(f"UPDATE {table} SET dismissed_at = now(), dismissed_because = 'a test' WHERE offset = 1")
    bronze.begin(1, rule % "new")
    rebuild_silver(spark, bronze.lake, bronze.config, "shop.item")
    refused = bronze.lake.read(spark, QUARANTINE_TABLE).orderBy("offset").collect()
    shown = [(row["reason"], row["detail"], row["dismissed_because"]) for row in refused]
    assert shown == [("rule_broken", "new", "a test"), ("rule_broken", "new", None)]


def ogg(number: int, hour: int) -> str:
    head = {"table": "SHOP.ITEM", "op_type": "I", "op_ts": f"2024-02-29 {hour}:00:00.000000"}
    return json.dumps({**head, "primary_keys": ["ID"], "after": {"ID": number}})


@pytest.mark.slow
def test_counts_of_batches_have_the_positions_and_times_of_today(spark: SparkSession, tmp_path: Path) -> None:
    """Positions that are times of the source move with its zone."""
    bronze = Bronze(spark, tmp_path)
    plain = bronze.file.read_text().replace("canal", "ogg").replace("epoch: 1", "order: time, timezone: %s")

    def ends(table: str, *columns: str) -> list[Any]:
        low, high, time = columns
        rows = bronze.lake.read(spark, table).where("kind = 'row'").groupBy("batch")
        return sorted(map(tuple, rows.agg(F.min(low), F.max(high), F.max(time)).collect()))

    bronze.file.write_text(plain % "UTC")
    bronze.land([ogg(1, 10), ogg(2, 11)])
    run_silver(spark, bronze.lake, bronze.config)
    before = ends(BATCHES_TABLE, "min_sequence", "max_sequence", "max_event_time")
    bronze.file.write_text(plain % "Asia/Shanghai")
    assert rebuild_silver(spark, bronze.lake, bronze.config, "SHOP.ITEM").messages == 2
    after = ends(BATCHES_TABLE, "min_sequence", "max_sequence", "max_event_time")
    assert after == ends(CHANGES_TABLE, "sequence", "sequence", "event_time")
    assert after < before
    (counted,) = bronze.lake.read(spark, BATCHES_TABLE).agg(F.sum("rows")).collect()
    assert counted[0] == 2
    version = bronze.lake.version(spark, BATCHES_TABLE)
    rebuild_silver(spark, bronze.lake, bronze.config, "SHOP.ITEM")
    assert bronze.lake.version(spark, BATCHES_TABLE) == version


GBK = "中".encode("gbk").decode("latin-1")
"""A text as Canal writes the bytes of a binary column."""


def with_note(number: int, note: str) -> str:
    return (
        canal(number, number).replace('"}]', f'","note":"{note}"}}]').replace('"data"', NOTE_TYPE + '"data"')
    )


NOTE_TYPE = '"mysqlType":{"id":"int","note":"blob"},'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "before"),
    [(nullcontext, ["pens"]), (in_spark, ["pens"]), (nullcontext, [])],
    ids=["here", "by Spark", "no row before"],
)
def test_a_rebuild_brings_back_the_rows_that_a_wrong_codec_has_put_into_quarantine(
    spark: SparkSession, tmp_path: Path, way: Callable[[], AbstractContextManager[None]], before: list[str]
) -> None:
    """Also where no row of the table could be read."""
    bronze, number = Bronze(spark, tmp_path), len(before)
    bronze.land([with_note(n, note) for n, note in enumerate([*before, GBK])] + ["no message"])
    run_silver(spark, bronze.lake, bronze.config)

    def rebuilt(codec: str) -> RedecodeResult | None:
        bronze.begin(1, f"tables:\n  - {{match: shop.item, columns: {{note: {{decode: {codec}}}}}}}\n")
        with way():
            return rebuild_silver(spark, bronze.lake, bronze.config, "shop.item").again

    assert rebuilt("utf8") == RedecodeResult(number + 1, refused=1)
    for is_undone in (False, True):
        request = DismissalRequest(Selection(reason="encoding"), "", is_undone, is_written=True)
        assert dismiss(Run(spark, bronze.lake, bronze.config, "dismiss"), request).messages == 1
        if not is_undone and before:
            assert rebuilt("gbk") == RedecodeResult(number)
    refused = bronze.lake.read(spark, QUARANTINE_TABLE).where("NOT is_resolved AND reason = 'encoding'")
    assert [row["offset"] for row in refused.collect()] == [number]
    assert rebuilt("gbk") == RedecodeResult(number + 1, freed=1)
    assert refused.isEmpty()
    rows = bronze.lake.read(spark, CHANGES_TABLE).where("kind = 'row'").orderBy("offset").collect()
    assert [row["after"]["note"] for row in rows] == [*before, "中"]
    assert rebuilt("gbk") == RedecodeResult(number + 1)
