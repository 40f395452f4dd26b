"""Coordinates and an epoch identify a message: topics that are created again, overlapping dumps."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bronze.files import line_parser
from framework.cli import main
from silver.stream import gaps

TS = 1_700_000_000_000


class Topics:
    """A pipeline over kcat dumps; `land` writes one dump and `run` gives the exit code."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], sources: Mapping[str, str], tables: str = ""
    ) -> None:
        self.folder, self.capsys, self.files = folder, capsys, 0
        for name in sources:
            (folder / name).mkdir()
        lines = [
            f"  {name}: {{{settings}, layout: kcat, files: ./{name}}}" for name, settings in sources.items()
        ]
        text = [
            "pipeline: shop",
            "lakehouse: ./lakehouse",
            "quality: false",
            "sources:",
            *lines,
            *(["tables:", tables] if tables else []),
        ]
        (folder / "mainstem.yml").write_text("\n".join([*text, ""]), encoding="utf-8")

    def land(self, source: str, lines: Sequence[str]) -> None:
        self.files += 1
        hidden = self.folder / source / f".dump-{self.files:02d}"
        hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        hidden.rename(self.folder / source / f"dump-{self.files:02d}.jsonl")

    def command(self, *words: str) -> tuple[int, Any]:
        self.capsys.readouterr()
        code = main([*words, "-c", str(self.folder / "mainstem.yml"), "--json"])
        found = self.capsys.readouterr()
        return code, json.loads(found.out) if found.out else found.err

    def set_epoch(self, epoch: int) -> None:
        file = self.folder / "mainstem.yml"
        text = file.read_text().replace(f"epoch: {epoch - 1}, ", "")
        file.write_text(text.replace("{format", f"{{epoch: {epoch}, format"))

    def rows(self, table: str) -> list[dict[str, Any]]:
        found = DeltaTable(str(self.folder / "lakehouse/gold" / table)).to_pyarrow_table().to_pylist()
        return [{name: value for name, value in row.items() if not name.startswith("_cdc_")} for row in found]

    def silver(self, name: str) -> list[dict[str, Any]]:
        return list(DeltaTable(str(self.folder / "lakehouse/silver" / name)).to_pyarrow_table().to_pylist())

    def status(self) -> dict[str, Any]:
        """The status, after every check of `status --verify` has held."""
        code, found = self.command("status", "--verify")
        assert (code, [check["name"] for check in found["checks"] if not check["ok"]]) == (0, [])
        return dict(found)


def kcat(offset: int, value: object, ts: int = TS, key: object = None) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    message = {
        "topic": "shop.item",
        "partition": 0,
        "offset": offset,
        "tstype": "create",
        "ts": ts,
        "key": key,
        "payload": text,
    }
    return json.dumps(message | {"key": json.dumps(key) if key is not None else None})


def mysql(offset: int, row: Mapping[str, Any], *, server: int = 1, pos: int = 0, hours: float = 0) -> str:
    """An insert as Debezium writes it."""
    at = TS + int(hours * 3_600_000) + offset
    source = {
        "connector": "mysql",
        "db": "shop",
        "table": "item",
        "server_id": server,
        "file": "bin.000001",
        "pos": pos or 100 + offset,
    }
    value = {
        "op": "c",
        "before": None,
        "after": dict(row),
        "source": {**source, "row": 0, "ts_ms": at},
        "ts_ms": at,
    }
    return kcat(offset, value, at, {"id": row["id"]})


def item(number: int, name: str = "pen") -> dict[str, Any]:
    return {"id": number, "name": name}


