"""After `forget` and the removal of old files no file of the lakehouse holds the row's values."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, message

KEY, VALUE = "canary-key", "canary-value"
TEXT_KEY = [{**COLUMNS[0], "type": "STRING"}, *COLUMNS[1:]]
RULES = """tables:
  - {match: shop.item, history: true}
  - {match: shop.gated, history: true}
quality:
  rules:
    - {match: shop.item, regex: {column: name, pattern: "[a-z]+"}}
    - {match: shop.gated, regex: {column: name, pattern: "[a-z]+"}, gate: true}
"""


def row(key: str, name: str) -> dict[str, object]:
    return {"id": key, "name": name, "price": 1.0}


def change(sequence: int, key: str, name: str, table: str) -> dict[str, object]:
    return message("INSERT", sequence, after=row(key, name), columns=TEXT_KEY, tableName=table)


def query(sequence: int) -> dict[str, object]:
    """The statement of a row, which some writers send beside the row itself."""
    text = f"INSERT INTO item VALUES ('{KEY}', '{VALUE}', 1.0)"
    return message("QUERY", sequence, payload={"ddl": {"text": text}}, tableName="item")


@pytest.mark.long
def test_no_file_holds_a_forgotten_row(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, RULES)
    file = str(shop.folder / "mainstem.yml")
    shop.land([change(1, "a", "pen", "item"), change(2, "b", "pen", "gated"), change(3, KEY, VALUE, "item")])
    assert main(["run", "-c", file]) == 3
    shop.land([change(4, KEY, VALUE, "gated"), change(5, "c", "ink", "item"), *2 * [query(6)]])
    assert main(["run", "-c", file]) == 3
    assert {place.parts[0] for place in holding(shop.folder / "lakehouse")} == {
        "bronze",
        "silver",
        "gold",
        "ops",
        "_mainstem",  # what the quality step keeps
    }

    for table in ("shop.item", "shop.gated"):
        assert main(["forget", table, f"id={KEY}", "-c", file]) == 0
        capsys.readouterr()
    remove_old_files(spark, shop.folder / "lakehouse")

    # the log of a replica keeps the least and greatest key of former files until Delta removes its old
    # entries
    kept = [
        place
        for place in holding(shop.folder / "lakehouse")
        if place.parts[0] != "gold" or "_delta_log" not in place.parts
    ]
    assert kept == []
    assert VALUE not in "".join(
        file.read_text() for file in (shop.folder / "lakehouse").rglob("_delta_log/*.json")
    )


def remove_old_files(spark: SparkSession, lakehouse: Path) -> None:
    """What `maintain` does after a week."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        for log in lakehouse.rglob("_delta_log"):
            spark.sql(f"VACUUM delta.`{log.parent}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def holding(lakehouse: Path) -> Iterator[Path]:
    """The files below a folder that hold the key or the value, Parquet read as rows."""
    for file in sorted(path for path in lakehouse.rglob("*") if path.is_file()):
        if file.suffix == ".parquet":
            text = json.dumps(pq.ParquetFile(file).read().to_pylist(), default=repr)
        else:
            content = file.read_bytes()
            text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode(
                "utf-8", "replace"
            )
        if KEY in text or VALUE in text:
            yield file.relative_to(lakehouse)
