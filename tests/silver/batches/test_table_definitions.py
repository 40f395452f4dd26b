"""The definitions of tables that a batch brings hold in the epochs of their messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from framework.contracts.table_schemas import MESSAGES
from silver.batches.decoding import for_arrow
from silver.batches.table_definitions import plans_with_definitions
from silver.changes.decode import arrow_decoder
from silver.changes.staged_rows import STAGED_DDL, plain_rows
from silver.formats import debezium
from tests.silver.changes.test_decode import plan

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


def _value(place: int, **more: Any) -> bytes:
    source = {"connector": "mysql", "db": "shop", "table": "item", "file": "bin.000001", "pos": place}
    return json.dumps({"source": {**source, "row": 0}, "ts_ms": 1, **more}).encode()


def _definition(place: int, kind: str) -> bytes:
    columns = [{"name": name, "typeName": kind} for name in ("id", "total")]
    table = {"primaryKeyColumnNames": ["id"], "columns": columns}
    change = {"type": "ALTER", "id": '"shop"."item"', "table": table}
    return _value(place, databaseName="shop", ddl="", tableChanges=[change])


def _row(place: int) -> bytes:
    return _value(place, op="c", before=None, after={"id": 1, "total": -1})


def test_a_definition_holds_in_the_epoch_of_its_message(spark: SparkSession) -> None:
    """Positions have begun anew in the second epoch, whose definition is below all of the first one."""
    values = [
        (1, _definition(300, "BIGINT")), (1, _row(320)),
        (2, _definition(100, "BIGINT UNSIGNED")), (2, _row(120)), (2, _row(320)),
    ]  # fmt: skip
    rows = [
        ("feed", "t", 0, number, None, None, value, None, None, None, NOON, epoch)
        for number, (epoch, value) in enumerate(values)
    ]
    columns = T.StructType([*MESSAGES.fields, T.StructField("epoch", T.IntegerType())])
    messages = spark.createDataFrame(rows, columns)
    plans = plans_with_definitions(messages, {"feed": plan(debezium.FORMAT, epoch=2)}, {}, {})
    decoded = for_arrow(messages).mapInArrow(arrow_decoder(plans), STAGED_DDL).where("kind = 'row'")
    found = plain_rows(decoded.orderBy("offset").toArrow())
    signed, unsigned = "-1", str(2**64 - 1)
    assert [row["after"]["total"] for row in found] == [signed, unsigned, unsigned]