@pytest.mark.long
def test_a_topic_that_is_created_anew_loses_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offsets 0 to 3 of the old topic, 0 to 5 of the next, 0 to 2 of a third.

    The last two land in one dump.
    """
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    first = [mysql(n, item(n)) for n in range(4)]
    topics.land("feed", first)
    assert topics.command("run")[0] == 0
    second = [mysql(n, item(10 + n), server=2, hours=5) for n in range(6)]
    third = [mysql(n, item(20 + n), server=3, hours=9) for n in range(3)]
    topics.land("feed", [*second, *third])
    code, stopped = topics.command("run")
    assert code == 1
    assert "SOURCE_RESET" in json.dumps(stopped)
    assert topics.command("run")[0] == 1
    topics.set_epoch(2)
    assert topics.command("run")[0] == 1
    assert sorted(row["id"] for row in topics.rows("shop/item")) == [*range(4), *range(10, 16)]
    topics.set_epoch(3)
    assert topics.command("run")[0] == 0
    everything = [*range(4), *range(10, 16), *range(20, 23)]
    assert sorted(row["id"] for row in topics.rows("shop/item")) == everything
    topics.land(
        "feed", [first[2], "no message", *[mysql(n, item(20 + n), server=3, hours=9) for n in range(1, 5)]]
    )
    assert topics.command("run")[0] == 0
    found = topics.status()
    assert (found["messages"], found["changes"], found["duplicates"], sum(found["quarantined"].values())) == (
        19,
        15,
        3,
        1,
    )
    epochs = Counter((row["epoch"], row["kind"]) for row in topics.silver("changes"))
    assert epochs == {
        (1, "row"): 4,
        (2, "row"): 6,
        (3, "row"): 5,
        (1, "duplicate"): 1,
        (3, "duplicate"): 2,
        (3, "quarantined"): 1,
    }
    changes = {
        (row["change_id"], row["epoch"], row["batch"], row["detail"]) for row in topics.silver("changes")
    }
    assert topics.command("rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert {
        (row["change_id"], row["epoch"], row["batch"], row["detail"]) for row in topics.silver("changes")
    } == changes
    assert sorted(row["id"] for row in topics.rows("shop/item")) == [*everything, 23, 24]
    assert topics.status()["messages"] == 19
    code, path = topics.command("trace", "shop.item", "id=21")
    assert [
        json.loads(m["value"])["source"]["server_id"]
        for change in path["changes"]
        for m in change["messages"]
    ] == [3, 3]
    assert topics.command("forget", "shop.item", "id=11")[0] == 0
    there = DeltaTable(str(tmp_path / "lakehouse/bronze/messages")).to_pyarrow_table().to_pylist()
    values = [row["value"] for row in there if (row["topic"], row["offset"]) == ("shop.item", 1)]
    assert sorted(json.loads(value)["after"]["id"] for value in values if value is not None) == [1, 21, 21]
    assert len(values) == 4
    kept = tmp_path / "messages"
    (tmp_path / "lakehouse/bronze/messages").rename(kept)
    topics.command("run")  # an error of bronze, whose advice follows
    for gone in [
        *(tmp_path / "lakehouse/_mainstem/bronze").glob("feed*"),
        tmp_path / "lakehouse/ops/files/feed",
    ]:
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    code, found = topics.command("run")
    assert code == 1
    advice = "put the newest state of the table back from a backup: the offsets of feed have started again"
    assert advice in json.dumps(found)
    shutil.rmtree(tmp_path / "lakehouse/bronze/messages")
    kept.rename(tmp_path / "lakehouse/bronze/messages")
    (tmp_path / "lakehouse/_mainstem/bronze/feed.reset").touch()
    for gone in (tmp_path / "lakehouse/_mainstem/bronze").glob("feed*"):
        if gone.suffix != ".reset":
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    assert topics.command("run")[0] == 0
    assert topics.status()["messages"] == 19


def dump(part: str) -> list[str]:
    """The messages of a dump: `a2-5` are offsets 2 to 5 of the first of three topics of one name."""
    topic = "abc".index(part[0])
    first, last = map(int, part[1:].split("-"))
    return [
        mysql(n, item(n, part[0]), server=topic + 1, hours=5 * topic, pos=900 - 300 * topic + n)
        for n in range(first, last + 1)
    ]


LANDINGS = ("a4-6", "a5-6 b4-6 a3-7", "a0-4 b0-4", "b3-6 c2-4 a0-7 c0-2")
"""The dumps of each run. In the second run and the fourth the topic has been created again."""


@pytest.mark.long
def test_dumps_of_topics_that_were_created_anew_twice_land_in_any_order(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A late dump of a former topic belongs to the epoch of that topic, also where it shows new messages."""
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    epoch, landed = 1, 0
    for step, parts in enumerate(LANDINGS):
        for part in parts.split():
            topics.land("feed", dump(part))
            landed += len(dump(part))
        code, found = topics.command("run")
        if step in (1, 3):
            assert (code, json.dumps(found).count("SOURCE_RESET")) == (1, 1), step
            epoch += 1
            topics.set_epoch(epoch)
            code, found = topics.command("run")
        assert code == 0, (step, found)
    assert {row["id"]: row["name"] for row in topics.rows("shop/item")} == dict(enumerate("cccccbba"))
    rows = Counter(row["epoch"] for row in topics.silver("changes") if row["kind"] == "row")
    assert rows == {1: 8, 2: 7, 3: 5}
    status = topics.status()
    assert (status["messages"], status["changes"], status["duplicates"]) == (landed, 20, landed - 20)


