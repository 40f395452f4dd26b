"""The definitions of tables that a batch brings hold in the epochs of their messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from framework.contracts.table_names import SCHEMAS_TABLE, STATEMENTS_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGES, SCHEMAS
from silver.batches.decoding import for_arrow
from silver.batches.table_definitions import known_definitions, plans_with_definitions
from silver.changes.decode import arrow_decoder
from silver.changes.staged_rows import STAGED_DDL, plain_rows
from silver.decoding.table_definitions import TableDefinition, definitions_by_table
from silver.formats import debezium
from silver.values.sequence import sequence_of
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


def test_the_definitions_of_earlier_batches_are_read_with_each_of_their_positions(
    spark: SparkSession,
) -> None:
    """The table was created anew with the same columns, and in between with others."""
    told = [(1, "item", "s1"), (2, "item", "s2"), (3, "item", "s1"), (4, "item", "s1"), (3, "order", "s1")]
    statements = [
        {"source": source, "database": "shop", "table": table, "sequence": place, "schema_id": schema}
        for source in ("feed", "other")
        for place, table, schema in (
            *((sequence_of(1, (place,), None), table, schema) for place, table, schema in told),
            (None, "item", "s2"),
            (sequence_of(1, (9,), None), "item", None),
        )
    ]
    nothing: dict[str, Any] = dict.fromkeys(CHANGES.names)
    kinds = {"s1": "INT", "s2": "BIGINT"}
    frames = {
        STATEMENTS_TABLE: spark.createDataFrame([nothing | row for row in statements], CHANGES),
        SCHEMAS_TABLE: spark.createDataFrame(
            [
                {"schema_id": schema, "columns": [{"name": "id", "declared": kind}, {"name": "n"}]}
                for schema, kind in kinds.items()
            ],
            SCHEMAS,
        ),
    }
    lake = Mock(rows=lambda _spark, table, _schema: frames[table])
    found = known_definitions(spark, lake, {"feed": plan(debezium.FORMAT)})
    wanted = (
        TableDefinition("shop", None, table, (1, place), (("id", kinds[schema]),))
        for place, table, schema in told
    )
    assert found == {"feed": definitions_by_table(wanted)}
