"""Snapshots of tables without a key, cut and delivered again: each of their rows is a row of the replica."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_partition_order import Topics
from tests.end_to_end.test_repair import command
from tests.silver.changes.test_equal_rows import SNAPSHOTS, STREAMED

CONFIG = """\
pipeline: shop
lakehouse: ./lakehouse
sources:
  mysql: {format: debezium, files: ./landing/mysql, layout: kcat}
  rows: {format: debezium, files: ./landing/rows, layout: kcat}
  arcion: {format: arcion, files: ./landing/arcion, layout: kcat}
  blob: {format: datahub_blob, files: ./landing/blob, layout: kcat}
quality: false
"""
FEEDS = {"mysql": "mysql", "rows": "flattened rows", "arcion": "arcion", "blob": "blob"}
Message = Mapping[str, Any]


def named(source: str, message: Message) -> Message:
    """The message as one of the source's own table."""
    found: Message = json.loads(json.dumps(message).replace(': "t"', f': "{source}"'))
    return found


def streamed(case: str) -> Message:
    _, message = SNAPSHOTS[case]
    if case in STREAMED:
        return STREAMED[case]
    if "source" in message:
        return {**message, "op": "c", "source": {**message["source"], "pos": 900, "snapshot": "false"}}
    return {**message, "__op": "c", "__lsn": 24023200, "__source_snapshot": "false"}


class Snapshots(Topics):
    """Topics with the snapshot and the stream of one table each."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        (folder / "mainstem.yml").write_text(CONFIG, encoding="utf-8")
        self.config = load_config(folder / "mainstem.yml", formats=SILVER.options())

    def land_rows(self, *offsets: int, stream: int | None = None) -> None:
        """Equal rows of the snapshot at these offsets, and a change of the stream at another one."""
        for source, case in FEEDS.items():
            messages = dict.fromkeys(offsets, named(source, SNAPSHOTS[case][1]))
            if stream is not None:
                messages[stream] = named(source, streamed(case))
            self.land(source, dict(sorted(messages.items())))

    def counts(self) -> dict[str, int]:
        return {table["table"]: table["rows"] for table in self.status()["tables"]}

    def kinds(self) -> list[tuple[Any, ...]]:
        changes = self.lake.read(self.spark, "silver/changes").where("reason IS NULL")
        return sorted(tuple(row) for row in changes.select("source", "offset", "kind").collect())

    def ids(self) -> set[tuple[Any, ...]]:
        changes = self.lake.read(self.spark, "silver/changes").where("kind = 'row'")
        return {tuple(row) for row in changes.select("source", "change_id").collect()}


@pytest.mark.long
def test_equal_rows_of_a_snapshot_stay_as_many_wherever_it_is_cut_and_however_often_it_comes(
    spark: SparkSession, tmp_path: Path, capsys: Any
) -> None:
    topics = Snapshots(spark, tmp_path)
    topics.land_rows(0, 1)
    assert command(topics, capsys, "run")[0] == 0
    assert topics.counts() == dict.fromkeys(FEEDS, 2)
    topics.land_rows(2, stream=3)
    assert command(topics, capsys, "run")[0] == 0
    assert topics.counts() == dict.fromkeys(FEEDS, 4)
    topics.land_rows(0, 1, 2)  # the file again
    topics.land_rows(4, 5, 6)  # the connector began its snapshot again
    assert command(topics, capsys, "run")[0] == 0

    assert topics.counts() == dict.fromkeys(FEEDS, 4)
    kinds = dict.fromkeys((0, 1, 2, 3), "row") | dict.fromkeys((4, 5, 6), "duplicate")
    assert topics.kinds() == sorted((name, *kind) for name in FEEDS for kind in kinds.items())
    ids = topics.ids()
    assert len(ids) == 16
    for source in ("mysql", "arcion"):
        assert command(topics, capsys, "rebuild", f"shop.{source}", "--from", "bronze")[0] == 0
    assert topics.ids() == ids
    assert topics.counts() == dict.fromkeys(FEEDS, 4)