@pytest.mark.long
def test_a_dump_of_an_older_topic_that_lands_first_of_all_behind_the_newer_one_is_not_put_above_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later epoch would let the old values win; the error says so, and its advice works."""
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    topics.land("feed", dump("b0-3"))
    assert topics.command("run")[0] == 0
    topics.land("feed", dump("a0-5"))
    code, found = topics.command("run")
    assert code == 1
    assert "move the lakehouse and its checkpoints aside" in json.dumps(found)
    topics.set_epoch(2)
    assert topics.command("run")[0] == 1
    assert {row["id"]: row["name"] for row in topics.rows("shop/item")} == dict.fromkeys(range(4), "b")
    (tmp_path / "lakehouse").rename(tmp_path / "aside")
    file = tmp_path / "mainstem.yml"
    file.write_text(file.read_text().replace("epoch: 2, ", ""))
    later = (tmp_path / "feed/dump-01.jsonl").rename(tmp_path / "later.jsonl")
    assert topics.command("run")[0] == 0
    later.rename(tmp_path / "feed/dump-01.jsonl")
    assert "set `epoch: 2`" in json.dumps(topics.command("run")[1])
    topics.set_epoch(2)
    assert topics.command("run")[0] == 0
    assert {row["id"]: row["name"] for row in topics.rows("shop/item")} == dict(enumerate("bbbbaa"))


@pytest.mark.slow
def test_a_message_of_a_new_topic_may_be_older_than_those_that_landed_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clocks of producers differ: offset 4 is older than the messages around it, and in a later dump."""
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    topics.land("feed", [mysql(offset, item(offset)) for offset in range(10)])
    assert topics.command("run")[0] == 0
    topics.set_epoch(2)
    topics.land("feed", [mysql(offset, item(20 + offset), hours=2) for offset in (2, 5, 6)])
    topics.land("feed", [mysql(4, item(24), hours=1.999)])
    assert topics.command("run")[0] == 0
    assert {row["epoch"] for row in topics.silver("changes") if row["event_time"].hour != 22} == {2}
    topics.status()
    assert sorted(row["id"] for row in topics.rows("shop/item")) == [*range(10), 22, 24, 25, 26]


@pytest.mark.slow
def test_a_message_of_a_new_topic_that_is_older_than_its_first_waits_for_the_epoch_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offset 7 has not landed before, and comes behind one that lands twice: time and offset tell it."""
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    topics.land("feed", [mysql(offset, item(offset)) for offset in range(10) if offset != 7])
    assert topics.command("run")[0] == 0
    new = [mysql(offset, item(20 + offset), hours=2) for offset in (2, 5, 6, 6)]
    topics.land("feed", [*new, mysql(7, item(27), hours=1.999)])
    code, stopped = topics.command("run")
    assert code == 1
    assert "SOURCE_RESET" in json.dumps(stopped)
    topics.set_epoch(2)
    assert topics.command("run")[0] == 0
    epochs = {row["after"] and dict(row["after"])["id"]: row["epoch"] for row in topics.silver("changes")}
    assert {id: epoch for id, epoch in epochs.items() if id and int(id) > 9} == dict.fromkeys(
        ("22", "25", "26", "27"), 2
    )
    topics.status()
    assert sorted(row["id"] for row in topics.rows("shop/item")) == [*range(7), 8, 9, 22, 25, 26, 27]


@pytest.mark.slow
def test_messages_of_a_new_topic_that_land_in_any_order_have_one_outcome_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offset 50 is above all of the former topic, and older than those of its own that land first."""
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    former = [mysql(offset, item(offset)) for offset in range(10)]
    topics.land("feed", former)
    assert topics.command("run")[0] == 0
    new = [mysql(offset, item(20 + offset), hours=2) for offset in (5, 6)]
    topics.land("feed", [*new, former[7], former[3], mysql(2, item(22), hours=1.9)])
    topics.land("feed", [mysql(50, item(70), hours=1.95), mysql(40, item(60), hours=0.1)])
    assert "SOURCE_RESET" in json.dumps(topics.command("run")[1])
    topics.set_epoch(2)
    assert topics.command("run")[0] == 0
    found = [(row["offset"], row["epoch"]) for row in topics.silver("changes") if row["kind"] == "row"]
    assert sorted(found) == sorted([*((n, 1) for n in range(10)), (40, 1), *((n, 2) for n in (2, 5, 6, 50))])
    assert len({(row["offset"], row["epoch"]) for row in topics.silver("changes")}) == len(found)
    topics.status()
    assert sorted(row["id"] for row in topics.rows("shop/item")) == [*range(10), 22, 25, 26, 60, 70]


