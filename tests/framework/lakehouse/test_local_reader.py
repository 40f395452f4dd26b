"""Queries on a local lakehouse without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalFirst, LocalReader, Unreadable
from framework.lakehouse.table_reader import Query, Row, Value

MOMENT = datetime(2024, 3, 1, 9, 30, 0, 250_000, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    columns: dict[str, Any] = {
        "source": pa.array(["shop", "it's `x` {y}", None]),
        "table": pa.array(["item", "line", None]),
        "rows": pa.array([2, 40, 500]),
        "at": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
        "after": pa.array([[("id", "1"), ("name", None)], None, []], pa.map_(pa.string(), pa.string())),
        "value": pa.array([b"\x00\xffabc", b"", None]),
    }
    write_deltalake(tmp_path / "ops" / "numbers", pa.table(columns))
    return Lakehouse(str(tmp_path))


def query(sql: str, **more: Any) -> Query:
    return Query("ops/numbers", sql, **more)


def test_a_row_has_plain_values(lake: Lakehouse) -> None:
    (row,) = LocalReader(lake).rows(query("SELECT * FROM {rows} WHERE `rows` = 2"))
    assert row == {
        "source": "shop",
        "table": "item",
        "rows": 2,
        "at": MOMENT,
        "after": {"id": "1", "name": None},
        "value": b"\x00\xffabc",
    }


def test_totals_by_group(lake: Lakehouse) -> None:
    total = query(
        "SELECT `table`, sum(`rows`) AS `rows` FROM {rows} GROUP BY `table` ORDER BY `table` NULLS FIRST"
    )
    assert LocalReader(lake).rows(total) == [
        {"table": None, "rows": 500},
        {"table": "item", "rows": 2},
        {"table": "line", "rows": 40},
    ]


def test_a_parameter_may_be_a_name(lake: Lakehouse) -> None:
    found = LocalReader(lake).rows(query("SELECT `rows` FROM {rows} WHERE `source` = {name}"), name="shop")
    assert [row["rows"] for row in found] == [2]


@pytest.mark.parametrize("name", ["it's `x` {y}", "' OR 1 = 1 --", "a\\", "${x}", "a\n"])
def test_the_value_of_a_parameter_is_never_sql(lake: Lakehouse, name: str) -> None:
    with pytest.raises(ValueError, match="parameter name"):
        LocalReader(lake).rows(query("SELECT `rows` FROM {rows} WHERE `source` = {name}"), name=name)


def test_a_parameter_may_be_a_number(lake: Lakehouse) -> None:
    found = LocalReader(lake).rows(
        query("SELECT `rows` FROM {rows} WHERE `rows` >= {least} ORDER BY `rows`"), least=40
    )
    assert [row["rows"] for row in found] == [40, 500]


def test_a_column_that_an_older_table_lacks_is_null(lake: Lakehouse) -> None:
    seconds = query(
        "SELECT `rows`, `seconds` FROM {rows} WHERE `rows` = 2",
        lacking={"seconds": "double", "rows": "bigint"},
    )
    assert LocalReader(lake).rows(seconds) == [{"rows": 2, "seconds": None}]


def test_of_long_bytes_only_the_start_is_read(lake: Lakehouse) -> None:
    values = query("SELECT `rows`, `value` FROM {rows} ORDER BY `rows`", starts={"value": 3})
    assert LocalReader(lake).rows(values) == [
        {"rows": 2, "value": b"\x00\xffa", "value_bytes": 5},
        {"rows": 40, "value": b"", "value_bytes": 0},
        {"rows": 500, "value": None, "value_bytes": None},
    ]


def test_a_table_that_is_not_there_has_no_rows(lake: Lakehouse) -> None:
    reader = LocalReader(lake)
    assert not reader.exists("ops/missing")
    assert reader.rows(Query("ops/missing", "SELECT count(*) AS `rows` FROM {rows}")) == []
    assert reader.count(lake.location("ops/missing")) == 0
    assert reader.logged_count(lake.location("ops/missing")) is None


def test_rows_are_counted(lake: Lakehouse) -> None:
    reader, location = LocalReader(lake), lake.location("ops/numbers")
    assert reader.exists("ops/numbers")
    assert (reader.count(location), reader.logged_count(location)) == (3, 3)


def test_a_path_is_not_taken_for_another_one(lake: Lakehouse) -> None:
    """The package reads `%25` in a path as `%`."""
    for name, size in (("a%252Fb", 1), ("a%2Fb", 2)):
        plain = Path(lake.location("gold/shop/plain"))
        write_deltalake(plain, pa.table({"id": list(range(size))}))
        plain.rename(plain.with_name(name))
    reader = LocalReader(lake)
    assert reader.count(lake.location("gold/shop/a%252Fb")) == 1
    assert reader.count(lake.location("gold/shop/a%2Fb")) == 2
    with pytest.raises(Unreadable):
        reader.rows(Query("gold/shop/a%252Fb", "SELECT * FROM {rows}"))


def test_one_reader_reads_one_version(lake: Lakehouse) -> None:
    reader, names = LocalReader(lake), query("SELECT `rows` FROM {rows}")
    assert len(reader.rows(names)) == 3
    write_deltalake(
        lake.location("ops/numbers"), pa.table({"rows": [7]}), mode="overwrite", schema_mode="overwrite"
    )
    assert len(reader.rows(names)) == 3
    assert LocalReader(lake).rows(names) == [{"rows": 7}]


def test_a_large_table_is_left_to_spark(lake: Lakehouse) -> None:
    with pytest.raises(Unreadable):
        LocalReader(lake, most_bytes=10).rows(query("SELECT * FROM {rows}"))


class Asked:
    """Stands for Spark, and notes what it was asked."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def exists(self, table: str) -> bool:
        raise AssertionError(table)

    def count(self, location: str) -> int:
        self.questions.append(location)
        return 12

    def logged_count(self, location: str) -> int | None:
        raise AssertionError(location)

    def rows(self, query: Query, **values: Value) -> list[Row]:
        self.questions.append(query.sql)
        return [{"answer": "of Spark", **values}]

    def own_location(self, noted: str | None) -> str | None:
        return noted

    def note(self, path: str) -> str | None:
        raise AssertionError(path)


