from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.config_rules import Deletes
from gold.columns import TableColumn
from gold.merge import OWN, Layout, Rules, merge_latest, replace_table


def test_keys_of_every_type_are_written_and_merged(spark: SparkSession, tmp_path: Path) -> None:
    """Delta keeps no lowest and highest values of bytes and booleans, and refuses to be asked for them."""
    columns = (TableColumn("ROW", "binary", None), TableColumn("is_on", "boolean", None), TableColumn("v", "int", None))
    layout = Layout(columns, ("ROW", "is_on"), dict(OWN))
    path = str(tmp_path / "t")
    cells = "c0 binary, c1 boolean, c2 int, _cdc_sequence string, _cdc_event_time timestamp, _cdc_change_id string"
    replace_table(spark.createDataFrame([(b"\x00", True, 1, "1", None, "a"), (b"\xff", False, 2, "1", None, "b")], cells), path, layout)
    flags = f"k0 binary, k1 boolean, {cells}, is_put boolean, is_forced boolean"
    newer = [
        (b"\xff", False, b"\xff", False, 3, "2", None, "c", True, False),
        (b"\x00", True, None, None, None, "2", None, "d", False, False),
    ]
    merge_latest(spark.createDataFrame(newer, flags), path, layout, Rules(Deletes.HARD, None, has_partials=False))
    rows = spark.read.format("delta").load(path).select("ROW", "is_on", "v").collect()
    assert [(bytes(row[0]), row[1], row[2]) for row in rows] == [(b"\xff", False, 3)]
