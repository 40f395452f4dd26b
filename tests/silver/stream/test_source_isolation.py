"""A source that makes a batch fail does not stop the others, and loses nothing."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.model import Config, load_config
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    EPOCHS_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    QUARANTINE_TABLE,
)
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError, place_of
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline import failed_tries
from framework.pipeline.layer import Run
from framework.spark.session import is_connect
from silver.batches import batch_counts, process
from silver.batches import decisions as batches
from silver.epochs.history import read_history
from silver.job import run_silver
from silver.layer import LAYER
from silver.operations.verify import verify
from silver.stream.opened_state import open_repair
from tests.end_to_end.test_blob_to_replica import item, message
from tests.older_copies import put_back
from tests.silver.batches.test_partition_progress import canal


class _Feeds:
    """Sources of DataHub Blob in bronze, of which a configuration names some."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.lake = Lakehouse(self.config("x").root)

    def config(self, *names: str) -> Config:
        sources = "".join(f"  {name}: {{format: datahub_blob, files: ./{name}}}\n" for name in names)
        file = self.folder / "mainstem.yml"
        file.write_text(f"pipeline: p\nlakehouse: ./lakehouse\nsources:\n{sources}")
        return load_config(file, formats=LAYER.options())

    def land(self, number: int, *names: str) -> None:
        text = json.dumps(message("INSERT", number, after=item(number, "pen", 1.0))).encode()
        at = datetime(2024, 3, number, tzinfo=UTC)
        rows = [(name, "t", 0, number, None, None, text, None, None, None, at) for name in names]
        self.lake.append(self.spark.createDataFrame(rows, MESSAGES).coalesce(1), MESSAGES_TABLE)

    def run(self, *names: str) -> tuple[str, ...]:
        """Runs silver with these sources; returns the codes of its errors."""
        errors = run_silver(self.spark, self.lake, self.config(*names)).errors
        return tuple(error.condition for error in errors)

    def outcomes(self, table: str = CHANGES_TABLE) -> dict[str, int]:
        counted = self.lake.read(self.spark, table).where("kind = 'row'").groupBy("source")
        total = counted.sum("rows") if table == BATCHES_TABLE else counted.count()
        return {row[0]: row[1] for row in total.collect()}


@pytest.fixture
def feeds(spark: SparkSession, tmp_path: Path) -> _Feeds:
    return _Feeds(spark, tmp_path)


