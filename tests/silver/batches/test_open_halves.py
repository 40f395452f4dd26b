"""Halves without their other half in a batch wait, are released and refused in the same way, whether files of
tasks or copies of them are committed, and whether Spark pairs them or this process, where they are few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.layer import LAYER as BRONZE
from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from framework.pipeline.layer import Run
from silver.batches import changes_table, decoding, few_outcomes, open_halves, process
from silver.batches.contents import Contents, contents_of_summaries
from silver.batches.open_halves import read_open_halves
from silver.batches.staged_files import into_parquet
from silver.changes.batch_summary import with_summaries
from silver.changes.staged_rows import staged_batch
from silver.layer import LAYER as SILVER
from tests.amounts import IS_LARGE
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message
from tests.jobs import jobs
from tests.large_batches import arrow_batches_of, take_for_large
from tests.silver.batches.test_few_outcomes import BEGIN, changes, comparable, drawn_halves

COUNTED = ("kind", "reason", "rows", "merged", "min_sequence", "max_sequence", "max_event_time")
AN_HOUR = 3_600
"""The steps of a sequence that take an hour."""


def drawn_parts(random: Random) -> Iterator[list[dict[str, Any]]]:
    """Changes of some rows by their positions, cut into parts anywhere; some halves never come."""
    rows, at, messages = dict[int, dict[str, Any]](), 0, list[dict[str, Any]]()
    for number in range(40):
        at += random.choice((1, 1, 1, AN_HOUR))
        if not rows or random.random() < 0.3:
            rows[number] = item(number, "pen", 1.5)
            messages.append(message("INSERT", at, after=rows[number]))
            continue
        before = rows.pop(random.choice(list(rows)))
        after = item(before["id"] if random.random() < 0.7 else number, "ink", float(number))
        rows[after["id"]] = after
        halves = [message("UPDATE_BEFOR", at, before=before), message("UPDATE_AFTER", at, after=after)]
        if random.random() < 0.25:
            halves.remove(random.choice(halves))
        messages += halves
    ends = sorted(random.sample(range(1, len(messages)), 3))
    for start, end in zip([0, *ends], [*ends, len(messages)], strict=True):
        yield messages[start:end]


def found_in(shop: Shop) -> dict[str, Any]:
    """What the tables say, without the names of folders and the measures that only files have."""
    lake, spark = shop.lake, shop.spark
    place = [F.element_at(F.split("topic", "/"), -1).alias("topic"), "offset"]
    outcome = [*place, "kind", "op", "reason", "change_id", F.to_json("before"), F.to_json("after")]
    columns = {
        PENDING_TABLE: place,
        QUARANTINE_TABLE: [*place, "reason", "is_resolved", F.col("value").cast("string").alias("value")],
        CHANGES_TABLE: outcome,
        BATCHES_TABLE: ["batch", *COUNTED],
    }
    found = {name: lake.read(spark, name).select(*of).collect() for name, of in columns.items()}
    return {name: sorted(map(str, rows)) for name, rows in found.items()} | {"item": shop.rows("shop/item")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.usefixtures("one_disk")
def test_open_halves_meet_the_same_fate_in_files_and_in_copies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(decoding, "FEW_MESSAGES", 0)
    shops = {}
    for way in ("filed", "copied", "paired by Spark"):
        (tmp_path / way).mkdir()
        shops[way] = Shop(spark, tmp_path / way)
    filed = []
    append_files = changes_table.append_files

    def append(*arguments: Any) -> bool:
        filed.append(append_files(*arguments))
        return filed[-1]

    monkeypatch.setattr(changes_table, "append_files", append)
    waiting = 0
    for part in drawn_parts(Random(f"halves {seed}")):
        found = {}
        for way, shop in shops.items():
            monkeypatch.setattr(process, "SMALL_ROWS", 1_000_000 if way == "copied" else 0)
            monkeypatch.setattr(open_halves, "MOST_HALVES", -1 if way == "paired by Spark" else 1_000)
            shop.land(part)
            shop.run()
            found[way] = found_in(shop)
        assert found["filed"] == found["copied"] == found["paired by Spark"]
        waiting += len(found["filed"][PENDING_TABLE])
    assert any(filed)
    assert waiting
    assert any("unpaired" in row for row in found["filed"][QUARANTINE_TABLE])


@pytest.mark.slow
@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.usefixtures("one_disk")
def test_a_half_at_the_end_of_a_large_batch_waits_for_the_other_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_before: bool
) -> None:
    take_for_large(monkeypatch)
    shop = Shop(spark, tmp_path)
    halves = [
        message("UPDATE_BEFOR", 2, before=item(1, "pen", 1.5)),
        message("UPDATE_AFTER", 2, after=item(2, "pen", 1.75)),
    ]
    first, second = halves if is_before else reversed(halves)
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.5)), first])
    shop.run()
    assert shop.status()["pending_halves"] == 1
    shop.land([second])
    shop.run()
    assert shop.rows("shop/item") == {2: item(2, "pen", 1.75)}
    assert shop.status()["pending_halves"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("one_disk")
def test_numbers_of_updates_from_open_halves_make_their_column_wide_enough(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks decide some updates apart from the row that describes their schema."""
    take_for_large(monkeypatch)
    columns = [*COLUMNS, {"name": "total", "type": "LONG"}]
    totals = {number: 5 if number <= 2 else 2**64 - number for number in range(1, 13)}
    rows = {number: {**item(number, "pen", 1.5), "total": total} for number, total in totals.items()}
    halves = [message("UPDATE_AFTER", n, after=row, columns=columns) for n, row in rows.items()]
    halves += [message("UPDATE_BEFOR", n, before=row, columns=columns) for n, row in rows.items()]
    shop = Shop(spark, tmp_path)
    shop.land([message("INSERT", 100, after=item(1, "pen", 1.5), tableName="other"), *halves])
    with arrow_batches_of(spark, 2):
        shop.run()
    assert {n: row["total"] for n, row in shop.rows("shop/item").items()} == totals