@pytest.mark.slow
def test_an_epoch_begins_also_behind_an_offset_that_has_none_behind_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an offset lands no more, but earlier releases took it."""
    topics = Topics(tmp_path, capsys, {"feed": "format: canal"}, "  - {match: shop.item, keys: [id]}")
    with monkeypatch.context() as earlier:
        earlier.setattr(line_parser, "_LAST_OFFSET", 2**63 - 1)
        topics.land(
            "feed", [canal(0, 1, "a"), canal(2**63 - 1, 2, "a").replace(f"{TS + 2**63 - 1}", f"{TS}")]
        )
        assert topics.command("run")[0] == 0
    topics.set_epoch(2)
    assert topics.command("run")[0] == 0
    topics.land("feed", [canal(0, 3, "b").replace('"partition": 0', '"partition": 1')])
    assert topics.command("run")[0] == 0
    assert {row["id"]: row["name"] for row in topics.rows("shop/item")} == {"1": "a", "2": "a", "3": "b"}
    topics.status()


def canal(offset: int, number: int, name: str) -> str:
    value = {
        "type": "INSERT",
        "database": "shop",
        "table": "item",
        "es": TS,
        "id": 1,
        "data": [{"id": str(number), "name": name}],
    }
    return kcat(offset, value, TS + offset)


def postgres(offset: int, name: str, lsn: int) -> str:
    """A row of a table without a key, as COPY writes it: many rows under one LSN."""
    source = {
        "connector": "postgresql",
        "db": "crm",
        "schema": "public",
        "table": "note",
        "lsn": lsn,
        "txId": 7,
        "ts_ms": TS,
    }
    return kcat(
        offset,
        {"op": "c", "before": None, "after": {"name": name}, "source": source, "ts_ms": TS + offset},
        TS + offset,
    )


def dms(offset: int, record: int, name: str, minute: int, table: str = "note") -> str:
    """A row of one transaction, written so many minutes after it."""
    metadata = {
        "timestamp": f"2024-07-29T01:{minute:02d}:00Z",
        "record-type": "data",
        "operation": "insert",
        "schema-name": "crm",
        "table-name": table,
        "transaction-id": 1139,
        "transaction-record-id": record,
        "commit-timestamp": "2024-07-29T01:00:00Z",
        "stream-position": "00000002/7C007178.3.00000002/7C007178",
    }
    return kcat(offset, {"data": {"name": name}, "metadata": metadata}, TS + offset)


@pytest.mark.long
def test_a_restarted_task_of_dms_writes_no_row_twice(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It writes the same rows again, with later times: in the same run, and in the next one.

    A table with a key holds such a row once even if an earlier release gave it another id.
    """
    topics = Topics(tmp_path, capsys, {"feed": "format: dms"}, "  - {match: crm.word, keys: [name]}")
    first = [dms(0, 1, "a", 1), dms(1, 2, "a", 1), dms(2, 3, "b", 1), dms(3, 4, "a", 1, "word")]
    topics.land("feed", [*first, dms(4, 1, "a", 9)])
    assert topics.command("run")[0] == 0
    spark.sql(
        f"UPDATE delta.`{tmp_path}/lakehouse/silver/changes` SET change_id = reverse(change_id)"
        " WHERE `table` = 'word'"
    )
    again = [dms(5, 1, "a", 30), dms(6, 2, "a", 30), dms(7, 3, "b", 30), dms(8, 4, "a", 30, "word")]
    topics.land("feed", [*again, dms(9, 5, "c", 31)])
    assert topics.command("run")[0] == 0
    assert sorted(row["name"] for row in topics.rows("crm/note")) == ["a", "a", "b", "c"]
    assert [row["name"] for row in topics.rows("crm/word")] == ["a"]
    assert topics.status()["duplicates"] == 4


