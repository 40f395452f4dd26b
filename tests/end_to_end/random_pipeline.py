"""All random feeds in one pipeline, delivered in parts; between them, moves and repairs that a seed draws."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze import landing
from bronze.layer import LAYER as BRONZE
from bronze.sources import files
from framework.config.model import Config, load_config
from framework.errors import MainstemError
from framework.lakehouse import deletion_vectors, scanned_files
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import LayerReport, Run
from framework.spark.tuning import SMALL_ROWS
from gold.layer import LAYER as GOLD
from gold.writing import change_cache, merge
from silver.batches import changes_table, decoding, process
from silver.layer import LAYER as SILVER
from tests.end_to_end.idle_tries import try_idle
from tests.end_to_end.random_feeds import FEEDS, Feed, arranged, land
from tests.end_to_end.random_moves import (
    DUMP,
    LOSS,
    MOVES,
    OLDER,
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
from tests.end_to_end.random_source import RandomSource
from tests.end_to_end.random_statements import RandomTable
from tests.large_batches import arrow_batches_of

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
SIZE = os.environ.get("MAINSTEM_SIZE") or "small"
GIVEN_MOVES = (os.environ.get("MAINSTEM_MOVES") or "").split()
PARTS, TABLES, STEPS, DRAWN, REPAIRS = {
    "small": (2, 1, 60, 0, 1),
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
        self.settings.draw_ways(Random(f"{seed} ways"))
        self.settings.write()
        self.lake = Lakehouse(self.config.root)
        self.repairs = RandomRepairs(self.settings, self.feeds, seed, are_small=SIZE == "small")
        self.restarts = Restarts(self.feeds, PARTS, seed)
        self.losses = Losses(folder, self.settings, self.repairs, seed)
        self.detours = Detours(self.settings, self.repairs, seed)
        self.orders = OtherOrders(self.settings, self.repairs, seed)
        self.seeds = Seeds(folder, self.repairs, seed)
        self.landed, self.relandings = 0, 0
        self.sizes, self.cuts = Random(f"{seed} sizes"), Random(f"{seed} cuts")

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
            is_aged = OLDER in self.moves and part > 0
            if is_aged:
                self.losses.keep()
            self.run(part)
            if is_aged:
                self.losses.put_back()
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
        in which tasks share a disk, tables are large and Arrow batches are long, or not. Before it the layers
        look whether they need a session; where they say that they do not, the run has nothing to write.
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
            with arrow_batches_of(self.spark, self.cuts.choice((3, 7, decoding._AT_ONCE))):
                reports = [layer.run(work) for layer in (BRONZE, SILVER, GOLD)]
        print(f"run: {time.monotonic() - started:.1f} s" + " (nothing to do)" * (idle is not None))
        assert idle is None or self.versions() == before
        return reports

    def status(self) -> dict[str, Any]:
        work = Run(self.spark, self.lake, self.config, "status")
        return {key: value for layer in (BRONZE, SILVER, GOLD) for key, value in layer.status(work).items()}

    def entries(self) -> dict[str, dict[str, Any]]:
        """What `status` says of each table, by its name: each feed has names of its own."""
        return {entry["table"]: entry for entry in self.status()["tables"]}

    def deletes(self, table: RandomTable) -> object:
        """What becomes of deleted rows: they are marked (soft), stay (ignore), or go (hard)."""
        return self.settings.ways[table.name].get("deletes", "hard")

    def has_history(self, table: RandomTable) -> bool:
        return bool(self.settings.ways[table.name].get("history"))

    def versions(self) -> dict[str, int]:
        """How many commits each table has."""
        logs = Path(self.lake.root).rglob("_delta_log")
        return {str(log.parent): len(list(log.glob("*.json"))) for log in logs}
