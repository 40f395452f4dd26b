"""A replica against dumps of its source: each kind of dump shows the same differences,
named by their keys.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.config.quality import Snapshot
from framework.contracts.expectations import Rule
from framework.quality.table_checks import compare_snapshot, read_snapshot

DUMP = "id bigint, name string, price decimal(8,2)"
NAMES = "id bigint, first string, second string"


def test_every_kind_of_dump_shows_the_same_differences(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1L, 'pen', 1.50BD), (2L, 'ink', 9.90BD), (3L, null, 0.25BD), (5L, 'cap', "
        "3.00BD) AS t(id, name, price)"
    )
    dump = spark.sql(
        "SELECT * FROM VALUES (1L, 'pen', 1.50BD), (2L, 'ink', 9.91BD), (3L, null, 0.25BD), (4L, 'nib', "
        "7.00BD) AS t(id, name, price)"
    )
    dump.write.option("header", "true").csv(str(tmp_path / "csv"))
    dump.write.parquet(str(tmp_path / "parquet"))
    dump.write.format("delta").save(str(tmp_path / "delta"))
    url = "jdbc:derby:memory:dump"  # the database that Spark brings along, in this process
    dump.write.jdbc(f"{url};create=true", "item")
    query = 'SELECT "id", "name", "price" FROM item'
    snapshots = [
        *(Snapshot(format=kind, path=str(tmp_path / kind)) for kind in ("csv", "parquet", "delta")),
        Snapshot(format="jdbc", options={"url": url, "query": query}),
    ]

    for snapshot in snapshots:
        found = compare_snapshot(
            rows,
            read_snapshot(spark, snapshot),
            Rule("snapshot", "snapshot", snapshot=snapshot),
            ["id"],
            "shop.item",
        )
        keys = ("id=2: differs in price", "id=4: not in the replica", "id=5: not in the snapshot")
        assert (snapshot.format, found.keys, found.failed, found.checked) == (snapshot.format, keys, 3, 5)
        assert found.detail == "trace a key: mainstem trace shop.item id=2"


def test_null_differs_from_every_text(spark: SparkSession) -> None:
    """Also from the character U+0000, and in which of two columns it is matters."""
    rows = spark.createDataFrame(
        [(1, None, "a"), (2, "\0", "a"), (3, None, "x"), (4, "x", None), (5, None, None)], NAMES
    )
    dump = spark.createDataFrame(
        [(1, "\0", "a"), (2, None, "a"), (3, "x", None), (4, "x", None), (5, None, None)], NAMES
    )
    found = compare_snapshot(rows, dump, Rule("snapshot", "snapshot"), ["id"], "shop.item")
    assert found.keys == (
        "id=1: differs in first",
        "id=2: differs in first",
        "id=3: differs in first, second",
    )


def test_values_of_the_dump_are_not_rounded_before_they_are_compared(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT id, 1 AS n, IF(id = 9, null, 10.00BD) AS price, date'2024-01-01' AS day, 0.1F AS rough "
        "FROM VALUES (0), (1), (2), (3), (4), (9) AS t(id)"
    ).selectExpr("*", "price AS cost", "CAST(price AS double) AS total")
    typed = spark.sql(
        "SELECT CAST(id AS bigint) AS id, IF(id = 1, 1.4BD, 1.0BD) AS n, 0.1D AS rough, 10.000BD AS total, "
        "CASE id WHEN 2 THEN 9.999BD WHEN 9 THEN 9.999BD ELSE 10.000BD END AS price, 10D AS cost, "
        "IF(id = 3, timestamp'2024-01-01 23:00:00', timestamp'2024-01-01') AS day "
        "FROM VALUES (0), (1), (2), (3), (4), (9) AS t(id)"
    ).selectExpr("* EXCEPT (cost)", "IF(id = 9, null, IF(id = 4, 9.999D, cost)) AS cost")
    texts = typed.selectExpr(*(f"CAST({name} AS string) AS {name}" for name in typed.columns))
    for dump in (typed.selectExpr("* EXCEPT (total)"), texts.selectExpr("* EXCEPT (total)")):
        found = compare_snapshot(rows, dump, Rule("snapshot", "snapshot"), ["id"], "shop.item")
        assert found.keys == (
            "id=1: differs in n",
            "id=2: differs in price",
            "id=3: differs in day",
            "id=4: differs in cost",
            "id=9: differs in price",
        )
    found = compare_snapshot(
        rows, typed.select("id", "total"), Rule("snapshot", "snapshot"), ["id"], "shop.item"
    )
    assert found.keys == ("id=9: differs in total",)


def test_a_key_that_does_not_fit_is_not_in_the_replica(spark: SparkSession) -> None:
    rows, dump = spark.sql("SELECT 2 AS id"), spark.sql("SELECT 2 AS id UNION ALL SELECT 1.5BD")
    found = compare_snapshot(rows, dump, Rule("snapshot", "snapshot"), ["id"], "shop.item")
    assert found.keys == ("id=1.5 does not fit: not in the replica",)
