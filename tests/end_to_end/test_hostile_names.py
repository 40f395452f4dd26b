"""Names and values that Spark would replace in a statement, or read as one, arrive as they were sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.naming import history_folder, quoted, replica_folder
from tests.end_to_end.test_blob_to_replica import Shop, message

REFERENCES = (
    "${env:PATH}",
    "${system:user.name}",
    "${spark.app.name}",
    "${hivevar:x}",
    "${hiveconf:x}",
    "${x}",
    "${spark.sql.${x}}",
)
ODD = ("a'b\\", 'a"b', "/* */ -- ;", "c) INT", "a\tb", "${", ":x", "?")


def rows(shop: Shop, folder: str) -> list[dict[str, object]]:
    found = shop.spark.read.format("delta").load(str(shop.folder / "lakehouse/gold" / folder)).collect()
    return [
        {name: text for name, text in row.asDict().items() if not name.startswith("_cdc_")} for row in found
    ]


@pytest.mark.long
@pytest.mark.spark
def test_references_in_names_defaults_and_values_are_what_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path, 'tables:\n  - {match: "*.*", history: true}\n')
    names = (*REFERENCES, *ODD)
    place = {"dbName": "${system:user.name}", "tableName": "${env:PATH}"}
    columns = [{"name": name, "type": "STRING"} for name in names]
    first, later = (
        {name: f"{name} {state}" for name in names} | {names[0]: names[0]} for state in ("1", "2")
    )
    insert, update = (
        message("INSERT", position, after=image, columns=columns, **place)
        for position, image in ((1, first), (3, later))
    )
    for each in (insert, update):
        each["schema"]["primaryKey"] = [names[0]]
    added = "ADD COLUMN `new ${env:PATH}` varchar(99) DEFAULT '${env:PATH}' COMMENT '${env:PATH}'"
    statement = message(
        "ALTER", 2, payload={"ddl": {"text": f"ALTER TABLE {quoted('${env:PATH}')} {added}"}}, **place
    )
    shop.land([insert])
    shop.run()
    shop.land([statement, update])
    shop.run()
    name = ("${system:user.name}", None, "${env:PATH}")
    assert {(table["state"], table["reason"]) for table in shop.status()["tables"]} == {("active", None)}
    assert rows(shop, replica_folder(*name)) == [{**later, "new ${env:PATH}": None}]
    assert len(rows(shop, history_folder(*name))) == 2
