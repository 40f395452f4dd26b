"""What a run says of entries of the configuration: exclusions, keys and names that have no effect."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config import tables
from framework.config.tables import unmatched
from framework.contracts.ddl_actions import TableName
from framework.errors import ConfigurationError
from gold.job import run_gold
from tests.gold.silver_builder import GoldPipeline, excluded, insert, refused


def test_a_pattern_that_matches_no_table_is_told_with_the_nearest_one() -> None:
    known = {TableName("shop", None, "orders"), TableName("crm", "public", "customer")}
    assert unmatched(["shop.*", "crm.*.customer"], known, "tables") == ()
    assert unmatched(["shop.ordrs", "orders", "shop.ordrs"], known, "tables") == (
        "tables: no table matches 'shop.ordrs' so far; did you mean 'shop.orders'?",
        "tables: no table matches 'orders' so far; did you mean 'shop.orders'?",
    )
    assert unmatched(["shop.ordrs"], set(), "tables") == ()
    assert unmatched(["crm.customer", "shop.`orders`"], known, "tables") == (
        "tables: no table matches 'crm.customer' so far; did you mean 'crm.public.customer'?",
    )


def test_only_the_first_notes_have_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hint compares a pattern with the names of all tables, of which there may be thousands."""
    sought: list[str] = []
    monkeypatch.setattr(tables, "nearest", lambda name, _: sought.append(name) or "shop.orders")
    found = unmatched(
        [f"shop.late{n:03d}" for n in range(100)], {TableName("shop", None, "orders")}, "tables"
    )
    assert len(found) == 100
    assert found[4].endswith("'shop.late004' so far; did you mean 'shop.orders'?")
    assert found[5].endswith("'shop.late005' so far")
    assert len(sought) == 5


@pytest.mark.slow
def test_a_replica_that_stays_behind_its_exclusion_is_told(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    pipeline.add_batch(insert("item", 1, {"id": "1"}), insert("t", 2, {"id": "1"}))
    assert run_gold(spark, pipeline.lake, pipeline.config, "run").notes == ()
    pipeline.configure("  - {match: db.item, exclude: true}\n")
    told = "excluded, but still there, and no longer kept up: the replica of db.item"

    assert run_gold(spark, pipeline.lake, pipeline.config, "run").notes == (told,)
    pipeline.add_batch(insert("t", 3, {"id": "2"}))
    assert run_gold(spark, pipeline.lake, pipeline.config, "run").notes == (told,)


@pytest.mark.slow
def test_keys_that_have_no_effect_are_told(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p", "  - {match: 'db.*', keys: [n]}\n")
    pipeline.add_batch(insert("item", 1, {"id": "1", "n": "1"}), insert("t", 2, {"n": "1"}, keys=None))
    found = run_gold(spark, pipeline.lake, pipeline.config, "run")
    assert {one.state.name.table: one.notes for one in found.tables} == {
        "item": (
            "its key is (id), not that of `keys:`: its messages name it, or were read with other `keys:`."
            " Correct it in the feed; or `mainstem rebuild TABLE --from bronze` reads them with these",
        ),
        "t": (),
    }


def test_settings_of_a_misspelt_column_are_told(spark: SparkSession, tmp_path: Path) -> None:
    """They have no effect: without a word, a price would stay text where a decimal was configured."""
    rules = (
        "  - {match: 'db.*', columns: {price: {type: bigint}, extra: {type: bigint}}}\n"
        "  - {match: db.item, columns: {Price: {type: bigint}, born: {type: bigint}}}\n"
        "  - {match: db.t, columns: {n: {type: bigint}}}\n"
        "  - {match: db.t, columns: {born: {type: bigint}}}\n"
        "  - {match: db.gone, columns: {x: {type: bigint}}}\n"
    )
    pipeline = GoldPipeline(spark, tmp_path / "p", rules)
    pipeline.add_batch(
        insert("item", 1, {"id": "1", "price": "1"}),
        insert("t", 2, {"id": "1", "n": "1"}),
        excluded("gone", 3),
    )
    told = (
        "tables: no table of 'db.*' has a column 'extra' so far",
        "tables: no table of 'db.item' has a column 'Price' so far; did you mean 'price'?",
        "tables: no table of 'db.item' has a column 'born' so far",
        "tables: no table of 'db.t' has a column 'born' so far",
    )
    assert run_gold(spark, pipeline.lake, pipeline.config, "run").notes == told
    pipeline.add_batch(insert("item", 4, {"id": "2", "price": "1", "born": "7"}))
    assert run_gold(spark, pipeline.lake, pipeline.config, "run").notes == (*told[:2], told[3])


def test_a_misspelt_exclusion_is_told_and_one_that_works_is_not(spark: SparkSession, tmp_path: Path) -> None:
    rules = (
        "  - {match: db.t, exclude: true}\n  - {match: db.itm, exclude: true}\n  - {match: 'db.*'}\n"
        "  - {match: db.order, keys: [number]}\n"
    )
    pipeline = GoldPipeline(spark, tmp_path / "p", rules)
    pipeline.add_batch(excluded("t", 1), insert("item", 2, {"id": "1"}), refused("order", 3))
    found = run_gold(spark, pipeline.lake, pipeline.config, "run")
    assert [a.state.name.table for a in found.tables] == ["item"]
    assert found.notes == ("tables: no table matches 'db.itm' so far; did you mean 'db.item'?",)
    with pytest.raises(ConfigurationError, match="TABLE_EXCLUDED"):
        run_gold(spark, pipeline.lake, pipeline.config, "run", "db.t")
    with pytest.raises(ConfigurationError, match="TABLE_UNKNOWN"):
        run_gold(spark, pipeline.lake, pipeline.config, "run", "db.other")
