"""Random source databases, written in every format, delivered in parts: the replicas are the sources' tables
in the end.

    MAINSTEM_SEED=7 MAINSTEM_SIZE=large python -m pytest tests/end_to_end/test_random_feeds.py -s

The seed is printed. The size `all` takes every format, `large` more of everything as well; without
one the seed draws a format beside DataHub Blob. `large` makes all moves of `random_moves.py`, `all` one that
the seed draws; MAINSTEM_MOVES="restart loss" says which.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze import landing
from bronze.layer import LAYER as BRONZE
from bronze.sources import files
from framework.config.model import Config, load_config
from framework.contracts.seed import TOPIC
from framework.errors import MainstemError
from framework.lakehouse import deletion_vectors, newest_tables, scanned_files
from framework.lakehouse.lakehouse import Lakehouse, read_table
from framework.pipeline.layer import LayerReport, Run
from framework.spark.no_session import SessionNeeded, no_session
from framework.spark.tuning import SMALL_ROWS
from gold.layer import LAYER as GOLD
from gold.operations import trace as tracing
from gold.operations.trace import trace
from gold.planning.discovery import all_tasks
from gold.writing import change_cache, merge
from silver.batches import changes_table, decoding, process
from silver.formats import FORMATS
from silver.layer import LAYER as SILVER
from tests.end_to_end.idle_tries import try_idle
from tests.end_to_end.random_feeds import FEEDS, Feed, arranged, land
from tests.end_to_end.random_moves import (
    DUMP,
    LOSS,
    MOVES,
    ORDER,
    RESTART,
    SETTING,
    Detours,
    Losses,
    OtherOrders,
    Restarts,
)
from tests.end_to_end.random_repairs import RandomRepairs
from tests.end_to_end.random_seeds import Seeds
from tests.end_to_end.random_settings import Settings
from tests.end_to_end.random_source import RandomSource, typed, types_in_gold
from tests.end_to_end.random_statements import RandomTable
from tests.framework.demo.story import Change

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
SIZE = os.environ.get("MAINSTEM_SIZE") or "small"
GIVEN_MOVES = (os.environ.get("MAINSTEM_MOVES") or "").split()
PARTS, TABLES, STEPS, DRAWN, REPAIRS = {
    "small": (2, 1, 60, 1, 1),
    "all": (2, 1, 60, 99, 2),
    "large": (4, 3, 250, 99, 4),
}[SIZE]


class Pipeline:
    """All feeds in one pipeline."""

    def __init__(self, spark: SparkSession, folder: Path, seed: str) -> None:
        self.spark, self.folder, self.seed = spark, folder, seed
        always = [feed for feed in FEEDS if feed.format == "datahub_blob"]
        others = [feed for feed in FEEDS if feed not in always]
        drawn = always + (Random(seed).sample(others, min(DRAWN, len(others))))
        moves = Random(f"{seed} moves")
        by_size = {"small": [], "all": [moves.choice(MOVES)], "large": MOVES}
        self.moves = GIVEN_MOVES or by_size[SIZE]
        self.feeds: dict[str, tuple[Feed, RandomSource]] = {}
        for feed in drawn:
            lives = moves.choice((1, 2, 2, *((3, 3) if PARTS > 2 else ()))) if RESTART in self.moves else 1
            source = RandomSource(feed.format, feed.database, feed.abilities, seed).play(TABLES, STEPS, lives)
            self.feeds[feed.format] = (feed, source)
        self.settings = Settings(folder / "mainstem.yml", self.feeds)
        self.settings.write()
        self.lake = Lakehouse(self.config.root)
        self.repairs = RandomRepairs(self.settings, self.feeds, seed)
        self.restarts = Restarts(self.feeds, PARTS, seed)
        self.losses = Losses(folder, self.settings, self.repairs, seed)
        self.detours = Detours(self.settings, self.repairs, seed)
        self.orders = OtherOrders(self.settings, self.repairs, seed)
        self.seeds = Seeds(folder, self.repairs, seed)
        self.landed, self.relandings = 0, 0
        self.sizes = Random(f"{seed} sizes")

    @property
    def config(self) -> Config:
        return load_config(self.folder / "mainstem.yml", formats=SILVER.options())

    def deliver(self) -> None:
        """Land the parts and run; repairs come between them,
        and while the last one is read a table is left out.
        """
        foretold = self.restarts.foretold
        parts = {
            name: arranged(feed, source, PARTS, name in foretold)
            for name, (feed, source) in self.feeds.items()
        }
        self.relandings = sum(
            line.is_repeated for deliveries in parts.values() for part in deliveries for line in part
        )
        for part in range(PARTS):
            if part == PARTS - 1:
                self.repairs.exclude(self.feeds.keys() - self.restarts.parts[part].keys())
            self.restarts.foretell(part, self.settings)
            for name, deliveries in parts.items():
                self.landed += land(self.folder / "landing" / name, part, deliveries[part])
            if SETTING in self.moves and part < PARTS - 1:
                self.detours.leave()
            if ORDER in self.moves and part < PARTS - 1:
                self.orders.leave()
            self.run(part)
            if part < PARTS - 1:
                if LOSS in self.moves:
                    self.losses.lose()
                self.repairs.repair(REPAIRS)
                self.detours.come_back()
                self.orders.come_back()
            if DUMP in self.moves and part == PARTS - 2:  # no part of the state is lost behind it
                self.seeds.seed()
        self.repairs.include()
        self.repairs.forget()
        self.repairs.repair(REPAIRS - 1)
        self.run()

    def run(self, part: int | None = None) -> list[LayerReport]:
        """One run, and another one where sources have stopped with what is new in a part."""
        reports = self._run()
        errors = [error for report in reports for error in report.errors]
        stops = [
            error
            for error in errors
            if isinstance(error, MainstemError) and error.condition == "SOURCE_RESET"
        ]
        if stops and part is not None:
            assert len(stops) == len(errors), errors
            self.restarts.follow(part, stops, self.settings, self.repairs)
            reports = self._run()
            errors = [error for report in reports for error in report.errors]
        assert errors == []
        assert [line for report in reports for line in report.tables if line.state != "ok"] == []
        return reports

    def _run(self) -> list[LayerReport]:
        """A run, in which layers work in this process up to a drawn size, and above it in Spark's tasks, and
        in which tasks share a disk and tables are large, or not. Before it the layers look whether they need
        a session; where they say that they do not, the run has nothing to write.
        """
        idle, before = try_idle(self.config), self.versions()
        started = time.monotonic()
        work = Run(self.spark, self.lake, self.config, f"run-{time.time_ns()}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoding, "FEW_MESSAGES", self.sizes.choice((0, 60, decoding.FEW_MESSAGES)))
            patch.setattr(change_cache, "_FEW_FILES", self.sizes.choice((0, change_cache._FEW_FILES)))
            patch.setattr(scanned_files, "_MOST_FILES", self.sizes.choice((0, scanned_files._MOST_FILES)))
            patch.setattr(decoding, "_SMALL_TASK", self.sizes.choice((1, decoding._SMALL_TASK)))
            patch.setattr(process, "SMALL_ROWS", self.sizes.choice((0, 60, SMALL_ROWS)))
            patch.setattr(changes_table, "_FEW_ROWS", self.sizes.choice((-1, changes_table._FEW_ROWS)))
            patch.setattr(
                change_cache, "MAX_CACHED_ROWS", self.sizes.choice((0, 40, change_cache.MAX_CACHED_ROWS))
            )
            for module in (decoding, landing):
                if self.sizes.random() < 0.5:
                    patch.setattr(module, "is_shared", lambda *_: False)
            patch.setattr(files, "_FEW_BYTES", self.sizes.choice((0, files._FEW_BYTES)))
            patch.setattr(merge, "_MANY_CHANGES", 0)
            patch.setattr(
                deletion_vectors, "LARGE_BYTES", self.sizes.choice((0, deletion_vectors.LARGE_BYTES))
            )
            reports = [layer.run(work) for layer in (BRONZE, SILVER, GOLD)]
        print(f"run: {time.monotonic() - started:.1f} s" + " (nothing to do)" * (idle is not None))
        assert idle is None or self.versions() == before
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
    folder = tmp_path_factory.mktemp("random") / "a [b]{c}"  # no pattern that Spark's readers expand
    folder.mkdir()
    made = Pipeline(spark, folder, SEED)
    print(
        "formats:",
        *(f"{name} ({source.life + 1})" for name, (_, source) in made.feeds.items()),
        "moves:",
        *made.moves,
    )
    made.deliver()
    return made


def differences(pipeline: Pipeline, feed: Feed, table: RandomTable, replica: str) -> list[str]:
    frame = pipeline.spark.read.format("delta").load(replica)
    names = [
        name for name in frame.columns if not name.startswith("_cdc_") or name.startswith("_cdc_dropped_")
    ]
    kinds = {f.name: f.dataType.simpleString() for f in frame.schema.fields if f.name in names}
    expected = types_in_gold(table, feed.gold_types)
    wrong = [
        f"{n}: {kinds.get(n)}, expected {expected.get(n)}"
        for n in kinds.keys() | expected.keys()
        if kinds.get(n) != expected.get(n)
    ]
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
            cells = (
                {n: (one[n], other[n]) for n in one if one[n] != other.get(n)}
                if one and other
                else (one, other)
            )
            wrong.append(f"{table.name} {key}: found and expected: {cells}")
    return wrong


def test_replicas_are_the_tables_of_the_sources(pipeline: Pipeline) -> None:
    entries = {(t["source"], t["table"]): t for t in pipeline.status()["tables"]}
    tables = [(feed, table) for feed, source in pipeline.feeds.values() for table in source.tables]
    assert entries.keys() == {
        (feed.format, name) for feed, table in tables for name in (*table.former, table.name)
    }
    assert {entries[feed.format, name]["state"] for feed, table in tables for name in table.former} <= {
        "dropped"
    }
    wrong = []
    for feed, table in tables:
        entry = entries[feed.format, table.name]
        assert (entry["state"], entry["behind"], entry["rows"], entry["bad_values"]) == (
            "active",
            0,
            len(table.rows),
            0,
        ), (
            pipeline.seed,
            entry,
        )
        assert tuple(entry["keys"]) == table.keys
        wrong += differences(pipeline, feed, table, entry["replica"])
    assert not wrong, f"MAINSTEM_SEED={pipeline.seed}\n" + "\n".join(wrong[:20])


def test_changes_hold_each_change_once_with_both_images(pipeline: Pipeline) -> None:
    changes = pipeline.lake.read(pipeline.spark, "silver/changes").where(
        "kind = 'row' AND NOT reason <=> 'seeded'"
    )
    rows = changes.select(
        "source",
        "table",
        "op",
        "change_id",
        "half",
        F.col("before").isNotNull().alias("b"),
        F.col("after").isNotNull().alias("a"),
    )
    found = rows.collect()
    whole = [row for row in found if row["half"] is None]
    expected: Counter[tuple[str, str, str]] = Counter()
    for name, (_, source) in pipeline.feeds.items():
        kept = (change for change in source.changes() if not pipeline.repairs.is_forgotten(change))
        expected.update((name, change.table.name, change.op) for change in kept)
    assert Counter((row["source"], row["table"], row["op"]) for row in whole) == expected, (
        f"MAINSTEM_SEED={pipeline.seed}"
    )
    assert len({row["change_id"] for row in whole}) == len(whole)
    assert {row["change_id"] for row in found if row["half"]} <= {row["change_id"] for row in whole}
    bare = {name for name, (feed, _) in pipeline.feeds.items() if not feed.has_before}
    images = {"insert": (False, True), "update": (True, True), "delete": (True, False)}
    assert [
        row
        for row in whole
        if (row["b"] or (row["source"] in bare and row["op"] == "update"), row["a"]) != images[row["op"]]
    ] == []


def test_every_message_has_its_outcome(pipeline: Pipeline) -> None:
    at = ("source", "topic", "partition", "offset")
    is_seed = F.col("topic").startswith(TOPIC)
    bronze = pipeline.lake.read(pipeline.spark, "bronze/messages")
    messages = bronze.where(~is_seed).select(*at, "timestamp", "value")
    changes = pipeline.lake.read(pipeline.spark, "silver/changes").where(~is_seed)
    seeds = bronze.where(is_seed).count()
    assert bool(seeds) == pipeline.seeds.is_loaded
    met = changes.where("paired_with is not null").select(
        "source", *(F.col(f"paired_with.{n}").alias(n) for n in at[1:]), "epoch"
    )
    outcomes = changes.select(*at, "epoch").unionByName(met).distinct().select(*at)
    assert messages.count() == pipeline.landed
    messages = messages.distinct().select(
        *at
    )  # a topic that began anew has other messages at the same coordinates
    assert messages.count() == pipeline.landed - pipeline.relandings
    assert messages.exceptAll(outcomes).isEmpty()
    relanded = changes.where("kind = 'duplicate' AND startswith(detail, 'landed again') AND ordinal = 0")
    assert relanded.count() == pipeline.relandings
    assert outcomes.exceptAll(messages).isEmpty()
    status = pipeline.status()
    poison = sum(max(1, len(source.logged) // 100) for _, source in pipeline.feeds.values())
    assert (status["messages"] - seeds, status["pending_halves"], sum(status["quarantined"].values())) == (
        pipeline.landed,
        0,
        poison,
    ), (
        pipeline.seed,
        status,
    )
    statements = sum(
        not isinstance(logged.event, Change)
        for _, source in pipeline.feeds.values()
        for logged in source.logged
    )
    kinds = {row[0]: row[1] for row in changes.groupBy("kind").count().collect()}
    assert kinds.get("ddl", 0) + kinds.get("truncate", 0) == statements
    assert kinds["duplicate"] > 0


def test_a_run_with_nothing_new_writes_nothing(pipeline: Pipeline) -> None:
    before = pipeline.versions()
    reports = pipeline.run()
    assert pipeline.versions() == before
    assert try_idle(pipeline.config) is not None
    assert [line for report in reports for line in report.tables] == []


def test_rows_are_traced_without_a_session_as_with_one(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a table that has had another key need one."""
    found: list[tuple[str, dict[str, str], dict[str, Any]]] = []
    run = Run(no_session(), pipeline.lake, pipeline.config, "trace")
    for task in all_tasks(run):
        if task.state.replica is None or not task.state.keys:
            continue
        keys = [F.col(f"`{name}`").cast("string") for name in task.state.keys]
        for row in read_table(pipeline.spark, task.state.replica).select(*keys).limit(3).collect():
            key = dict(zip(task.state.keys, row, strict=True))
            with suppress(SessionNeeded):
                found.append((task.name.dotted, key, trace(run, task.name.dotted, key)))
    assert found
    monkeypatch.setattr(tracing, "few_rows", lambda *_: None)
    for module in (tracing, newest_tables):
        monkeypatch.setattr(module, "is_read_locally", lambda _: False)
    run = replace(run, spark=pipeline.spark)
    for name, key, local in found:
        assert local["row"] is not None, (name, key)
        assert local["changes"], (name, key)
        assert trace(run, name, key) == local


def test_every_registered_format_has_a_random_feed() -> None:
    assert {feed.format for feed in FEEDS} == FORMATS.keys()
