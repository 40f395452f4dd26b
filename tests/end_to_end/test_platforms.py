"""The same outputs and tables on each platform: classic Spark with folders, a catalog, Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse, read_table, table_properties
from tests.end_to_end import platform_feed

ROOT = Path(__file__).parents[2]
PREFIX = "platforms_"
# replica and history of each table, as folders and as a catalog names them
TABLES = {
    "gold/shop/item": "gold.shop__item",
    "gold/shop/item__history": "gold.shop__item__history",
    "gold/Sh-op/line__items": "gold.Sh___2Dop__line___5F___5Fitems",
    "gold/Sh-op/line__items__history": "gold.Sh___2Dop__line___5F___5Fitems__history",
    "gold/shop/log": "gold.shop__log",
}
# what may differ: how long something took, where it is, how many files that made
OWN = {
    "seconds", "run_id", "started_at", "checked_at", "ingested_at", "replica", "history", "file", "where",
    "size", "files_before",
    "files_after", "is_compacted", "version", "suite",
}  # fmt: skip

# the replicas without columns of our own, and how many rows of silver have which outcome
ROWS = {
    "gold/shop/item": [
        (1, "pen", "1.75", Decimal(1), None),
        (3, "nib", "1234567.25", Decimal(2**66), "wide"),
    ],
    "gold/Sh-op/line__items": [(8, "本", "3.00", 8)],
    "gold/shop/log": [(1, "again", "2.00", 1), (1, "first", None, 1)],
    "outcomes": [("quarantined", 1), ("row", 9)],
}

Answers = list[Any]


def contents(spark: SparkSession, lake: Lakehouse) -> dict[str, Any]:
    """Names, types and rows of every gold table, and the outcomes in silver."""
    found: dict[str, Any] = {}
    for name in TABLES:
        frame = lake.read(spark, name)
        found[name] = (frame.dtypes, sorted((tuple(row) for row in frame.collect()), key=repr))
    changes = lake.read(spark, "silver/changes")
    counts = changes.where("kind <> 'half'").groupBy("kind").count().collect()
    return found | {
        "outcomes": sorted((row["kind"], row["count"]) for row in counts),
        "changes": changes.schema.simpleString(),
    }


def rows_of(spark: SparkSession, lake: Lakehouse) -> dict[str, Any]:
    found = contents(spark, lake)
    mine = {
        name: sum(not column.startswith("_cdc_") for column, _ in found[name][0])
        for name in ROWS
        if name in TABLES
    }
    return {
        name: sorted((row[:width] for row in found[name][1]), key=repr) for name, width in mine.items()
    } | {"outcomes": found["outcomes"]}


def comparable(found: Any) -> Any:
    """What a command has said, without what is each platform's own."""
    if isinstance(found, dict):
        return {key: comparable(value) for key, value in found.items() if key not in OWN}
    return (
        [comparable(each) for each in found if not _is_extra(each)]
        if isinstance(found, list | tuple)
        else found
    )


def _is_extra(found: Any) -> bool:
    """Whether it is the line of `maintain` about a table that only a catalog has from the start."""
    return isinstance(found, dict) and found.get("table") == "ops/statements"


def on_connect(folder: Path, steps: str) -> Answers:
    """The answers of a process on a Spark Connect server of its own, with the limits of serverless."""
    platform_feed.configure(folder, "lakehouse: ./lakehouse")
    # the variable for tests lets the server choose a free port
    environment = {**os.environ, "SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1"}
    command = [sys.executable, "-m", "tests.end_to_end.platform_feed", str(folder), steps]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def in_catalog(folder: Path, steps: Sequence[Sequence[str]]) -> Answers:
    """The answers of commands whose tables are in Spark's own catalog."""
    platform_feed.configure(
        folder, f"lakehouse: {{catalog: spark_catalog, schema_prefix: {PREFIX}}}\ncheckpoints: ./checkpoints"
    )
    return list(platform_feed.follow(folder, steps))


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Lakehouse]:
    """The lakehouse of `in_catalog`; its schemas go in the end."""
    yield Lakehouse(str(tmp_path / "checkpoints"), "spark_catalog", PREFIX)
    for layer in ("bronze", "silver", "gold", "ops"):
        spark.sql(f"DROP SCHEMA IF EXISTS spark_catalog.{PREFIX}{layer} CASCADE")


@pytest.mark.long
def test_a_catalog_holds_the_same_tables_as_a_folder(
    spark: SparkSession, catalog: Lakehouse, tmp_path: Path
) -> None:
    answers = in_catalog(tmp_path, (("status",), *platform_feed.STEPS))

    assert [(command, code) for command, code, _ in answers if code] == []
    assert rows_of(spark, catalog) == ROWS
    assert {name: catalog.location(name) for name in TABLES} == {
        name: f"spark_catalog.{PREFIX}{table}" for name, table in TABLES.items()
    }
    places = {
        place
        for entry in answers[-1][-1]["tables"]
        for place in (entry["replica"], entry["history"])
        if place
    }
    assert places == {catalog.location(name) for name in TABLES}
    assert all(read_table(spark, place).columns for place in places)

    detail = spark.sql(f"DESCRIBE DETAIL {catalog.location('silver/changes')}").first()
    assert detail is not None
    assert detail["description"] == "The unified change table: one row for each outcome of each message."
    assert table_properties(spark, catalog.location("gold/shop/item"))["delta.enableChangeDataFeed"] == "true"
    assert not (tmp_path / "checkpoints" / "bronze").exists()  # checkpoints alone, no tables


@pytest.mark.slow
def test_spark_connect_leads_to_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    answers = on_connect(tmp_path, "at once")

    assert [(command, code) for command, code, _ in answers if code] == []
    assert rows_of(spark, Lakehouse(str(tmp_path / "lakehouse"))) == ROWS


@pytest.mark.skipif(
    "MAINSTEM_PLATFORMS" not in os.environ, reason="every command, three times: make test-connect"
)
def test_every_command_answers_the_same_on_each_platform(
    spark: SparkSession, catalog: Lakehouse, tmp_path: Path
) -> None:
    for name in ("classic", "connect"):
        platform_feed.configure(tmp_path / name, "lakehouse: ./lakehouse")
    answers = list(platform_feed.follow(tmp_path / "classic", platform_feed.ALL))
    found = contents(spark, Lakehouse(str(tmp_path / "classic" / "lakehouse")))
    assert [(command, code) for command, code, _ in answers if code] == []

    for others in (in_catalog(tmp_path, platform_feed.ALL), on_connect(tmp_path / "connect", "all")):
        for mine, theirs in zip(comparable(others), comparable(answers), strict=True):
            assert mine == theirs
    assert contents(spark, catalog) == found
    assert contents(spark, Lakehouse(str(tmp_path / "connect" / "lakehouse"))) == found
