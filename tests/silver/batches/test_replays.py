"""A replay leaves no half of an update behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE
from silver.job import replay_silver
from tests.silver.batches.test_late_halves import Silver


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