@pytest.mark.long
def test_overlapping_dumps_hold_each_message_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables without a key, in formats whose positions are times, and unreadable messages.

    In one run and in several.
    """
    topics = Topics(tmp_path, capsys, {"canal": "format: canal", "copied": "format: debezium"})
    items = [canal(n, n, "pen") if n % 3 else kcat(n, f"nonsense {n}", TS) for n in range(10)]
    record = [(50, "a"), (50, "a"), (50, "b"), (50, "a"), (60, "a")]
    notes = [
        postgres(offset, name, lsn) for offset, (lsn, name) in enumerate([*record, *record[:4]])
    ]  # the first one is sent again
    topics.land("canal", items[5:])
    topics.land("canal", items[:7])
    topics.land("copied", notes[2:7])
    assert topics.command("run")[0] == 0
    topics.land("canal", items[3:8])
    topics.land("copied", notes)
    assert topics.command("run")[0] == 0
    topics.land("copied", notes[:3])
    assert topics.command("run")[0] == 0
    found = topics.status()
    assert sorted(row["name"] for row in topics.rows("crm.public/note")) == ["a", "a", "a", "a", "b"]
    assert sorted(int(row["id"]) for row in topics.rows("shop/item")) == [1, 2, 4, 5, 7, 8]
    assert found["messages"] == 5 + 7 + 5 + 5 + 9 + 3
    assert found["messages"] == found["changes"] + found["duplicates"] + sum(found["quarantined"].values())
    assert (found["changes"], sum(found["quarantined"].values())) == (6 + 5, 4)
    assert topics.command("replay")[0] == 0
    assert topics.command("rebuild", "crm.public.note", "--from", "bronze")[0] == 0
    assert topics.status()["messages"] == found["messages"]
    assert len(topics.rows("crm.public/note")) == 5


@pytest.mark.slow
@pytest.mark.parametrize("past", ["reset", "left out"])
def test_a_topic_that_is_created_anew_is_noticed_after_silver_has_begun_again(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    past: str,
) -> None:
    """Messages that have an outcome are left out then: those of another topic, and dumps again, are not.

    Those that landed later are not compared with all outcomes.
    """
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium", "other": "format: debezium"})
    first = [mysql(n, item(n)) for n in range(4)]
    topics.land("feed", first)
    if past == "reset":
        assert topics.command("run")[0] == 0
        checkpoint = tmp_path / "lakehouse/_mainstem/silver"
        shutil.rmtree(checkpoint)
        checkpoint.with_name("silver.reset").touch()
    else:  # messages of a source that the configuration does not name have landed
        topics.land("other", [mysql(0, item(100)).replace("item", "other")])
        file = tmp_path / "mainstem.yml"
        whole = file.read_text()
        assert topics.command("run", "--through", "bronze")[0] == 0
        file.write_text("".join(line for line in whole.splitlines(True) if "other:" not in line))
        assert topics.command("run")[0] == 0
        file.write_text(whole)
    assert topics.command("run")[0] == 0
    topics.land("feed", first[1:2])
    assert topics.command("run")[0] == 0
    outcomes = Counter((row["kind"], row["reason"]) for row in topics.silver("changes"))
    assert outcomes["duplicate", "landed_again"] == 1
    topics.land("feed", [mysql(n, item(10 + n), server=2, hours=5) for n in range(3)])
    code, stopped = topics.command("run")
    assert code == 1
    assert "SOURCE_RESET" in json.dumps(stopped)
    topics.set_epoch(2)
    assert topics.command("run")[0] == 0
    found = sorted(row["id"] for row in topics.rows("shop/item") if row["id"] < 100)
    assert found == [*range(4), *range(10, 13)]
    topics.status()
    monkeypatch.setattr(gaps, "CLOCKS", timedelta(0))
    monkeypatch.setattr("silver.job.only_without_outcome", None)
    topics.land("feed", [mysql(3, item(13), server=2, hours=5)])
    assert topics.command("run")[0] == 0
    assert len(topics.rows("shop/item")) == 8
    topics.status()
