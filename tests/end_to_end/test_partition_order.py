"""Feeds whose positions are times, in the order of their partitions: from dumps of a topic to replicas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from gold.layer import LAYER as GOLD
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_repair import command

CONFIG = """\
pipeline: shop
lakehouse: ./lakehouse
sources:
  restarted: {format: canal, files: ./landing/restarted, layout: kcat}
  keyless: {format: canal, files: ./landing/keyless, layout: kcat}
  kept: {format: canal, files: ./landing/kept, layout: kcat}
  slow: {format: canal, files: ./landing/slow, layout: kcat}
  late: {format: canal, files: ./landing/late, layout: kcat}
  back: {format: canal, files: ./landing/back, layout: kcat}
  sink: {format: debezium, files: ./landing/sink, layout: kcat, order: partition}
tables: [{match: shop.kept, history: true}, {match: sink.sink, keys: [id]}]
quality: false
"""
NOON = 1_709_200_800_000


class Topics:
    """A pipeline of dumps of topics in a folder of its own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0
        (folder / "mainstem.yml").write_text(CONFIG, encoding="utf-8")
        self.config = load_config(folder / "mainstem.yml", formats=SILVER.options())
        self.lake = Lakehouse(self.config.root)

    def land(self, source: str, messages: Mapping[int, Mapping[str, Any]]) -> None:
        """A dump of some offsets of the source's only partition."""
        self.files += 1
        place = {"topic": source, "partition": 0, "tstype": "create", "ts": NOON, "key": None, "headers": []}
        lines = [
            json.dumps({**place, "offset": offset, "payload": json.dumps(message)})
            for offset, message in messages.items()
        ]
        folder = self.folder / "landing" / source
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"part-{self.files}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def status(self) -> dict[str, Any]:
        work = Run(self.spark, self.lake, self.config, "status")
        return {key: value for layer in (SILVER, GOLD) for key, value in layer.status(work).items()}

    def rows(self, table: str, *columns: str, database: str = "shop") -> list[tuple[Any, ...]]:
        rows = self.lake.read(self.spark, f"gold/{database}/{table}").select(*columns).collect()
        return sorted(tuple(row) for row in rows)

    def sequences(self) -> list[tuple[Any, ...]]:
        changes = self.lake.read(self.spark, "silver/changes").where("kind = 'row'")
        return sorted(
            tuple(row) for row in changes.select("source", "offset", "sequence", "change_id").collect()
        )


def flat(
    table: str, kind: str, row: Mapping[str, str], old: Mapping[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """A message of Canal about one row; `es` are seconds behind noon, `id` is the number of Canal's batch."""
    columns = dict.fromkeys(row, "varchar(20)")
    message = {
        "database": "shop",
        "table": table,
        "type": kind,
        "isDdl": False,
        "sql": "",
        "pkNames": ["id"],
        "mysqlType": columns,
    }
    seconds = more.pop("es", 0)
    return {
        **message,
        "data": [row],
        "old": None if old is None else [old],
        "es": NOON + 1000 * seconds,
        "id": 1,
        **more,
    }


def row(value: str) -> dict[str, str]:
    return {"id": "1", "v": value}


def updates(table: str, values: Sequence[str], **more: Any) -> list[dict[str, Any]]:
    """The insert of the first value, and an update to each of the others."""
    first, *rest = values
    pairs = zip(values, rest, strict=False)
    return [
        flat(table, "INSERT", row(first), **more),
        *(flat(table, "UPDATE", row(new), {"v": old}, **more) for old, new in pairs),
    ]


@pytest.mark.long
def test_what_follows_in_a_partition_wins_and_what_is_delivered_again_is_known(
    spark: SparkSession, tmp_path: Path, capsys: Any
) -> None:
    topics = Topics(spark, tmp_path)
    insert, to_b = updates("restarted", "AB", id=900)
    topics.land("restarted", {0: insert, 1: to_b, 2: flat("restarted", "UPDATE", row("C"), {"v": "B"}, id=1)})
    keyless = [flat("keyless", "INSERT", {"v": value}, pkNames=None, id=800) for value in "xy"]
    topics.land("keyless", dict(enumerate(keyless)))
    topics.land("kept", dict(enumerate(updates("kept", "AB", id=700))))
    quick, slow = (
        flat("slow", "INSERT", row("quick"), es=60),
        flat("slow", "UPDATE", row("slow"), {"v": "quick"}, es=5),
    )
    topics.land("slow", {0: quick, 1: slow})
    a, b, c, d = updates("late", "ABCD")
    topics.land("late", {0: {**a, "es": NOON + 9000}, 3: d})
    topics.land("back", dict(enumerate(updates("back", "AB", es=1))))
    a_of_sink, b_of_sink = (
        {"op": "c", "before": None, "after": row("A")},
        {"op": "c", "before": None, "after": row("B")},
    )
    gone = {"op": "d", "before": row("A"), "after": None}
    topics.land("sink", {0: a_of_sink, 1: gone, 2: b_of_sink})
    assert command(topics, capsys, "run")[0] == 0

    topics.land("sink", {3: {**gone, "before": row("B")}, 4: a_of_sink})
    topics.land("keyless", {offset + 2: {**message, "id": offset} for offset, message in enumerate(keyless)})
    topics.land(
        "kept",
        {offset + 2: {**message, "id": offset} for offset, message in enumerate(updates("kept", "AB"))},
    )
    topics.land(
        "slow", {2: flat("slow", "DELETE", row("slow"), es=4), 3: flat("slow", "INSERT", row("new"), es=4)}
    )
    topics.land("late", {1: {**b, "es": NOON + 99_000}, 2: {**c, "es": NOON}})
    b_again = updates("back", "AB", es=1)[1]
    topics.land("back", {2: flat("back", "UPDATE", row("A"), {"v": "B"}, es=0), 3: b_again})
    assert command(topics, capsys, "run")[0] == 0

    assert topics.rows("restarted", "v") == [("C",)]
    assert topics.rows("keyless", "v", "_cdc_op") == [("x", "insert"), ("y", "insert")]
    assert topics.rows("kept", "v") == [("B",)]
    assert topics.rows("kept__history", "v", "_cdc_is_current") == [("A", False), ("B", True)]
    assert topics.rows("slow", "v") == [("new",)]
    assert topics.rows("late", "v") == [("D",)]
    assert topics.rows("back", "v") == [("B",)]
    assert topics.rows("sink", "v", database="sink") == [("A",)]
    found = topics.status()
    assert (found["changes"], found["duplicates"], found["quarantined"]) == (3 + 2 + 2 + 4 + 4 + 4 + 5, 4, {})
    rows, sequences = topics.rows("late", "*"), topics.sequences()
    assert command(topics, capsys, "rebuild", "shop.late", "--from", "bronze")[0] == 0
    assert (topics.sequences(), topics.rows("late", "*")) == (sequences, rows)
