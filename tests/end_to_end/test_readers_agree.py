"""Without a JVM a local lakehouse gives the answers of Spark: query by query, and command by command."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from string import Formatter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.model import Config, load_config
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    QUALITY_RESULTS_TABLE,
    QUARANTINE_TABLE,
    RUNS_TABLE,
)
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.lakehouse.local_reader import LocalFirst, LocalReader, Unreadable
from framework.lakehouse.spark_reader import SparkReader
from framework.lakehouse.table_reader import Query, Row, TableReader
from framework.pipeline.layer import Reading
from framework.pipeline.message_counts import accounts
from framework.pipeline.status import read_status
from framework.report.collect import collect
from framework.report.json_document import document
from silver.layer import LAYER as SILVER
from tests.archives import unpack
from tests.end_to_end.test_without_java import ARCHIVE, ROOT

VALUES: dict[str, Any] = {
    "batch": 0,
    "first": 0,
    "applied": 0,
    "since": 0,
    "ids": ("a", "b"),
    "offsets": tuple(range(12)),
    "source": "shop",
    "forgotten": FORGOTTEN,
}
"""A value for each parameter of any query."""


def queries() -> Iterator[tuple[str, Query]]:
    """Every query of the code."""
    for package in ("framework", "bronze", "silver", "gold"):
        for file in sorted((ROOT / package).rglob("*.py")):
            if "import Query" not in file.read_text(encoding="utf-8") or "/lakehouse/" in str(file):
                continue
            module = import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
            found = {name: value for name, value in vars(module).items() if isinstance(value, Query)}
            yield from ((f"{module.__name__}.{name}", query) for name, query in found.items())


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A lakehouse of earlier code: it has history, halves that wait, and messages in quarantine."""
    folder = tmp_path_factory.mktemp("kept")
    unpack(ARCHIVE, folder)
    return load_config(folder / "mainstem.yml", formats=SILVER.options())


@pytest.fixture(scope="module")
def lake(spark: SparkSession, config: Config) -> Lakehouse:
    """The lakehouse, with what Delta can do to a table: deleted rows, renamed, added and moved columns."""
    lake = Lakehouse(config.root)
    name = {
        table: sql_name(lake.location(table)) for table in (BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE)
    }
    for table in (BATCHES_TABLE, CHANGES_TABLE):
        spark.sql(f"ALTER TABLE {name[table]} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {name[BATCHES_TABLE]} WHERE kind = 'duplicate'")
    spark.sql(f"DELETE FROM {name[CHANGES_TABLE]} WHERE kind = 'heartbeat'")
    spark.sql(f"ALTER TABLE {name[QUARANTINE_TABLE]} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {name[QUARANTINE_TABLE]} RENAME COLUMN detail TO former")
    spark.sql(f"ALTER TABLE {name[QUARANTINE_TABLE]} ADD COLUMN detail string")
    results = lake.read(spark, QUALITY_RESULTS_TABLE).limit(1)
    lake.append(
        results.selectExpr("*", "'more' AS later"), QUALITY_RESULTS_TABLE, properties={"mergeSchema": "true"}
    )
    return lake


def key_of(row: Row) -> str:
    return repr(sorted(row.items()))


def test_every_parameter_has_a_value() -> None:
    needed = {
        parameter
        for _, query in queries()
        for _, parameter, _, _ in Formatter().parse(query.sql)
        if parameter and parameter != "rows"
    }
    assert needed == VALUES.keys()


@pytest.mark.slow
def test_every_query_has_the_same_answer(spark: SparkSession, lake: Lakehouse) -> None:
    with_spark, local = SparkReader(spark, lake), LocalReader(lake)
    answered = 0
    for name, query in queries():
        values = {key: value for key, value in VALUES.items() if f"{{{key}}}" in query.sql}
        expected, found = with_spark.rows(query, **values), local.rows(query, **values)
        if "ORDER BY" not in query.sql.rpartition("FROM")[2]:
            expected, found = sorted(expected, key=key_of), sorted(found, key=key_of)
        assert list(found) == list(expected), name
        answered += bool(found)
    assert answered >= 15


@pytest.mark.slow
def test_every_command_says_the_same(spark: SparkSession, lake: Lakehouse, config: Config) -> None:
    def said(tables: TableReader) -> tuple[Any, ...]:
        view = Reading(lake, config, tables)
        report = dataclasses.replace(collect(view), generated_at=datetime(2030, 1, 1, tzinfo=UTC))
        return read_status(view), document(report), sorted(map(repr, accounts(tables)))

    found = said(LocalReader(lake))
    assert found == said(SparkReader(spark, lake))
    assert found[0]["quarantined"] == {"truncated": 1, "unknown_op": 1}


def test_a_table_that_only_spark_can_read_is_read_by_spark(
    spark: SparkSession, lake: Lakehouse, config: Config
) -> None:
    runs = sql_name(lake.location(RUNS_TABLE))
    spark.sql(f"ALTER TABLE {runs} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    spark.sql(f"ALTER TABLE {runs} ADD COLUMN width int")
    spark.sql(f"ALTER TABLE {runs} ALTER COLUMN width TYPE bigint")
    query = Query(RUNS_TABLE, "SELECT `run_id` FROM {rows}")
    with pytest.raises(Unreadable):
        LocalReader(lake).rows(query)
    (run,) = LocalFirst(LocalReader(lake), lambda: SparkReader(spark, lake)).rows(query)
    assert run["run_id"]
    assert LocalReader(lake).count(lake.location(RUNS_TABLE)) == 1


def test_the_parameter_of_a_query_is_never_sql(spark: SparkSession, lake: Lakehouse) -> None:
    one = Query(BATCHES_TABLE, "SELECT max({text}) AS `text` FROM {rows}")
    for reader in (SparkReader(spark, lake), LocalReader(lake)):
        assert reader.rows(one, text="shop-1_A") == [{"text": "shop-1_A"}]
        for text in ("it's", "${x}", "{rows}", "a\\", "a b"):
            with pytest.raises(ValueError, match="parameter text"):
                reader.rows(one, text=text)
