"""How files of tables are read: the text of a CSV file is UTF-8, or nothing lands."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.dump_reader import read_dump
from framework.errors import MainstemError

ROWS = 'id,größe\n1,Ärger �\n2,"zwei\nZeilen"\n3,\n4,""\n5,\\N\n'
READ = [("1", "Ärger �"), ("2", "zwei\nZeilen"), ("3", None), ("4", ""), ("5", None)]


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_file_of_an_object_store_is_read_like_one_of_this_machine(
    spark: SparkSession, tmp_path: Path, start: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(start + ROWS, encoding="utf-8")
    for path in (str(file), f"file://{file}"):
        dump = read_dump(spark, path)
        assert list(dump.columns) == ["id", "größe"]
        assert [tuple(row) for row in dump.rows.collect()] == READ


def test_what_is_not_utf_8_in_an_object_store_is_refused_while_it_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("id,name\n1,pen\n2,Ärger\n".encode("latin-1"))
    with pytest.raises(Exception, match="INVALID_UTF8_STRING"):
        read_dump(spark, f"file://{file}").rows.collect()
    for bad in ("id,größe\n1,2\n".encode("latin-1"), "id,name\n1,pen\n".encode("utf-16")):
        file.write_bytes(bad)
        with pytest.raises(MainstemError, match="not UTF-8") as raised:
            read_dump(spark, f"file://{file}")
        assert raised.value.condition == "DUMP_UNREADABLE"
