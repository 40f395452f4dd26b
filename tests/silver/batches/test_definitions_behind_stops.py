"""What a new server says of its tables holds for no row before the message that stops the source."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.end_to_end.test_identity import TS, Topics
from tests.end_to_end.test_late_definitions import ID, line, price
from tests.large_batches import take_for_large

BYTES = "MDk="
"""The integer 12,345, of which only a definition tells the scale."""
SETTINGS = "format: debezium, decimals: base64"
EXCLUDED = "  - {match: shop.extra, exclude: true}"
FIRST, SECOND = (1, 9), (2, 5)
"""Of both servers the number, and the number of a file of the log."""
OF_FIRST = [(1, "DECIMAL(9,2)"), (1, "DECIMAL(9,3)")]
"""The epoch and the columns of the definitions of the excluded table by the first server."""


def written_by(server: tuple[int, int], table: str, pos: int) -> dict[str, Any]:
    number, file = server
    place = {"file": f"bin.{file:06d}", "pos": pos, "row": 0, "ts_ms": TS + number * 3_600_000 + pos}
    return {"connector": "mysql", "db": "shop", "table": table, "server_id": number, **place}


def definition(offset: int, source: Mapping[str, Any], scale: int) -> str:
    table = {"primaryKeyColumnNames": ["id"], "columns": [ID, price(scale)]}
    change = {"type": "ALTER", "id": f'"shop"."{source["table"]}"', "table": table}
    value = {"source": source, "databaseName": "shop", "ddl": "", "tableChanges": [change]}
    return line("crm", offset, {"databaseName": "shop"}, {**value, "ts_ms": source["ts_ms"]})


def row(offset: int, source: Mapping[str, Any]) -> str:
    after = {"id": offset, "price": BYTES}
    value = {"op": "c", "before": None, "after": after, "source": source, "ts_ms": source["ts_ms"]}
    return line(f"crm.shop.{source['table']}", offset, {"id": offset}, value)


def of_first() -> list[str]:
    """Two tables with two digits behind the point, one of which is excluded, and a row."""
    tables = [definition(n, written_by((1, 3), name, 154 + n), 2) for n, name in enumerate(("item", "extra"))]
    return [*tables, row(0, written_by((1, 3), "item", 300))]


def of_both() -> list[str]:
    """The last of the first server, and the second one, whose log is below it, with four digits."""
    last = [row(1, written_by(FIRST, "item", 500)), definition(2, written_by(FIRST, "extra", 501), 3)]
    tables = [
        definition(n + 3, written_by(SECOND, name, 157 + n), 4) for n, name in enumerate(("item", "extra"))
    ]
    return [*last, *tables, row(2, written_by(SECOND, "item", 300))]


def prices(topics: Topics) -> dict[int, str]:
    """The prices in silver, by the offset of their message."""
    changes = [change for change in topics.silver("changes") if change["kind"] == "row"]
    return {change["offset"]: dict(change["after"])["price"] for change in changes}


def defined(topics: Topics) -> list[tuple[str, int, str]]:
    """What `ops/encodings` has of definitions: the state, the epoch, and the scale of the column."""
    found = DeltaTable(f"{topics.folder}/lakehouse/ops/encodings").to_pyarrow_table().to_pylist()
    rows = [json.loads(row["modes"]) for row in found if row["state"] == "defined"]
    assert not [row for row in found if row["state"] == "redefined"]
    return sorted((position[0], columns[1][1]) for position, columns in rows)


@pytest.fixture(params=["in this process", "by Spark"])
def topics(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Topics:
    """A source that stopped at the first message of another server."""
    if request.param == "by Spark":
        take_for_large(monkeypatch)
    topics = Topics(tmp_path, capsys, {"feed": SETTINGS}, EXCLUDED)
    topics.land("feed", of_first())
    assert silver(topics) == 0
    topics.land("feed", of_both())
    assert silver(topics) == 1
    return topics


def silver(topics: Topics) -> int:
    return topics.command("run", "--through", "silver")[0]


@pytest.mark.slow
def test_a_row_before_the_stop_has_the_columns_that_its_own_server_defined(topics: Topics) -> None:
    assert prices(topics) == {0: "123.45", 1: "123.45"}
    assert defined(topics) == OF_FIRST
    shutil.rmtree(topics.folder / "lakehouse/ops/encodings")
    assert silver(topics) == 1
    assert defined(topics) == OF_FIRST
    topics.set_epoch(2)
    assert silver(topics) == 0
    assert prices(topics) == {0: "123.45", 1: "123.45", 2: "1.2345"}
    assert defined(topics) == [*OF_FIRST, (2, "DECIMAL(9,4)")]


@pytest.mark.slow
@pytest.mark.parametrize("command", [("rebuild", "shop.item", "--from", "bronze"), ("replay",)])
def test_the_command_that_begins_the_epoch_reads_no_row_before_it_by_its_definitions(
    topics: Topics, command: Sequence[str]
) -> None:
    topics.set_epoch(2)
    code, found = topics.command(*command)
    assert code == 0, found
    assert prices(topics) == {0: "123.45", 1: "123.45", 2: "1.2345"}
    assert defined(topics) == [*OF_FIRST, (2, "DECIMAL(9,4)")]
