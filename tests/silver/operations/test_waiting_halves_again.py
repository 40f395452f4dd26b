"""A half that waits while its table is decoded again meets its other half with the new reading."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from silver.job import rebuild_silver
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_blob_to_replica import Shop, item, message

READING = "tables:\n  - {match: shop.item, columns: {name: {decode: utf8}}}\n"


COLUMNS = [
    {"name": "id", "type": "LONG"},
    {"name": "name", "type": "BYTES"},
    {"name": "price", "type": "DOUBLE"},
]


def encoded(number: int, name: str) -> dict[str, Any]:
    return item(number, base64.b64encode(name.encode()).decode(), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("waits", ["UPDATE_BEFOR", "UPDATE_AFTER"])
def test_a_half_that_waits_is_read_anew(spark: SparkSession, tmp_path: Path, waits: str) -> None:
    shop = Shop(spark, tmp_path)
    images = {"UPDATE_BEFOR": {"before": encoded(1, "pen")}, "UPDATE_AFTER": {"after": encoded(1, "ink")}}
    (late,) = images.keys() - {waits}
    shop.land(
        [
            message("INSERT", 1, after=encoded(1, "pen"), columns=COLUMNS),
            message(waits, 2, **images[waits], columns=COLUMNS),
        ]
    )
    shop.run()
    file = tmp_path / "mainstem.yml"
    file.write_text(file.read_text(encoding="utf-8") + READING, encoding="utf-8")
    shop.config = load_config(file, formats=SILVER.options())
    assert rebuild_silver(spark, shop.lake, shop.config, "shop.item").messages == 2
    shop.land([message(late, 2, **images[late], columns=COLUMNS)])
    shop.run()
    (update,) = shop.lake.read(spark, "silver/changes").where("op = 'update' AND kind = 'row'").collect()
    assert (update["before"]["name"], update["after"]["name"]) == ("pen", "ink")
    assert shop.rows("shop/item") == {1: item(1, "ink", 1.0)}
