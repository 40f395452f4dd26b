from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from framework.contracts.table_schemas import MESSAGES
from silver.batches.decoding import for_arrow


def test_messages_without_headers_have_an_empty_list_on_their_way_to_the_tasks(spark: SparkSession) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    headers = [{"key": "__op", "value": bytearray(b"c")}]
    rows = [
        ("feed", "t", 0, number, now, None, bytearray(b"{}"), found, "a.txt", number, now)
        for number, found in enumerate((None, [], headers))
    ]
    messages = spark.createDataFrame(rows, MESSAGES)

    sent = for_arrow(messages)

    assert sent.schema["headers"].dataType == MESSAGES["headers"].dataType
    found = [row["headers"] for row in sent.orderBy("offset").collect()]
    assert [[header["key"] for header in each] for each in found] == [[], [], ["__op"]]
