"""A small round stays within its number of Spark jobs: most of what it costs is planning, not data."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.expectations import CheckTarget, PreviousResults
from framework.contracts.table_names import QUARANTINE_TABLE
from framework.lakehouse.local_tables import DataFile
from framework.pipeline.layer import LayerReport, Run, installed_layers
from framework.pipeline.session import open_pipeline
from framework.quality import memory, runner
from framework.quality.job import judge
from framework.spark import tuning
from framework.spark.session import is_connect
from gold.writing import workload
from tests.benchmarks import feeds
from tests.end_to_end.random_wires import blob, canal, maxwell
from tests.framework.demo.story import Change
from tests.jobs import jobs

MOST_JOBS = {"bronze": 2, "silver": 0, "gold": 15, "quality": 0}
"""For one source and three tables; each table adds its MERGE (5 jobs) to gold."""
MOST_OF_SILVER = 0
"""Jobs of silver where halves wait, others come, a message is broken, and servers are named."""
MOST_OF_REDECODING = 2
"""Jobs of silver that decodes the few messages of one table again."""


def _changes(number: int) -> Iterator[Change]:
    for change in feeds.changes(60, 0, "update" if number else "insert", tables=3):
        yield dataclasses.replace(
            change, number=change.number + number * 1_000, at=change.at + number * 10**7
        )


def _write(folder: Path, source: str, number: int, lines: Iterable[str]) -> None:
    file = folder / "landing" / source / f"{number}.json"
    file.write_text("\n".join(lines))
    os.utime(file, (time.time() - 60,) * 2)


def _land(folder: Path, number: int) -> None:
    _write(folder, "datahub_blob", number, (line for change in _changes(number) for line in blob(change)))


def _silver(run: Run) -> tuple[LayerReport, int]:
    """Lands what is there and runs silver: its report, and how many jobs it took."""
    bronze, silver = list(installed_layers())[:2]
    assert not bronze.run(run).errors
    before = jobs(run.spark)
    report = silver.run(run)
    assert not report.errors
    return report, jobs(run.spark) - before


def test_a_warm_round_runs_few_jobs_also_after_many_changes_of_few_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At last as if 30 changes of a table were many: a batch has 20 of them, and the table 20 rows."""
    config = feeds.config(tmp_path / "pipeline", ["datahub_blob"])
    counted: dict[str, int] = {}
    with open_pipeline(config, is_exclusive=True) as (lake, session):
        for number in range(3):
            _land(tmp_path / "pipeline", number)
            run = Run(session, lake, config, f"run-{number}")
            for layer in installed_layers():
                before = jobs(spark)
                report = layer.run(run)
                assert not report.errors
                if layer.name == "gold":
                    expected = (0, 20) if number else (20, 0)
                    assert [(line.inserted, line.updated) for line in report.tables] == [expected] * 3
                counted[layer.name] = jobs(spark) - before
        assert {name: count for name, count in counted.items() if count > MOST_JOBS[name]} == {}

        monkeypatch.setattr(tuning, "SMALL_ROWS", 30)
        monkeypatch.setattr(workload, "SMALL_ROWS", 30)
        for number in (3, 4):
            _land(tmp_path / "pipeline", number)
            run = Run(session, lake, config, f"run-{number}")
            bronze, silver, gold = list(installed_layers())[:3]
            assert not bronze.run(run).errors + silver.run(run).errors
            before = jobs(spark)
            assert [(line.inserted, line.updated) for line in gold.run(run).tables] == [(0, 20)] * 3
            assert jobs(spark) - before <= MOST_JOBS["gold"]


def test_rows_that_are_deleted_in_a_first_load_run_no_job(spark: SparkSession, tmp_path: Path) -> None:
    counted: list[int] = []
    for deleted in (0, 3):
        folder = tmp_path / str(deleted)
        config = feeds.config(folder, ["maxwell"])
        inserted = list(_changes(0))
        gone = [
            dataclasses.replace(
                change, op="delete", before=change.after, after=None, number=change.number + 1_000
            )
            for change in inserted[:deleted]
        ]
        _write(folder, "maxwell", 0, (line for change in (*inserted, *gone) for line in maxwell(change)))
        with open_pipeline(config, is_exclusive=True) as (lake, session):
            run = Run(session, lake, config, "run")
            bronze, silver, gold = list(installed_layers())[:3]
            assert not bronze.run(run).errors + silver.run(run).errors
            before = jobs(spark)
            assert sum(line.inserted for line in gold.run(run).tables) == 60
            counted.append(jobs(spark) - before)
            rows = lake.read(session, "gold/shop/item")
            assert rows.count() == 20 - bool(deleted)
    assert counted[0] == counted[1]