def filed(folder: Path, rows: list[dict[str, Any]]) -> Contents:
    """The contents of decoded rows in files of a task, which has read them two by two."""
    folder.mkdir()
    write = into_parquet(with_summaries(iter, None), str(folder), 1, of_messages=False)
    written = write([staged_batch(rows[start : start + 2]) for start in range(0, len(rows), 2)])
    found = pa.Table.from_batches(written)
    files = {
        name: tuple({str(f) for f in found.column(name).to_pylist() if f}) for name in ("file", "halves")
    }
    contents = contents_of_summaries(found.column("summary"))
    return replace(contents, files=files["file"], half_files=files["halves"])


@pytest.mark.parametrize("has_history", [False, True])
def test_few_halves_have_the_outcomes_in_files_that_they_have_among_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_history: bool
) -> None:
    draw, decided, kinds = Random(has_history), 0, set[tuple[str, str | None]]()
    feeds = 80 if IS_LARGE else 40
    for number in range(feeds):
        feed = f"feed{number}"
        batch, waiting, earlier = drawn_halves(draw, feed)
        deadline = draw.choice((None, BEGIN, BEGIN + timedelta(minutes=1), BEGIN + timedelta(hours=2)))
        deadlines: dict[str, datetime | None] = {feed: deadline}
        shared, history = draw.choice(((), (), (feed,))), changes(earlier) if has_history else None
        staged = pa.Table.from_batches([staged_batch(batch)])
        expected = few_outcomes.pair_halves(staged, changes(waiting), history, deadlines, shared)
        monkeypatch.setattr(few_outcomes, "waiting_halves", lambda *_, held=waiting: changes(held))
        if not batch:
            continue
        here: Any = None
        found = read_open_halves(here, here, filed(tmp_path / feed, batch))
        assert found is not None
        mine = found.outcomes(history, deadlines, shared)
        assert expected is not None
        if mine is not None:
            decided += 1
            assert comparable(mine) == comparable(expected)
            kinds.update(zip(*(mine.column(name).to_pylist() for name in ("kind", "reason")), strict=True))
    assert feeds // 3 < decided < feeds
    assert {("row", None), ("half", None), ("quarantined", "unpaired_before_image")} < kinds


def large_silver(shop: Shop) -> int:
    """Runs bronze and silver: how many jobs silver took."""
    work = Run(shop.spark, shop.lake, shop.config, f"run-{shop.files}")
    assert not BRONZE.run(work).errors
    before = jobs(shop.spark)
    assert not SILVER.run(work).errors
    return jobs(shop.spark) - before


def updates(first: int, *, is_cut: bool) -> list[dict[str, Any]]:
    """Five updates in two messages each; if they are cut, other messages are between the two."""
    sides = (("UPDATE_BEFOR", "before", "pen"), ("UPDATE_AFTER", "after", "ink"))
    pairs = [
        [message(op, first + n, **{side: item(n, name, first / 2)}) for op, side, name in sides]
        for n in range(1, 6)
    ]
    in_order = zip(*pairs, strict=True) if is_cut else pairs
    return [half for halves in in_order for half in halves]


@pytest.mark.slow
@pytest.mark.usefixtures("one_disk")
def test_few_open_halves_of_a_large_batch_run_few_further_jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All halves of the last two batches are open; Spark pairs those of the last one."""
    take_for_large(monkeypatch)
    shop = Shop(spark, tmp_path)
    counted = []
    for number, (is_cut, most) in enumerate(((False, 9), (False, 9), (True, 10), (True, 9))):
        monkeypatch.setattr(open_halves, "MOST_HALVES", most)
        shop.land(updates(100 * (number + 1), is_cut=is_cut))
        counted.append(large_silver(shop))
    assert merged_updates(shop) == [5, 5, 5, 5]
    assert counted[2] <= counted[1] + 2 < counted[3]


def merged_updates(shop: Shop) -> list[int]:
    """How many updates of two halves each batch has."""
    merged = shop.lake.read(shop.spark, CHANGES_TABLE).where("kind = 'row' AND paired_with IS NOT NULL")
    return [row["count"] for row in merged.groupBy("batch").count().orderBy("batch").collect()]


@pytest.mark.slow
@pytest.mark.usefixtures("one_disk")
def test_few_open_halves_are_paired_once_where_silver_stops_beside_their_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_for_large(monkeypatch)
    shop, points = Shop(spark, tmp_path), list[str]()

    def stop(name: str) -> None:
        if name in points:
            points.remove(name)
            raise RuntimeError(name)

    monkeypatch.setattr(process, "crash_point", stop)
    for number, point in enumerate(("silver.before_changes", "silver.after_changes"), start=1):
        shop.land(updates(100 * number, is_cut=True))
        points.append(point)
        with suppress(Exception):
            large_silver(shop)
        assert points == []
        large_silver(shop)
    assert merged_updates(shop) == [5, 5]
    assert shop.lake.read(spark, CHANGES_TABLE).count() == 2 * 5
    assert shop.status()["pending_halves"] == 0
