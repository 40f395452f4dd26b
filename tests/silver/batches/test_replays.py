"""A replay completes updates whose halves were refused or released, and leaves no half of them behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import CHANGES
from silver.batches import decoding
from silver.batches.replays import drop_already_decoded
from silver.job import replay_silver
from tests.silver.batches.test_late_halves import Silver
from tests.silver.operations.test_verify import outcome


def test_a_released_half_is_decoded_again_only_as_part_of_its_whole_update(spark: SparkSession) -> None:
    """Offset 1 was released, offset 3 was completed after that, and offset 5 was decoded."""
    update: dict[str, Any] = {"kind": "row", "paired_with": ("t", 0, 2)}
    released: dict[str, Any] = {"kind": "row", "half": "after"}
    earlier = [outcome(1, **released), outcome(3, **released), outcome(3, **update), outcome(5, "row")]
    again = [outcome(n, **update) for n in (1, 3, 5, 7)]
    halves = [outcome(n, "duplicate", "after") for n in (1, 3, 5, 7)]
    frame = spark.createDataFrame([*again, *halves], CHANGES)
    messages = frame.selectExpr("source", "topic", "`partition`", "offset", "epoch", "NULL AS relanding")
    kept = drop_already_decoded(frame, spark.createDataFrame(earlier, CHANGES), messages.distinct())
    assert sorted((row["offset"], row["kind"]) for row in kept.collect()) == [
        (1, "row"), (7, "duplicate"), (7, "row")
    ]  # fmt: skip


def test_a_refused_row_is_new_where_its_message_has_no_outcome_of_it(spark: SparkSession) -> None:
    """Of offset 1 one row stood for the message. Offset 9 waits: it is not decoded, its partner is."""
    earlier = [outcome(1, "quarantined"), outcome(2, "row"), outcome(2, "quarantined", ordinal=1)]
    waiting = outcome(9, "half", "before")
    again = [
        outcome(n, "quarantined", ordinal=o) for n, o in ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (9, 0))
    ]
    frame = spark.createDataFrame(again, CHANGES)
    messages = frame.where("offset < 9").selectExpr(
        "source", "topic", "`partition`", "offset", "epoch", "NULL AS relanding"
    )
    before = spark.createDataFrame([*earlier, waiting], CHANGES)
    kept = drop_already_decoded(frame, before, messages)
    assert sorted((row["offset"], row["ordinal"]) for row in kept.collect()) == [(1, 1), (2, 2)]


def record(sequence: int, op: str, sides: str, name: str) -> str:
    """A record of DataHub Tuple that names no table."""
    flags = {"_operation_type_": op, "_before_image_": sides[0], "_after_image_": sides[1]}
    time = str(1_700_000_000_000 + sequence)
    return json.dumps({"_sequence_id_": sequence, "_excute_time_": time, **flags, "id": 1, "name": name})


@pytest.mark.slow
def test_an_update_whose_halves_were_both_in_quarantine_leaves_none_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Silver(spark, tmp_path)
    shop.configure("datahub_blob", "datahub_tuple")
    shop.take(record(1, "I", "NY", "pen"), record(2, "U", "YN", "pen"), record(2, "U", "NY", "ink"))
    assert shop.open_rows() == {"missing_table": 3}
    shop.configure("datahub_tuple", "datahub_tuple, table: item")
    replay_silver(spark, shop.lake, shop.config)
    changes = shop.lake.read(spark, CHANGES_TABLE).where("kind = 'row'").collect()
    assert sorted((row["op"], row["after"]["name"]) for row in changes) == [
        ("insert", "pen"),
        ("update", "ink"),
    ]
    assert shop.open_rows() == {}


RULE = "quality:\n  rules:\n    - {match: shop.item, range: {column: a, min: 0}, on_change: quarantine}\n"


def items(*values: int) -> str:
    """A message of Canal with a row for each of these values."""
    return json.dumps(
        {
            "database": "shop", "table": "item", "type": "INSERT", "es": 1700000000000, "ts": 1, "id": 3,
            "isDdl": False, "sql": "", "pkNames": ["id"], "mysqlType": {"id": "int", "a": "int"}, "old": None,
            "data": [{"id": str(number), "a": str(a)} for number, a in enumerate(values)],
        }
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("few", [5_000, 0], ids=["in this process", "by Spark"])
@pytest.mark.parametrize("values", [(5, -7), (-7, 5)])
def test_a_row_that_is_refused_behind_a_message_that_was_refused_whole_is_in_quarantine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, values: tuple[int, int]
) -> None:
    monkeypatch.setattr(decoding, "FEW_MESSAGES", few)
    shop = Silver(spark, tmp_path, RULE)

    def kept() -> list[str]:
        rows = shop.lake.read(spark, CHANGES_TABLE).where("kind = 'row'").collect()
        return sorted(row["after"]["a"] for row in rows)

    shop.configure("datahub_blob", "maxwell")
    shop.take(items(*values))
    assert shop.open_rows() == {"wrong_shape": 1}
    shop.configure("maxwell", "canal")
    for _ in range(2):
        replay_silver(spark, shop.lake, shop.config)
        assert (shop.open_rows(), kept()) == ({"rule_broken": 1}, ["5"])
    (refused,) = shop.lake.read(spark, QUARANTINE_TABLE).where("NOT is_resolved").collect()
    assert (refused["ordinal"], bytes(refused["value"]).decode()) == (values.index(-7), items(*values))
    shop.configure("min: 0", "min: -9")
    replay_silver(spark, shop.lake, shop.config)
    assert (shop.open_rows(), kept()) == ({}, ["-7", "5"])
