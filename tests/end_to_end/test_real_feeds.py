"""Feeds of other writers in one pipeline: their decoded changes reach the replicas, and the counts add up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.report.collect import collect
from framework.report.summary import parts, totals
from gold.layer import LAYER as GOLD
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_blob_to_replica import item, message

CONFIGURATION = """
pipeline: feeds
lakehouse: ./lakehouse
quality: false
sources:
  blob: {format: datahub_blob, files: ./in/blob}
  dms: {format: dms, files: ./in/dms}
  price: {format: datahub_tuple, files: ./in/price, table: price}
  tidb: {format: debezium, files: ./in/tidb, layout: kcat}
  vitess: {format: debezium, files: ./in/vitess, layout: kcat}
tables:
  - {match: p.t, keys: [id]}
  - {match: price.price, keys: [sku]}
"""
TICDC = {"connector": "TiCDC", "db": "shop", "snapshot": "false", "ts_ms": 1709200800000}
COLUMN = {"name": "id", "typeName": "INT", "typeExpression": "INT", "optional": False}


def kcat(messages: Sequence[tuple[Any, Any]]) -> list[str]:
    def text(value: Any) -> str | None:
        return None if value is None else json.dumps(value)

    lines = [
        {"topic": "t", "partition": 0, "offset": n, "key": text(key), "payload": text(value)}
        for n, (key, value) in enumerate(messages)
    ]
    return [json.dumps(line) for line in lines]


def ticdc(op: str, place: int, table: str, number: int, name: str) -> tuple[Any, Any]:
    source = {**TICDC, "table": table, "commit_ts": place}
    return {"id": number}, {
        "op": op,
        "before": None,
        "after": {"id": number, "name": name},
        "source": source,
        "ts_ms": 1709200800100,
    }


def renamed(place: int) -> tuple[Any, Any]:
    change = {
        "type": "ALTER",
        "id": '"shop"."t1","shop"."t2"',
        "table": {"primaryKeyColumnNames": ["id"], "columns": [COLUMN]},
    }
    source = {**TICDC, "table": "t2", "commit_ts": place}
    return None, {
        "source": source,
        "databaseName": "shop",
        "ddl": "RENAME TABLE t1 TO t2",
        "tableChanges": [change],
    }


def vitess(op: str, place: int, before: Any, after: Any) -> tuple[Any, Any]:
    sets = json.dumps([{"keyspace": "ks", "shard": "0", "gtid": f"MariaDB/0-1592148-{place}"}])
    source = {
        "connector": "vitess",
        "keyspace": "ks",
        "table": "v",
        "shard": "0",
        "vgtid": sets,
        "ts_ms": 1709200800000,
    }
    return {"id": (before or after)["id"]}, {
        "op": op,
        "before": before,
        "after": after,
        "source": source,
        "ts_ms": 1709200800100,
    }


def dms(number: int) -> str:
    metadata = {"timestamp": f"2024-07-29T00:58:4{number}Z", "record-type": "data", "operation": "insert"}
    return json.dumps(
        {
            "data": {"id": number, "BI_id": None},
            "metadata": {**metadata, "schema-name": "p", "table-name": "t"},
        }
    )


def loaded(number: int) -> str:
    return json.dumps(
        message("INSERT", "-1", after=item(number, "full", 1.0), payload={"timestamp": {"eventTime": -1}})
    )


FEEDS = {
    "blob": [
        *(loaded(number) for number in (1, 2, 3)),
        json.dumps(message("UPDATE_BEFOR", 7, before=item(2, "full", 1.0))),
        json.dumps(message("UPDATE_AFTER", 7, after=item(2, "new", 2.0))),
        json.dumps(message("DELETE", 8, before=item(3, "full", 1.0))),
    ],
    "dms": [dms(1), dms(2)],
    "price": [
        '{"_sequence_id_":"5","_operation_type_":"I","_execute_time_":"1709283709500","_before_image_":"N","_after_image_":"Y","sku":"a","price":1.5}'
    ],
    "tidb": kcat(
        [
            ticdc("c", 1, "t1", 1, "stays"),
            ticdc("c", 2, "t1", 2, "old"),
            renamed(3),
            ticdc("u", 4, "t2", 2, "new"),
        ]
    ),
    "vitess": kcat(
        [
            vitess("c", 44, None, {"id": 2, "n": 1}),
            vitess("d", 45, {"id": 2, "n": 1}, None),
            vitess("c", 46, None, {"id": 2, "n": 2}),
        ]
    ),
}


@pytest.fixture
def work(spark: SparkSession, tmp_path: Path) -> Run:
    for name, lines in FEEDS.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "feed.jsonl").write_text("\n".join(lines))
    (tmp_path / "mainstem.yml").write_text(CONFIGURATION)
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    return Run(spark, Lakehouse(config.root), config, "run")


def rows(work: Run, table: str) -> list[dict[str, Any]]:
    found = DeltaTable(f"{work.lake.root}/gold/{table}").to_pyarrow_table().to_pylist()
    plain = [{name: value for name, value in row.items() if not name.startswith("_cdc_")} for row in found]
    return sorted(plain, key=lambda row: str(row.get("id")))


@pytest.mark.long
def test_feeds_of_other_writers_reach_their_replicas_and_the_counts_add_up(work: Run) -> None:
    reports = [layer.run(work) for layer in (BRONZE, SILVER, GOLD)]
    assert [error for report in reports for error in report.errors] == []
    assert rows(work, "shop/item") == [item(1, "full", 1.0), item(2, "new", 2.0)]
    assert rows(work, "shop/t2") == [{"id": 1, "name": "stays"}, {"id": 2, "name": "new"}]
    assert rows(work, "ks/v") == [{"id": 2, "n": 2}]
    assert [row["sku"] for row in rows(work, "price/price")] == ["a"]
    (note,) = reports[1].notes
    assert note.startswith(
        "source dms: the columns of p.t show that a setting is missing: write `before_image_prefix: BI_`"
    )

    status = {key: value for layer in (BRONZE, SILVER, GOLD) for key, value in layer.status(work).items()}
    assert (status["messages"], status["changes"], status["merged_halves"], status["without_fate"]) == (
        16,
        14,
        1,
        0,
    )
    assert status["control_events"] - status["further_rows"] == 1, (
        "a rename is a row for each of its two names"
    )
    assert {table["table"]: table["state"] for table in status["tables"]} == {
        **dict.fromkeys(("item", "price", "t", "t2", "v"), "active"),
        "t1": "dropped",
    }

    report = collect(work)
    sums = totals(report)
    assert (sums.messages, sums.without_fate, sums.further_rows) == (16, 0, 1)
    assert parts(report).total() - sums.further_rows == 16
