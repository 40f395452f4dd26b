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
from silver.batches import process
from tests.end_to_end.test_decode_again import dying_at

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
            self.land(self.lines(changes))
        return self.command("run")

    def land(self, lines: Sequence[str]) -> None:
        self.files += 1
        hidden = self.folder / "feed" / f".{self.files:02d}"
        hidden.write_text("".join(lines), encoding="utf-8")
        hidden.rename(self.folder / "feed" / f"{self.files:02d}.jsonl")

    def command(self, *arguments: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = main([*arguments, "-c", str(self.folder / "mainstem.yml"), "--json"])
        return code, self.capsys.readouterr().out

    def plan(self) -> tuple[int, int, list[bool]]:
        """The exit code, the messages to decode, and of each stopped source whether its stop is new."""
        code, output = self.command("plan")
        silver = json.loads(output)["silver"]
        return code, silver["messages"], [stop["is_new"] for stop in silver["stopped"]]

    def lines(self, changes: Sequence[tuple[int, Mapping[str, Any]]]) -> list[str]:
        return [self._line(number, source) for number, source in changes]

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


@pytest.mark.slow
def test_until_the_next_run_messages_are_in_the_epochs_that_have_begun(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed(tmp_path, capsys)
    assert feed.run([mysql(1, 1, 100, 0), mysql(2, 1, 101, 0)])[0] == 0
    feed.land(feed.lines([mysql(3, 1, 4, 60), mysql(4, 1, 5, 61)]))
    assert feed.plan() == (1, 2, [True])
    assert feed.run([])[0] == 1
    assert feed.plan() == (1, 0, [False])
    feed.configure(2)
    assert feed.plan() == (0, 2, [])
    assert feed.command("status", "--verify")[0] == 0
    assert feed.run([])[0] == 0
    assert feed.epochs() == [1, 1, 2, 2]
    feed.configure(3)
    assert feed.plan() == (0, 0, [])
    assert feed.command("status", "--verify")[0] == 0


@pytest.mark.slow
def test_what_a_killed_run_has_refused_keeps_its_bytes_if_the_epoch_is_raised_next(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(tmp_path, capsys)
    refused = {"topic": "shop.item", "partition": 0, "offset": 0, "ts": NOON, "key": "1", "payload": "no"}
    feed.land([f"{json.dumps(refused)}\n"])
    with monkeypatch.context() as patched:
        patched.setattr(process, "crash_point", dying_at("silver.after_changes"))
        assert feed.run([])[0] == 1
    feed.configure(2)
    assert feed.run([])[0] == 0
    (row,) = DeltaTable(str(tmp_path / "lakehouse/silver/quarantine")).to_pyarrow_table().to_pylist()
    assert (row["epoch"], row["key"], row["value"]) == (1, b"1", b"no")
    assert row["first_seen_at"] is not None


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
