"""A replay completes updates whose halves were refused or released, and leaves no half of them behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
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