def test_a_small_batch_with_halves_servers_and_a_broken_message_runs_few_jobs(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "pipeline"
    config = feeds.config(folder, ["datahub_blob", "maxwell"])
    late: list[str] = []
    with open_pipeline(config, is_exclusive=True) as (lake, session):
        for number in range(3):
            *lines, last = [line for change in _changes(number) for line in blob(change)]
            _write(folder, "datahub_blob", number, [*late, *lines, "{"])
            late = [last]
            named = ('{"server_id":7,' + line[1:] for change in _changes(number) for line in maxwell(change))
            _write(folder, "maxwell", number, named)
            report, counted = _silver(Run(session, lake, config, f"run-{number}"))
        assert report.counts["quarantined"] == report.counts["waiting"] == 1
        assert report.counts["changes"] == 120
        refused = lake.read(session, QUARANTINE_TABLE)
        assert [row["batch"] for row in refused.orderBy("batch").collect()] == [0, 1_000, 2_000]
    assert counted <= MOST_OF_SILVER


def test_late_and_repeated_messages_of_a_small_batch_run_no_job_of_silver(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Partitions that are read side by side are seldom equally far."""
    folder = tmp_path / "pipeline"
    wires = {"datahub_blob": blob, "maxwell": maxwell, "canal": canal}
    config = feeds.config(folder, list(wires))
    late: list[Change] = []
    again: list[Change] = []
    with open_pipeline(config, is_exclusive=True) as (lake, session):
        for number in range(4):
            changes = list(_changes(number))
            for source, wire in wires.items():
                repeats = [] if source == "canal" else again  # its positions do not tell a repeat
                landed = [*late, *repeats, *changes[:30], *changes[32:]]
                _write(folder, source, number, (line for change in landed for line in wire(change)))
            late, again = changes[30:32], changes[3:5]
            report, counted = _silver(Run(session, lake, config, f"run-{number}"))
            assert report.counts["changes"] == 3 * (60 if number else 58)
        assert report.counts["duplicates"] == 2 * 2
    assert counted == MOST_JOBS["silver"]


@pytest.mark.slow
def test_a_table_is_decoded_again_in_few_jobs(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    config = feeds.config(folder, ["datahub_blob"])
    bronze, silver = list(installed_layers())[:2]
    with open_pipeline(config, is_exclusive=True) as (lake, session):
        run = Run(session, lake, config, "run")
        for number in range(2):
            _land(folder, number)
            assert not bronze.run(run).errors
            assert not silver.run(run).errors
        assert silver.redecode is not None
        before = jobs(spark)
        assert silver.redecode(run, "shop.item").counts["messages"] == 20 + 2 * 20
        counted = jobs(spark) - before
    assert counted <= MOST_OF_REDECODING
    assert not list(Path(lake.checkpoints, "staging").glob("*again*"))


@pytest.mark.slow
def test_many_rows_are_judged_without_spark_too_and_a_wrong_key_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_connect(spark):
        pytest.skip("Spark judges all rows there")
    config = feeds.config(tmp_path / "pipeline", ["datahub_blob"])
    asked: list[str] = []
    measured, few = runner._measured_findings, memory._are_few

    def ask(spark: SparkSession, targets: Sequence[CheckTarget], past: PreviousResults) -> Any:
        asked.extend(target.title for target in targets)
        return measured(spark, targets, past)

    def are_few(files: Sequence[DataFile]) -> bool:
        """As if there were many messages and changes; only `ops/batches` stays small."""
        return few(files) and all(file.path.is_relative_to(lake.location("ops")) for file in files)

    monkeypatch.setattr(runner, "_measured_findings", ask)
    monkeypatch.setattr(memory, "_are_few", are_few)
    with open_pipeline(config, is_exclusive=True) as (lake, session):
        for number, which in enumerate(("all", "new", "new")):
            _land(tmp_path / "pipeline", number)
            run = Run(session, lake, config, f"run-{number}")
            for layer in list(installed_layers())[:-1]:
                assert not layer.run(run).errors
            before = jobs(spark)
            results = judge(run, installed_layers()).results
            implied = {str(r.table): r.observed for r in results if r.rule == "implied_keys"}
            assert asked == []
            assert jobs(spark) == before
            assert sorted(implied) == ["item", "item_1", "item_2"]
            assert all(observed.startswith(f"{which} keys as implied") for observed in implied.values())
        session.sql(f"DELETE FROM delta.`{lake.location('gold/shop/item_1')}` WHERE id = 4")
        again = judge(Run(session, lake, config, "last"), installed_layers())
        assert [(r.table, r.rule, r.failing_keys) for r in again.failures] == [
            ("item_1", "implied_keys", ("id=4: missing in the replica",))
        ]
