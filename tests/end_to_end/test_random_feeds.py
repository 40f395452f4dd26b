"""Random source databases, told by every format, delivered in parts: the replicas are the sources' tables in the end.

    MAINSTEM_SEED=7 MAINSTEM_SIZE=large python -m pytest tests/end_to_end/test_random_feeds.py -s

The seed is printed. The size `all` takes every format, `large` more of everything as well; without
one a few formats are drawn by the seed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.layer import LAYER as BRONZE
from framework.config import load_config
from framework.layer import LayerReport, Run
from framework.tables import Lakehouse
from gold.layer import LAYER as GOLD
from silver.formats import FORMATS
from silver.layer import LAYER as SILVER
from tests.end_to_end.random_feeds import FEEDS, Feed, arranged, configuration, land
from tests.end_to_end.random_source import RandomSource, typed, types_in_gold
from tests.end_to_end.random_statements import RandomTable
from tests.framework.demo_story import Change

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
SIZE = os.environ.get("MAINSTEM_SIZE") or "small"
PARTS, TABLES, STEPS, DRAWN = {"small": (2, 1, 60, 2), "all": (2, 1, 60, 99), "large": (4, 3, 250, 99)}[SIZE]


class Pipeline:
    """All feeds in one pipeline."""

    def __init__(self, spark: SparkSession, folder: Path, seed: str) -> None:
        self.spark, self.folder, self.seed = spark, folder, seed
        always = [feed for feed in FEEDS if feed.format == "datahub_blob"]
        others = [feed for feed in FEEDS if feed not in always]
        drawn = always + (Random(seed).sample(others, min(DRAWN, len(others))))
        self.feeds: dict[str, tuple[Feed, RandomSource]] = {}
        for feed in drawn:
            source = RandomSource(feed.format, feed.database, feed.abilities, seed).play(TABLES, STEPS)
            self.feeds[feed.format] = (feed, source)
        (folder / "mainstem.yml").write_text(configuration(self.feeds), encoding="utf-8")
        self.config = load_config(folder / "mainstem.yml", formats=SILVER.options())
        self.lake = Lakehouse(self.config.root)
        self.landed = 0

    def deliver(self) -> None:
        parts = {name: arranged(feed, source, PARTS) for name, (feed, source) in self.feeds.items()}
        for part in range(PARTS):
            for name, deliveries in parts.items():
                self.landed += land(self.folder / "landing" / name, part, deliveries[part])
            self.run()

    def run(self) -> list[LayerReport]:
        started = time.monotonic()
        work = Run(self.spark, self.lake, self.config, f"run-{time.time_ns()}")
        reports = [layer.run(work) for layer in (BRONZE, SILVER, GOLD)]
        assert [error for report in reports for error in report.errors] == []
        assert [line for report in reports for line in report.tables if line.state != "ok"] == []
        print(f"run: {time.monotonic() - started:.1f} s")
        return reports

    def status(self) -> dict[str, Any]:
        work = Run(self.spark, self.lake, self.config, "status")
        return {key: value for layer in (BRONZE, SILVER, GOLD) for key, value in layer.status(work).items()}

    def versions(self) -> dict[str, int]:
        """How many commits each table has."""
        logs = Path(self.lake.root).rglob("_delta_log")
        return {str(log.parent): len(list(log.glob("*.json"))) for log in logs}


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    print(f"\nMAINSTEM_SEED={SEED}" + f" MAINSTEM_SIZE={SIZE}")
    made = Pipeline(spark, tmp_path_factory.mktemp("random"), SEED)
    print("formats:", *made.feeds)
    made.deliver()
    return made


def differences(pipeline: Pipeline, feed: Feed, table: RandomTable, replica: str) -> list[str]:
    frame = pipeline.spark.read.format("delta").load(replica)
    names = [name for name in frame.columns if not name.startswith("_cdc_") or name.startswith("_cdc_dropped_")]
    kinds = {f.name: f.dataType.simpleString() for f in frame.schema.fields if f.name in names}
    expected = types_in_gold(table, feed.gold_types)
    wrong = [f"{n}: {kinds.get(n)}, expected {expected.get(n)}" for n in kinds.keys() | expected.keys() if kinds.get(n) != expected.get(n)]
    found = frame.select(*(F.col(f"`{n}`") for n in names)).toArrow().to_pylist()
    rows = {repr([row[k] for k in table.keys]): row for row in found}
    if len(rows) != len(found):
        wrong.append(f"{len(found)} rows of {len(rows)} keys")
    truth = {}
    for row in table.rows.values():
        values = {name: typed(expected[name], row[name]) for name in expected}
        truth[repr([values[k] for k in table.keys])] = values
    for key in sorted(rows.keys() | truth.keys()):
        if rows.get(key) != truth.get(key):
            one, other = rows.get(key), truth.get(key)
            cells = {n: (one[n], other[n]) for n in one if one[n] != other.get(n)} if one and other else (one, other)
            wrong.append(f"{table.name} {key}: found and expected: {cells}")
    return wrong


def test_replicas_are_the_tables_of_the_sources(pipeline: Pipeline) -> None:
    entries = {(t["source"], t["table"]): t for t in pipeline.status()["tables"]}
    tables = [(feed, table) for feed, source in pipeline.feeds.values() for table in source.tables]
    assert entries.keys() == {(feed.format, name) for feed, table in tables for name in (*table.former, table.name)}
    assert {entries[feed.format, name]["state"] for feed, table in tables for name in table.former} <= {"dropped"}
    wrong = []
    for feed, table in tables:
        entry = entries[feed.format, table.name]
        assert (entry["state"], entry["behind"], entry["rows"], entry["bad_values"]) == ("active", 0, len(table.rows), 0), (
            pipeline.seed,
            entry,
        )
        assert tuple(entry["keys"]) == table.keys
        wrong += differences(pipeline, feed, table, entry["replica"])
    assert not wrong, f"MAINSTEM_SEED={pipeline.seed}\n" + "\n".join(wrong[:20])


def test_changes_hold_each_change_once_with_both_images(pipeline: Pipeline) -> None:
    changes = pipeline.lake.read(pipeline.spark, "silver/changes").where("kind = 'row'")
    rows = changes.select(
        "source", "table", "op", "change_id", "half", F.col("before").isNotNull().alias("b"), F.col("after").isNotNull().alias("a")
    )
    found = rows.collect()
    whole = [row for row in found if row["half"] is None]
    expected: Counter[tuple[str, str, str]] = Counter()
    for name, (_, source) in pipeline.feeds.items():
        expected.update((name, change.table.name, change.op) for change in source.changes())
    assert Counter((row["source"], row["table"], row["op"]) for row in whole) == expected, f"MAINSTEM_SEED={pipeline.seed}"
    assert len({row["change_id"] for row in whole}) == len(whole)
    assert {row["change_id"] for row in found if row["half"]} <= {row["change_id"] for row in whole}
    bare = {name for name, (feed, _) in pipeline.feeds.items() if not feed.has_before}
    images = {"insert": (False, True), "update": (True, True), "delete": (True, False)}
    assert [row for row in whole if (row["b"] or (row["source"] in bare and row["op"] == "update"), row["a"]) != images[row["op"]]] == []


def test_every_message_has_its_fate(pipeline: Pipeline) -> None:
    at = ("source", "topic", "partition", "offset")
    messages = pipeline.lake.read(pipeline.spark, "bronze/messages").select(*at)
    changes = pipeline.lake.read(pipeline.spark, "silver/changes")
    met = changes.where("paired_with is not null").select("source", *(F.col(f"paired_with.{n}").alias(n) for n in at[1:]))
    fates = changes.select(*at).unionByName(met).distinct()
    counts = messages.agg(F.count("*"), F.countDistinct(*at)).first()
    assert counts is not None
    assert tuple(counts) == (pipeline.landed, pipeline.landed)
    assert messages.exceptAll(fates).isEmpty()
    assert fates.exceptAll(messages).isEmpty()
    status = pipeline.status()
    poison = sum(max(1, len(source.told) // 100) for _, source in pipeline.feeds.values())
    assert (status["messages"], status["pending_halves"], sum(status["quarantined"].values())) == (pipeline.landed, 0, poison), (
        pipeline.seed,
        status,
    )
    statements = sum(not isinstance(told.event, Change) for _, source in pipeline.feeds.values() for told in source.told)
    kinds = {row[0]: row[1] for row in changes.groupBy("kind").count().collect()}
    assert kinds.get("ddl", 0) + kinds.get("truncate", 0) == statements
    assert kinds["duplicate"] > 0


def test_a_run_with_nothing_new_writes_nothing(pipeline: Pipeline) -> None:
    before = pipeline.versions()
    reports = pipeline.run()
    assert pipeline.versions() == before
    assert [line for report in reports for line in report.tables] == []


def test_every_registered_format_has_a_random_feed() -> None:
    assert {feed.format for feed in FEEDS} == FORMATS.keys()
