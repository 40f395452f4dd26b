"""Rows are forgotten of tables that have no row now: of the tables before them, and what was kept out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_forget import SECRET, holding
from tests.end_to_end.test_repair import command

SETTINGS = """\
quality:
  rules:
    - {match: shop.refused, range: {column: price, max: 100}, on_change: quarantine}
"""


def created(table: str, columns: str = "id BIGINT PRIMARY KEY, name VARCHAR(20), price DOUBLE") -> str:
    return f"CREATE TABLE {table} ({columns})"


def statements(table: str, *texts: str) -> list[dict[str, Any]]:
    return [
        message("ALTER", 2 + number, payload={"ddl": {"text": text}}, tableName=table)
        for number, text in enumerate(texts)
    ]


def secret(table: str, sequence: int = 1, price: float = 1.0) -> dict[str, Any]:
    return message("INSERT", sequence, after=item(7, SECRET, price), tableName=table)


FEEDS = {
    "again": [secret("again"), *statements("again", "DROP TABLE again", created("again"))],
    "nameless": [
        secret("nameless"),
        *statements("nameless", "DROP TABLE nameless", "CREATE TABLE nameless LIKE again"),
    ],
    "twice": [
        secret("twice"),
        *statements(
            "twice", "DROP TABLE twice", created("twice", "no BIGINT PRIMARY KEY"), "DROP TABLE twice"
        ),
    ],
    "refused": [*statements("refused", created("refused")), secret("refused", 5, 400.0)],
    "waiting": [
        *statements("waiting", created("waiting")),
        message("UPDATE_BEFOR", 5, before=item(7, SECRET, 1.0), tableName="waiting"),
    ],
}


@pytest.mark.slow
def test_a_row_is_forgotten_of_a_table_that_has_no_row_now(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, SETTINGS)
    file = str(shop.folder / "mainstem.yml")
    shop.land([each for feed in FEEDS.values() for each in feed])
    assert main(["run", "-c", file]) == 0
    for words, code, error in (
        (("again", "name=x"), 2, "KEY_NEEDED"),
        (("nameless", "name=x"), 2, "KEY_NEEDED"),
        (("twice", "no=8"), 1, "NOTHING_TO_FORGET"),
    ):
        assert main(["forget", f"shop.{words[0]}", words[1], "-c", file]) == code
        assert error in capsys.readouterr().err
    for table in FEEDS:
        key = "no=7" if table == "twice" else "id=7"
        code, output = command(shop, capsys, "forget", f"shop.{table}", key)
        assert (code, output["forgotten"]["bronze"]) == (0, {"messages": 1}), table
    assert main(["forget", "shop.waiting", "id=7", "-c", file]) == 1
    assert "NOTHING_TO_FORGET" in capsys.readouterr().err
    assert not holding(shop, SECRET)
