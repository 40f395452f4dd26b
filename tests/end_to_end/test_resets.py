"""Servers that write one log in turn, and long transactions, are no reset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from framework.cli import main

NOON = 1_700_000_000_000
MINUTE = 60_000


class Feed:
    """A pipeline over Debezium's messages, a file a run."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.files, self.offset = folder, capsys, 0, 0
        (folder / "feed").mkdir()
        self.configure(1)

    def configure(self, epoch: int) -> None:
        source = f"{{epoch: {epoch}, format: debezium, layout: kcat, files: ./feed}}"
        text = f"pipeline: shop\nlakehouse: ./lakehouse\nquality: false\nsources:\n  feed: {source}\n"
        (self.folder / "mainstem.yml").write_text(text, encoding="utf-8")

    def run(self, changes: Sequence[tuple[int, Mapping[str, Any]]]) -> tuple[int, Any]:
        """Lands an insert for each id and `source`; returns the exit code and the errors."""
        if changes:
            self.files += 1
            lines = [self._line(number, source) for number, source in changes]
            hidden = self.folder / "feed" / f".{self.files:02d}"
            hidden.write_text("".join(lines), encoding="utf-8")
            hidden.rename(self.folder / "feed" / f"{self.files:02d}.jsonl")
        self.capsys.readouterr()
        code = main(["run", "-c", str(self.folder / "mainstem.yml"), "--json"])
        return code, self.capsys.readouterr().out

    def _line(self, number: int, source: Mapping[str, Any]) -> str:
        value = {
            "op": "c",
            "before": None,
            "after": {"id": number},
            "source": source,
            "ts_ms": source["ts_ms"],
        }
        place = {"topic": "shop.item", "partition": 0, "offset": self.offset, "ts": source["ts_ms"]}
        self.offset += 1
        message = {**place, "key": json.dumps({"id": number}), "payload": json.dumps(value)}
        return f"{json.dumps(message)}\n"

    def ids(self) -> list[int]:
        found = DeltaTable(str(next((self.folder / "lakehouse/gold").rglob("item")))).to_pyarrow_table()
        return sorted(found["id"].to_pylist())

    def epochs(self) -> list[int]:
        found = DeltaTable(str(self.folder / "lakehouse/silver/changes")).to_pyarrow_table().to_pylist()
        return [row["epoch"] for row in sorted(found, key=lambda row: (row["offset"], row["ordinal"]))]


def mysql(number: int, server: int, pos: int, minute: int) -> tuple[int, dict[str, Any]]:
    place = {"connector": "mysql", "db": "shop", "table": "item", "server_id": server, "file": "bin.000007"}
    return number, {**place, "pos": pos, "row": 0, "ts_ms": NOON + minute * MINUTE}


def postgres(number: int, lsn: int, transaction: int, minute: int) -> tuple[int, dict[str, Any]]:
    place = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "item"}
    return number, {**place, "lsn": lsn, "txId": transaction, "ts_ms": NOON + minute * MINUTE}


@pytest.mark.long
def test_two_servers_in_turn_stop_only_where_positions_fall(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Turns inside a run, and turns of a run each; then the log begins again under the other server."""
    feed = Feed(tmp_path, capsys)
    assert feed.run([mysql(1, 1, 100, 0), mysql(2, 2, 101, 0), mysql(3, 1, 102, 0)])[0] == 0
    assert feed.run([mysql(4, 2, 200, 1), mysql(5, 2, 201, 1)])[0] == 0
    assert feed.run([mysql(6, 1, 300, 2), mysql(7, 1, 301, 2)])[0] == 0
    code, report = feed.run([mysql(8, 2, 400, 3), mysql(9, 1, 4, 5), mysql(10, 2, 5, 6)])
    assert code == 1
    assert "SOURCE_RESET" in report
    assert feed.ids() == [1, 2, 3, 4, 5, 6, 7, 8]
    feed.configure(2)
    assert feed.run([mysql(11, 1, 6, 7)])[0] == 0
    assert feed.ids() == [*range(1, 12)]
    assert feed.epochs() == [1] * 8 + [2] * 3


@pytest.mark.long
def test_a_new_server_stops_once_and_its_turns_afterwards_never(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second primary first writes in a run of its own: that may be a reset; later both are known."""
    feed = Feed(tmp_path, capsys)
    assert feed.run([mysql(1, 1, 100, 0)])[0] == 0
    assert feed.run([mysql(2, 2, 200, 1)])[0] == 1
    feed.configure(2)
    assert feed.run([])[0] == 0
    assert feed.run([mysql(3, 1, 300, 2)])[0] == 0
    assert feed.run([mysql(4, 2, 400, 3)])[0] == 0
    assert feed.ids() == [1, 2, 3, 4]
    assert feed.epochs() == [1, 2, 2, 2]


@pytest.mark.long
def test_a_long_transaction_without_commit_positions_waits_for_the_next_one(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A feed without `source.sequence`: first the next one lands with it, then a run later, then a reset."""
    feed = Feed(tmp_path, capsys)
    assert feed.run([postgres(1, 1_000, 7, 0)])[0] == 0
    assert feed.run([postgres(2, 500, 5, 15), postgres(3, 501, 5, 15), postgres(4, 1_001, 8, 16)])[0] == 0
    code, report = feed.run([postgres(5, 700, 6, 31), postgres(6, 701, 6, 31)])
    assert code == 1
    assert "do nothing" in report
    assert feed.run([])[0] == 1
    assert feed.ids() == [1, 2, 3, 4]
    assert feed.run([postgres(7, 1_002, 9, 32)])[0] == 0
    assert feed.ids() == [*range(1, 8)]
    assert feed.run([])[0] == 0
    assert feed.run([postgres(8, 20, 2, 60)])[0] == 1
    code, report = feed.run([postgres(9, 21, 3, 61)])
    assert code == 1
    assert "do nothing" not in report
    feed.configure(2)
    assert feed.run([postgres(10, 22, 4, 62)])[0] == 0
    assert feed.ids() == [*range(1, 11)]
    assert feed.epochs() == [1] * 7 + [2] * 3