@pytest.mark.slow
def test_a_source_that_fails_is_passed_over_and_taken_up_when_it_can_be(
    spark: SparkSession, feeds: _Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, lake = feeds.config("healthy", "sick"), feeds.lake

    def land(number: int) -> None:
        feeds.land(number, "healthy", "sick")

    def outcomes() -> list[tuple[str, int, str]]:
        rows = lake.read(spark, CHANGES_TABLE).select("source", "offset", "kind").collect()
        return sorted((row[0], row[1], row[2]) for row in rows)

    stops = batches._find_stops

    tried: list[str] = []

    def fails(*given: Any) -> Any:
        if [summary.source for summary in given[-2].sources] == ["sick"]:
            tried.append("sick")
        if any(summary.source == "sick" for summary in given[-2].sources):
            raise RecursionError("an expression that is too deep")
        return stops(*given)

    monkeypatch.setattr(batches, "_find_stops", fails)
    for number in (1, 2):
        land(number)
        (error,) = run_silver(spark, lake, config).errors
        assert (error.condition, "too deep" in str(error), "source sick" in str(error)) == (
            "SOURCE_FAILED",
            True,
            True,
        )
        assert outcomes() == [("healthy", n, "row") for n in range(1, number + 1)]
    monkeypatch.setattr(failed_tries, "FIRST_PAUSE", failed_tries.LONGEST_PAUSE)
    rounds, before = failed_tries.FailedTries(), len(tried)
    for number in (3, 4):  # the rounds of a continuous run
        land(number)
        assert len(run_silver(spark, lake, config, tries=rounds).errors) == 1
    if not is_connect(spark):
        assert len(tried) == before + 1
    assert lake.read(spark, EPOCHS_TABLE).count() == 1  # each try has failed for the same reason
    monkeypatch.setattr(batches, "_find_stops", stops)
    land(5)
    assert run_silver(spark, lake, config).errors == ()
    assert outcomes() == [(name, n, "row") for name in ("healthy", "sick") for n in range(1, 6)]

    def fails_always(*_: Any) -> Any:
        raise RecursionError("no disk is left")

    monkeypatch.setattr(batches, "_find_stops", fails_always)
    land(6)
    with pytest.raises(Exception, match="no disk") as raised:
        run_silver(spark, lake, config)
    if not is_connect(spark):  # there the batch fails in another process, and comes back as text
        assert re.fullmatch(r"batch \d+ \(sources healthy, sick\)", place_of(raised.value) or "")
    monkeypatch.setattr(batches, "_find_stops", stops)
    assert run_silver(spark, lake, config).errors == ()
    assert outcomes() == [(name, n, "row") for name in ("healthy", "sick") for n in range(1, 7)]


@pytest.mark.slow
def test_messages_of_a_batch_that_failed_do_not_move_their_partition(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may come with other positions when they are read again: after a change of a setting."""
    sources = "".join(
        f"  {name}: {{format: canal, files: ./{name}, layout: kcat}}\n" for name in ("healthy", "sick")
    )
    (tmp_path / "mainstem.yml").write_text(f"pipeline: p\nlakehouse: ./lakehouse\nsources:\n{sources}")
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    lake, landed_at = Lakehouse(config.root), datetime(2024, 3, 1, tzinfo=UTC)
    rows = [
        (name, "t", 0, number, None, None, canal(number, time), None, None, None, landed_at)
        for name in ("healthy", "sick")
        for number, time in enumerate((7_000, 3_000, 8_000))
    ]
    lake.append(spark.createDataFrame(rows, MESSAGES).coalesce(1), MESSAGES_TABLE)
    stops = batches._find_stops

    def fails(*given: Any) -> Any:
        if any(summary.source in failing for summary in given[-2].sources):
            raise RecursionError("an expression that is too deep")
        return stops(*given)

    def partitions() -> list[tuple[str, int]]:
        rows = lake.rows(spark, PARTITIONS_TABLE, "source string, last_offset bigint")
        return sorted((row["source"], row["last_offset"]) for row in rows.collect())

    monkeypatch.setattr(batches, "_find_stops", fails)
    failing = {"healthy", "sick"}
    with pytest.raises(RecursionError):
        run_silver(spark, lake, config)
    assert partitions() == []
    failing = {"sick"}
    assert len(run_silver(spark, lake, config).errors) == 1
    assert partitions() == [("healthy", 2)]
    failing = set()
    assert run_silver(spark, lake, config).errors == ()
    assert partitions() == [("healthy", 2), ("sick", 2)]
    found = lake.read(spark, CHANGES_TABLE).select("source", "offset", "sequence").collect()
    by_source = {name: {(r[1], r[2]) for r in found if r[0] == name} for name in ("healthy", "sick")}
    assert by_source["sick"] == by_source["healthy"]


@pytest.mark.slow
def test_a_batch_that_is_repeated_with_other_sources_tells_which_it_left_out(
    spark: SparkSession, feeds: _Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try left out x; the second one, after a crash, leaves out y."""
    if is_connect(spark):
        pytest.skip("the batches run in another process")
    feeds.land(1, "x", "y", "z")
    assert feeds.run("x", "y", "z") == ()
    feeds.land(2, "x", "y", "z")

    def dies(place: str) -> None:
        if place == "silver.before_staging":
            raise RuntimeError("the run dies here")

    with monkeypatch.context() as patched:
        patched.setattr(process, "crash_point", dies)
        with pytest.raises(Exception, match="dies here"):
            feeds.run("y", "z")
    assert feeds.run("x", "z") == ()
    assert feeds.outcomes() == {"x": 2, "y": 1, "z": 2}
    assert feeds.run("x", "y", "z") == ()
    assert feeds.outcomes() == {"x": 2, "y": 2, "z": 2}


@pytest.mark.slow
def test_what_follows_from_messages_that_were_taken_up_is_not_passed_over(
    spark: SparkSession, feeds: _Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes are committed and their counts fail, by which gold would find them."""
    if is_connect(spark):
        pytest.skip("the batches run in another process")
    feeds.land(1, "x", "y")
    assert feeds.run("x", "y") == ()
    feeds.land(2, "x", "y")
    assert feeds.run("y") == ()
    feeds.land(3, "y")

    append = batch_counts.append_counts

    def fails(*given: Any) -> None:
        if given[-1] is None:  # a batch between those of the stream
            raise OSError("no space is left")
        append(*given)

    with monkeypatch.context() as patched:
        patched.setattr(batch_counts, "append_counts", fails)
        with pytest.raises(Exception, match="no space"):
            feeds.run("x", "y")
    assert feeds.outcomes() == {"x": 2, "y": 2}
    assert feeds.run("x", "y") == ()
    assert feeds.outcomes() == feeds.outcomes(BATCHES_TABLE) == {"x": 2, "y": 3}


@pytest.mark.slow
def test_a_source_that_was_left_out_is_taken_up_although_ops_epochs_was_an_older_copy(
    spark: SparkSession, feeds: _Feeds, tmp_path: Path
) -> None:
    if is_connect(spark):
        pytest.skip("the session of another process keeps what it knows of a table")
    epochs, older = Path(feeds.lake.location(EPOCHS_TABLE)), tmp_path / "older"
    changes = Path(feeds.lake.location(CHANGES_TABLE))
    for number in (1, 2):
        feeds.land(number, "x", "y")
        assert feeds.run("x") == ()
        if number == 1:
            assert feeds.run("x", "y") == ()
            shutil.copytree(epochs, older)
            shutil.copytree(changes, tmp_path / "older changes")
    shutil.copytree(changes, tmp_path / "newest changes")
    recorded, both = read_history(spark, feeds.lake), feeds.config("x", "y")

    put_back(spark, older, epochs)
    put_back(spark, tmp_path / "older changes", changes)
    found = read_history(spark, feeds.lake).rows
    assert len(found) < len(recorded.rows)
    with pytest.raises(MainstemError) as refused:
        run_silver(spark, feeds.lake, both)
    assert refused.value.condition == "OLDER_COPY"
    assert read_history(spark, feeds.lake).rows == found  # right with checkpoints of the same time
    put_back(spark, tmp_path / "newest changes", changes)
    told = [open_repair(spark, feeds.lake, both)[1]]
    assert set(read_history(spark, feeds.lake).rows) == set(recorded.rows)
    put_back(spark, older, epochs)
    told.append(run_silver(spark, feeds.lake, both).restored)
    assert feeds.outcomes() == {"x": 2, "y": 2}
    assert [notes[0].partition(":")[0] for notes in told] == [f"{EPOCHS_TABLE} was an older copy"] * 2
    assert run_silver(spark, feeds.lake, both).restored == ()


@pytest.mark.slow
def test_rows_without_coordinates_of_an_earlier_release_keep_their_bytes_in_quarantine(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nsources:\n  raw: {format: datahub_blob, table: ./raw}\n"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    lake = Lakehouse(config.root)
    for first in (1, 3):
        rows = [
            (*at, None, None, json.dumps(message("INSERT", number, after=item(number, "pen", 1.0))).encode())
            for number, at in enumerate(
                [("raw", "t", 0, first), ("raw", "t", 0, None), ("raw", "t", 0, None), ("raw", None, 0, 7)],
                first,
            )
        ]
        landed = [(*row, None, None, None, datetime(2024, 3, first, tzinfo=UTC)) for row in rows]
        lake.append(spark.createDataFrame(landed, MESSAGES).coalesce(1), MESSAGES_TABLE)
        assert run_silver(spark, lake, config).errors == ()
    counted = lake.read(spark, CHANGES_TABLE).groupBy("kind").count().collect()
    assert {row[0]: row[1] for row in counted} == {"row": 2, "quarantined": 6}
    kept = lake.read(spark, QUARANTINE_TABLE).where("value IS NOT NULL").collect()
    assert sorted((row["topic"] or "", row["offset"], row["reason"]) for row in kept) == [
        ("", 7, "bad_coordinates"),
        ("t", None, "bad_coordinates"),
    ]


@pytest.mark.slow
def test_each_copy_of_a_row_that_lands_with_the_row_has_its_own_outcome(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nsources:\n  raw: {format: datahub_blob, table: ./raw}\n"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    lake = Lakehouse(config.root)
    text = json.dumps(message("INSERT", 1, after=item(1, "pen", 1.0))).encode()
    for day, copies in ((1, 3), (2, 2)):
        at = datetime(2024, 3, day, tzinfo=UTC)
        rows = [("raw", "t", 0, 1, None, None, text, None, None, None, at)] * copies
        lake.append(spark.createDataFrame(rows, MESSAGES).coalesce(1), MESSAGES_TABLE)
        assert run_silver(spark, lake, config).errors == ()
    details = [row[0] for row in lake.read(spark, CHANGES_TABLE).select("detail").collect()]
    assert (len(details), len(set(details)), None in details) == (5, 5, True)
    checks = {check.name: check.wrong for check in verify(Run(spark, lake, config, "r"))}
    assert (checks["every_fate"], checks["no_invention"], checks["one_fate"]) == (0, 0, 0)
