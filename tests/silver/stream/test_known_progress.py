"""What a run notes for the next one is what the tables say, and is used only while they are unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, PENDING_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import SCHEMAS
from framework.lakehouse.lakehouse import sql_name
from framework.spark.session import is_connect
from silver.batches.run_state import RunState
from silver.changes.source_plans import source_plans
from silver.formats import FORMATS
from silver.stream.checkpoint import counted_from
from silver.stream.known_progress import recall
from silver.stream.resume import last_batch_id
from tests.end_to_end.test_blob_to_replica import Shop, item, message


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    if is_connect(spark):
        pytest.skip("a run on Spark Connect notes nothing")
    return Shop(spark, tmp_path)


def fresh(shop: Shop) -> RunState:
    counted = counted_from(shop.spark, shop.lake)
    return RunState(shop.lake, shop.config, source_plans(shop.config, FORMATS), counted_from=counted)


def check_note(shop: Shop) -> RunState:
    """The state that the last run noted, which must be what the tables say."""
    noted, state = fresh(shop), fresh(shop)
    assert recall(shop.spark, noted)
    assert noted.newest == last_batch_id(shop.spark, state)
    assert noted.tables == state.table_progress(shop.spark)
    for source, tops in state.tops.items():
        kept = noted.tops[source]
        assert max([kept.before, *(top for _, top in kept.batches)]) == tops.before
    assert noted.has_waiting in (None, state.has_pending(shop.spark))
    stored = shop.lake.rows(shop.spark, SCHEMAS_TABLE, SCHEMAS).select("schema_id").collect()
    assert noted.schemas <= {row[0] for row in stored}
    return noted


@pytest.mark.slow
def test_a_run_knows_what_the_last_one_knew(shop: Shop) -> None:
    shop.land([message("INSERT", n, after=item(n, "pen", 1.5)) for n in range(1, 4)])
    shop.run()
    shop.land([message("UPDATE_BEFOR", 4, before=item(1, "pen", 1.5)), "no json"])
    shop.run()
    waiting = check_note(shop)
    assert waiting.newest == 1_000
    shop.land([message("UPDATE_AFTER", 4, after=item(1, "ink", 1.5))])
    shop.run()
    noted = check_note(shop)
    (top,) = [shown for table, shown in (noted.tables or {}).items() if table[3] == "item"]
    assert top.sequence is not None
    assert top.sequence.endswith("014")
    shop.run()  # with nothing new
    assert check_note(shop).tables == noted.tables


@pytest.mark.slow
@pytest.mark.parametrize("name", [BATCHES_TABLE, CHANGES_TABLE, PENDING_TABLE, SCHEMAS_TABLE])
def test_what_follows_from_a_table_that_has_changed_is_read_again(shop: Shop, name: str) -> None:
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.5))])
    shop.run()
    shop.land([message("INSERT", 2, after=item(2, "pen", 1.5))])
    shop.run()
    before = check_note(shop)
    shop.spark.sql(f"ALTER TABLE {sql_name(shop.lake.location(name))} SET TBLPROPERTIES ('a.b' = 'c')")
    found = fresh(shop)
    is_complete = recall(shop.spark, found)
    assert is_complete is (name in (PENDING_TABLE, SCHEMAS_TABLE))
    assert (found.tables is None) is (name == BATCHES_TABLE)
    assert (found.newest is None) is (name == CHANGES_TABLE)
    assert found.schemas == (set() if name == SCHEMAS_TABLE else before.schemas)
    shop.land([message("INSERT", 3, after=item(3, "pen", 1.5))])
    shop.run()
    check_note(shop)
    assert set(shop.rows("shop/item")) == {1, 2, 3}


def test_a_note_of_another_lakehouse_is_not_used(shop: Shop) -> None:
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.5))])
    shop.run()
    note = Path(shop.lake.checkpoints) / "silver.progress"
    told = json.loads(note.read_text())
    told["commits"] = dict.fromkeys(told["commits"], "0 0 0 0")
    note.write_text(json.dumps(told | {"newest": 99_000}))
    found = fresh(shop)
    assert not recall(shop.spark, found)
    assert (found.newest, found.tables, found.has_waiting) == (None, None, None)
    note.unlink()
    assert not recall(shop.spark, found)
