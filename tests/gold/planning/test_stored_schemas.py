from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import SCHEMAS_TABLE
from framework.contracts.table_schemas import SCHEMAS
from framework.lakehouse.lakehouse import Lakehouse
from gold.changes.profile import SchemaColumn
from gold.planning.stored_schemas import StoredSchemas


def test_wanted_schemas_are_read_at_once_and_the_others_when_one_is_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lakehouse(str(tmp_path))
    rows = [(name, [("id", "int", None, None)], 0) for name in ("a", "b", "c")]
    lake.append(spark.createDataFrame(rows, SCHEMAS), SCHEMAS_TABLE)
    columns = (SchemaColumn("id", "int", None, None),)

    found = StoredSchemas(spark, lake, {"a"})
    lake.append(spark.createDataFrame([("d", [], 1)], SCHEMAS), SCHEMAS_TABLE)
    assert found["a"] == columns
    assert found.get("") is None  # a change without a schema
    assert set(found._found) == {"a"}
    assert found["b"] == columns
    assert set(found) == {"a", "b", "c", "d"}
    with pytest.raises(KeyError):
        found["unknown"]

    every = StoredSchemas(spark, lake)
    assert set(every._found) == {"a", "b", "c", "d"}
    assert len(StoredSchemas(spark, lake, ())) == 4
