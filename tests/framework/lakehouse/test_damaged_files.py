"""A byte of a file that has changed on the disk is an error for each reader, never another value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_tables import DataFile, parts_of_files, read_files
from framework.lakehouse.log_rows import append_rows
from framework.lakehouse.row_groups import RowGroup, read_row_groups
from framework.spark.session import is_connect

NAME, SCHEMA = "ops/notes", "note string"


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    return Lakehouse(str(tmp_path / "lakehouse"))


def written_by_spark(spark: SparkSession, lake: Lakehouse) -> None:
    lake.append(spark.createDataFrame([("needle",)], SCHEMA).coalesce(1), NAME)


def written_by_this_process(spark: SparkSession, lake: Lakehouse) -> None:
    lake.create(spark, NAME, spark.createDataFrame([], SCHEMA).schema)
    append_rows(spark, (lake, NAME), [("needle",)], SCHEMA)


@pytest.mark.parametrize("write", [written_by_spark, written_by_this_process])
def test_a_changed_byte_is_an_error(spark: SparkSession, lake: Lakehouse, write: object) -> None:
    if is_connect(spark):
        pytest.skip("the server has settings of its own")
    assert callable(write)
    write(spark, lake)
    (file,) = Path(lake.location(NAME)).glob("*.parquet")
    whole = file.read_bytes()
    page = whole.index(b"needle")  # the statistics behind it have the text, too
    file.write_bytes(whole[:page] + b"noodle" + whole[page + 6 :])
    assert not list(Path(lake.root).rglob(".*.crc"))
    with pytest.raises(Exception, match=r"(?i)checksum|crc"):
        lake.read(spark, NAME).collect()
    data = DataFile(file, 1, len(whole))
    assert read_files([data], ["note"]) is None
    with pytest.raises((OSError, pa.ArrowException), match=r"(?i)checksum|crc"):
        list(parts_of_files([data], ["note"]))
    with pytest.raises((OSError, pa.ArrowException), match=r"(?i)checksum|crc"):
        list(read_row_groups([RowGroup(str(file), 0, 1, len(whole))], ["note"], 10))
