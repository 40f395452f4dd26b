"""Random source databases, written in every format, delivered in parts: the replicas are the sources' tables
in the end.

    MAINSTEM_SEED=7 MAINSTEM_SIZE=large python -m pytest tests/end_to_end/test_random_feeds.py -s

The seed is printed. The size `all` takes every format, `large` more of everything as well; without one the
only format is DataHub Blob. `large` makes all moves of `random_moves.py`, `all` one that the seed draws;
MAINSTEM_MOVES="restart loss" says which.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.cli import main
from framework.contracts.seed import TOPIC
from framework.lakehouse import newest_tables
from framework.lakehouse.lakehouse import read_table
from framework.pipeline.layer import Run
from framework.pipeline.status import run_checks
from framework.spark.no_session import SessionNeeded, no_session
from gold.operations import trace as tracing
from gold.operations.trace import trace
from gold.planning.discovery import all_tasks
from gold.writing.replica import live_rows
from silver.formats import FORMATS
from tests.end_to_end.idle_tries import try_idle
from tests.end_to_end.random_feeds import FEEDS
from tests.end_to_end.random_pipeline import SEED, SIZE, Pipeline
from tests.end_to_end.random_settings import name_of
from tests.end_to_end.random_truth import differences
from tests.framework.demo.story import Change
from tests.rebuilds import changed_by

_TRACED = 1 if SIZE == "small" else 3
"""How many rows of a table are traced, each with a session and without one."""


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
        "ways:",
        *(f"{name} {dict(way)}" for name, way in made.settings.ways.items() if way),
    )
    made.deliver()
    return made


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
        rows = len(table.rows)
        if pipeline.deletes(table) != "hard":  # rows that the source deleted are there too
            rows = read_table(pipeline.spark, entry["replica"]).count()
        assert (entry["state"], entry["behind"], entry["rows"], entry["bad_values"]) == (
            "active",
            0,
            rows,
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
    landing = F.format_string("landed again %s:%d %d", "file", "line", F.unix_micros("ingested_at"))
    there = bronze.select(*at, landing.alias("detail"))  # bronze that was lost has landed at another time
    assert relanded.join(there, [*at, "detail"], "left_semi").count() == pipeline.relandings
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
    """Those of a table that has had another key need one. A renamed table may leave rows that only changes
    before a DROP explain.
    """
    found: list[tuple[str, dict[str, str], dict[str, Any]]] = []
    run = Run(no_session(), pipeline.lake, pipeline.config, "trace")
    for task in all_tasks(run):
        if task.state.replica is None or not task.state.keys or task.lineage.renamed_to is not None:
            continue
        keys = [F.col(f"`{name}`").cast("string") for name in task.state.keys]
        for row in read_table(pipeline.spark, task.state.replica).select(*keys).limit(_TRACED).collect():
            key = dict(zip(task.state.keys, row, strict=True))
            with suppress(SessionNeeded):
                found.append((task.name.dotted, key, trace(run, task.name.dotted, key)))
    if not found and "MAINSTEM_SEED" in os.environ:
        pytest.skip("each table that this seed leaves has had another key or name")
    assert found
    monkeypatch.setattr(tracing, "few_rows", lambda *_: None)
    for module in (tracing, newest_tables):
        monkeypatch.setattr(module, "is_read_locally", lambda _: False)
    run = replace(run, spark=pipeline.spark)
    for name, key, local in found:
        assert local["row"] is not None, (name, key)
        assert local["changes"], (name, key)
        assert trace(run, name, key) == local


def test_every_table_is_what_the_one_before_it_leads_to(pipeline: Pipeline) -> None:
    run = Run(pipeline.spark, pipeline.lake, pipeline.config, "verify")
    checks = run_checks(run)
    assert {check.name.split()[0] for check in checks} >= {"messages_once", "one_fate", "keys", "rows"}
    assert [check for check in checks if not check.is_ok] == [], f"MAINSTEM_SEED={pipeline.seed}"


def test_a_rebuild_changes_no_table_and_no_history(pipeline: Pipeline) -> None:
    entries = pipeline.entries()
    wrong = []
    for feed, source in pipeline.feeds.values():
        for table in source.tables:
            entry = entries[table.name]
            places = [entry["replica"], *([entry["history"]] if pipeline.has_history(table) else [])]
            rebuild = partial(_rebuild, pipeline, name_of((feed, source, table)))
            if table.name in {name for _, name, _ in pipeline.repairs.forgotten}:
                rebuild()  # the type of a column may have followed from the values of the row alone
            if changed := changed_by(rebuild, pipeline.spark, places):
                wrong += [f"{table.name}, {dict(pipeline.settings.ways[table.name])}", *changed]
    assert not wrong, f"MAINSTEM_SEED={pipeline.seed}\n" + "\n".join(wrong[:40])


def _rebuild(pipeline: Pipeline, name: str) -> None:
    assert main(["rebuild", name, "-c", str(pipeline.settings.file)]) == 0


def test_a_history_ends_with_the_rows_of_its_table(pipeline: Pipeline) -> None:
    entries = pipeline.entries()
    for _, source in pipeline.feeds.values():
        for table in source.tables:
            if not pipeline.has_history(table):
                continue
            entry = entries[table.name]
            replica = live_rows(read_table(pipeline.spark, entry["replica"])).drop("_cdc_deleted")
            versions = read_table(pipeline.spark, entry["history"])
            names = [F.col(f"`{name}`") for name in replica.columns if name != "_cdc_change_id"]
            current = versions.where("_cdc_is_current").select(*names)
            rows = (sorted(map(repr, frame.collect())) for frame in (current, replica.select(*names)))
            assert next(rows) == next(rows), (pipeline.seed, table.name)
            assert versions.where("_cdc_valid_to < _cdc_valid_from").isEmpty(), (pipeline.seed, table.name)
            assert versions.where("_cdc_is_current <> (_cdc_valid_to IS NULL)").isEmpty()


def test_every_registered_format_has_a_random_feed() -> None:
    assert {feed.format for feed in FEEDS} == FORMATS.keys()
