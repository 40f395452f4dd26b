"""Which columns of rows without types look encoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.table_schemas import CHANGES, SCHEMAS
from silver.layer import LAYER
from silver.operations.encoded_columns import encoded_columns, encoding_of


@pytest.mark.parametrize(
    ("name", "token", "values", "expected"),
    [
        ("price", "text", ["AOM=", None, "AQ=="], "base64"),
        ("name", "null,text", ["AQ==", "joe"], None),
        ("name", "text", ["abcd"], None),  # a word
        ("note", "text", ["AR=="], None),  # base64 ends with zero bits
        ("made", "number", ["1709210096123"], "a time in milliseconds"),
        ("made", "number", ["1709210096123456", "1709210096000000"], "a time in microseconds"),
        ("made_at", "number", ["1709210096123456789"], "a time in nanoseconds"),
        ("post", "number", ["1709210096123456789"], None),  # an id of a social network
        ("birthday", "null,number", ["19000"], "a date in days"),
        ("day", "number", ["31"], None),
        ("total", "number", ["19000"], None),
        ("day", "number", ["19000", "19000.5"], None),
        ("day", "number", [None], None),
        ("day", "json", ["[19000]"], None),
    ],
)
def test_a_column_looks_encoded_by_all_its_values(
    name: str, token: str, values: Sequence[str | None], expected: str | None
) -> None:
    assert encoding_of(name, token, values) == expected


def test_columns_without_a_type_are_named_with_their_table(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    rule = "tables: [{match: shop.item, columns: {made: {type: timestamp}}}]"
    sources = "feed: {format: debezium, files: ./in}, other: {format: canal, files: ./other}"
    file.write_text(f"pipeline: shop\nlakehouse: ./lake\nsources: {{{sources}}}\n{rule}\n")
    config = load_config(file, formats=LAYER.options())
    columns = [(name, None, None, "number") for name in ("id", "day", "made")]
    declared = [("day", "date", "DATE", None)]
    schemas = spark.createDataFrame([("open", columns, 0), ("declared", declared, 0)], SCHEMAS)

    def change(source: str, table: str, schema: str, number: int) -> tuple[object, ...]:
        row: dict[str, object] = dict.fromkeys(CHANGES.names)
        row |= {"kind": "row", "source": source, "database": "shop", "table": table, "schema_id": schema}
        after = {"id": "19000", "day": "19001", "made": "1709210096123"}
        return tuple((row | {"sequence": str(number), "keys": ["id"], "after": after}).values())

    rows = [change("feed", "item", "open", n) for n in range(3)]
    rows += [change("feed", "plain", "declared", 3), change("other", "item", "open", 4)]
    (note,) = encoded_columns(spark.createDataFrame(rows, CHANGES), schemas, config)
    assert note.startswith(
        "source feed: the rows of shop.item declare no types, and these columns look encoded:"
        " day (a date in days);"
    )
    assert encoded_columns(spark.createDataFrame(rows[3:], CHANGES), schemas, config) == ()
