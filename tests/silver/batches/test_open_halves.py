"""Halves without their other half in a batch wait, are released and refused in the same way, whether files of
tasks or copies of them are committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from silver.batches import changes_table, decoding, process
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message
from tests.large_batches import arrow_batches_of, take_for_large

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
    for way in ("filed", "copied"):
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
            monkeypatch.setattr(process, "SMALL_ROWS", 0 if way == "filed" else 1_000_000)
            shop.land(part)
            shop.run()
            found[way] = found_in(shop)
        assert found["filed"] == found["copied"]
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