def test_spark_starts_only_for_what_cannot_be_read_without_it(lake: Lakehouse) -> None:
    asked, started = Asked(), []

    def start() -> Asked:
        started.append(True)
        return asked

    tables = LocalFirst(LocalReader(lake), start)
    assert tables.rows(query("SELECT `rows` FROM {rows} WHERE `rows` = 2")) == [{"rows": 2}]
    assert not started
    unknown = query("SELECT a_function_of_spark(`rows`) FROM {rows}")
    assert tables.rows(unknown, first=1) == [{"answer": "of Spark", "first": 1}]
    assert tables.rows(unknown) == [{"answer": "of Spark"}]
    assert asked.questions == [unknown.sql] * 2
    assert len(started) == 1


def test_a_damaged_log_is_left_to_spark(lake: Lakehouse) -> None:
    log = Path(lake.location("ops/numbers")) / "_delta_log" / f"{0:020d}.json"
    log.write_text('{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}\n')
    tables = LocalFirst(LocalReader(lake), Asked)
    assert tables.rows(query("SELECT * FROM {rows}")) == [{"answer": "of Spark"}]


def test_a_note_is_the_text_of_a_file(lake: Lakehouse, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("kept")
    assert [LocalReader(lake).note(str(tmp_path / name)) for name in ("note", "none")] == ["kept", None]


def test_times_of_any_year_are_those_that_spark_has_written(spark: SparkSession, tmp_path: Path) -> None:
    moments = [datetime(1, 1, 1, tzinfo=UTC), MOMENT, datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
    lake = Lakehouse(str(tmp_path))
    lake.append(spark.createDataFrame([(moment,) for moment in moments], "at timestamp"), "ops/numbers")
    rows = LocalReader(lake).rows(query("SELECT `at` FROM {rows} ORDER BY `at`"))
    assert [row["at"] for row in rows] == moments
