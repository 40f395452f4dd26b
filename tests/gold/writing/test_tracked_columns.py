"""Which changes of tracked columns make a version: those of their values, not of their texts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import ChangeType
from tests.gold.silver_builder import GoldPipeline, ddl, insert, row, update
from tests.rebuilds import changed_by

OLD, NEW = "decimal(10,2)", "decimal(12,4)"


@pytest.mark.slow
def test_other_texts_of_a_value_make_no_version(spark: SparkSession, tmp_path: Path) -> None:
    """Texts count where a value does not fit, and in columns that the replica does not have."""
    rules = "  - {match: db.t, history: {track: [price]}}\n"
    rules += "  - {match: db.frozen, schema_policy: ignore, history: {track: [price, more]}}\n"
    gold = GoldPipeline(spark, tmp_path, rules)
    old, new = {"types": {"price": OLD}}, {"types": {"price": NEW}}
    gold.add_batch(
        *(insert("t", key, row(key, price="10.5", a="x"), **old) for key in (1, 2)),
        update("t", 3, None, row(2, price="10.50", a="y"), **old),
        insert("t", 4, row(3, price="ten"), **old),
        update("t", 5, None, row(3, price="TEN"), **old),
        update("t", 6, None, row(3, price="TEN", a="y"), **old),
        update("t", 7, None, row(3, price=None), **old),
        insert("frozen", 1, row(1, price="1.0"), **old),
    )
    gold.apply()
    gold.add_batch(
        ddl("t", 11, ChangeType("price", NEW, NEW)),
        update("t", 12, None, row(1, price="10.5000", a="y"), **new),
        update("t", 13, None, row(1, price="10.5001", a="y"), **new),
        update("t", 14, None, row(2, a="z"), partial=True),
        *(
            update("frozen", at, None, row(1, price=price, more=more), **old)
            for at, price, more in ((11, "1.00", None), (12, "1.00", "1"), (13, "1", "1.0"), (14, "1", "1.0"))
        ),
    )
    gold.apply()
    found = [(one["id"], one.get("price") and str(one["price"]), one["from"]) for one in gold.history("t")]
    assert found == [
        (1, "10.5000", 1), (1, "10.5001", 13), (2, "10.5000", 2), (3, None, 4), (3, None, 5), (3, None, 7)
    ]  # fmt: skip
    assert [one["from"] for one in gold.history("frozen")] == [1, 12, 13]
    for name in ("t", "frozen"):
        places = [f"{gold.lake.root}/gold/db/{name}__history"]
        assert changed_by(partial(gold.rebuild, name), spark, places) == []
