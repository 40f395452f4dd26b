"""Two sources with tables of one name, as the shards of a database: each has a replica of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_identity import Topics, item, kcat, mysql

pytestmark = pytest.mark.slow
_SHARDS = {"shard_1": "format: debezium", "shard_2": "format: debezium"}


def _configure(topics: Topics, *entries: str) -> None:
    file = topics.folder / "mainstem.yml"
    text = file.read_text().partition("tables:")[0]
    file.write_text(
        text + "".join(["tables:\n", *(f"  - {{match: shop.item, {entry}}}\n" for entry in entries)])
    )


def _names(topics: Topics, table: str) -> dict[int, str]:
    return {row["id"]: row["name"] for row in topics.rows(table)}


def _traced(topics: Topics, table: str) -> list[Any]:
    code, found = topics.command("trace", table, "id=1")
    assert code == 0
    return [change["after"]["name"] for change in found["changes"]]


def test_an_entry_of_one_source_gives_its_table_a_place_of_its_own(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, _SHARDS)
    for number, shard in enumerate(_SHARDS, 1):
        topics.land(shard, [mysql(n, item(n, f"of shard {number}")) for n in (1, 2)])
    code, report = topics.command("run")
    assert code == 3  # a table is parked
    assert "`- {match: shop.item, source: shard_2, replica: " in str(report)

    _configure(topics, "source: shard_2, replica: shard_2.item")
    assert topics.command("run")[0] == 0
    assert _names(topics, "shop/item") == {1: "of shard 1", 2: "of shard 1"}
    assert _names(topics, "shard_2/item") == {1: "of shard 2", 2: "of shard 2"}
    assert _traced(topics, "shop.item") == ["of shard 1"]
    assert _traced(topics, "shard_2.item") == ["of shard 2"]
    topics.status()

    _configure(topics, "source: shard_1, replica: shard_1.item", "source: shard_2, replica: shard_2.item")
    assert topics.command("run", "--table", "shard_1.item")[0] == 0
    assert _names(topics, "shard_1/item") == {1: "of shard 1", 2: "of shard 1"}
    assert main(["trace", "shop.item", "id=1", "-c", str(tmp_path / "mainstem.yml")]) == 2
    refused = capsys.readouterr().err
    assert "TABLE_AMBIGUOUS" in refused
    assert "shard_1.item, shard_2.item" in refused
    code, refused = topics.command("sql", "SELECT * FROM shop.item")
    assert code == 2
    assert "TABLE_AMBIGUOUS" in refused
    assert "shard_1.item, shard_2.item" in refused
    code, found = topics.command("sql", "SELECT DISTINCT name FROM shard_2.item")
    assert (code, found["rows"]) == (0, [{"name": "of shard 2"}])
    code, found = topics.command("rebuild", "shard_2.item", "--from", "bronze")
    assert (code, found["counts"]["messages"]) == (0, 2)
    assert topics.command("forget", "shard_2.item", "id=1")[0] == 0
    assert (set(_names(topics, "shard_1/item")), set(_names(topics, "shard_2/item"))) == ({1, 2}, {2})


def test_keys_and_exclusion_of_one_source_are_not_those_of_the_other(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, {"one": "format: maxwell", "other": "format: maxwell"})
    row = {"database": "shop", "table": "item", "type": "insert", "ts": 1_700_000_000}
    for source in ("one", "other"):
        rows = [row | {"position": f"bin.000001:{n}", "data": {"id": 1, "line": n}} for n in (1, 2)]
        topics.land(source, [kcat(n, value) for n, value in enumerate(rows)])
    _configure(topics, "source: one, keys: [id]", "source: other, exclude: true")
    assert topics.command("run")[0] == 0
    assert topics.rows("shop/item") == [{"id": 1, "line": 2}]
    assert topics.command("rebuild", "shop.item", "--from", "bronze")[0] == 0
    _configure(topics, "source: one, keys: [id], exclude: true", "source: other, keys: [id, line]")
    assert topics.command("rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert topics.command("run")[0] == 0
    found = topics.rows("shop/item")
    assert sorted(row["line"] for row in found) == [1, 2]
