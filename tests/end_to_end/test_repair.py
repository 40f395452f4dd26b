"""The commands of the night, and a source whose positions begin anew:
nothing is lost, nothing is there twice.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Protocol

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_without_java import command as without_java

HOUR = 3_600_000


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


class InFolder(Protocol):
    """A pipeline whose configuration is `mainstem.yml` in a folder."""

    @property
    def folder(self) -> Path: ...


def command(shop: InFolder, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main([*words, "-c", str(shop.folder / "mainstem.yml"), "--json"])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    return code, json.loads(printed.out)


def changes_of(shop: Shop) -> set[str]:
    """All changes of silver as text, without the halves of changes that are complete."""
    changes = shop.lake.read(shop.spark, "silver/changes")
    met = changes.where("paired_with IS NOT NULL").select("paired_with.*")
    at = ["topic", "partition", "offset"]
    return {
        repr(row) for row in changes.join(met, at, "left_anti").select(*changes.columns).toArrow().to_pylist()
    }


def broken(status: dict[str, Any]) -> list[str]:
    return [check["name"] for check in status["checks"] if not check["ok"]]


def later(op: str, sequence: int, hours: float, **images: Any) -> dict[str, Any]:
    """A message whose event time is so many hours after the others'."""
    found = message(op, sequence, **images)
    found["payload"]["timestamp"]["eventTime"] += int(hours * HOUR)
    return found


@pytest.mark.long
def test_a_source_whose_positions_begin_anew_stops_and_goes_on_with_the_next_epoch(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.land(
        [message("INSERT", 500, after=item(1, "pen", 1.0)), message("INSERT", 501, after=item(2, "ink", 2.0))]
    )
    shop.land([message("UPDATE_BEFOR", 502, before=item(2, "ink", 2.0))])
    assert command(shop, capsys, "run")[0] == 0
    late = message("UPDATE", 499, before=item(1, "pen", 0.9), after=item(1, "pen", 0.5))
    shop.land(
        [
            late,
            later("DELETE", 1, 5, before=item(1, "pen", 1.0)),
            later("INSERT", 2, 5, after=item(3, "cap", 3.0)),
        ]
    )
    code, _ = command(shop, capsys, "run")
    assert code == 1
    assert shop.rows("shop/item") == {1: item(1, "pen", 1.0), 2: item(2, "ink", 2.0)}
    shop.land([later("INSERT", 3, 6, after=item(4, "map", 4.0))])
    shop.land(
        [message("UPDATE_AFTER", 502, after=item(2, "ink", 2.5))]
    )  # from before the reset, by a slow shard
    assert command(shop, capsys, "run")[0] == 1
    (stop,) = command(shop, capsys, "status")[1]["stopped"]
    assert (stop["source"], stop["epoch"], stop["reason"]) == ("feed", 1, "position_restarted")
    assert (stop["code"], "set `epoch: 2`" in stop["action"]) == ("SOURCE_RESET", True)

    file = shop.folder / "mainstem.yml"
    file.write_text(file.read_text().replace("pairing_timeout", "epoch: 2, pairing_timeout"))
    assert command(shop, capsys, "run")[0] == 0
    assert shop.rows("shop/item") == {2: item(2, "ink", 2.5), 3: item(3, "cap", 3.0), 4: item(4, "map", 4.0)}
    found = command(shop, capsys, "status")[1]
    assert (found["stopped"], found["messages"], found["changes"], found["pending_halves"]) == ([], 8, 7, 0)
    shop.land(
        [
            later("INSERT", 4, 7, after=item(5, "box", 5.0)),
            "no message",
            later("UPDATE_BEFOR", 5, 7, before=item(5, "box", 5.0)),
        ]
    )
    assert command(shop, capsys, "run")[0] == 0
    code, verified = command(shop, capsys, "status", "--verify")
    assert (code, broken(verified)) == (0, [])
    assert {"one_fate", "pending", "quarantine", "rows shop.item"} <= {
        check["name"] for check in verified["checks"]
    }
    assert shop.rows("shop/item")[5] == item(5, "box", 5.0)
    rows, changes = shop.rows("shop/item"), changes_of(shop)
    assert set(rows) == {2, 3, 4, 5}
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert (shop.rows("shop/item"), changes_of(shop)) == (rows, changes)
    assert broken(command(shop, capsys, "status", "--verify")[1]) == []

    shop.spark.sql(
        f"ALTER TABLE delta.`{shop.lake.location('bronze/messages')}` SET TBLPROPERTIES "
        f"('delta.appendOnly' = 'false')"
    )
    shop.spark.sql(
        f"DELETE FROM delta.`{shop.lake.location('bronze/messages')}` WHERE topic = 'part-001.jsonl' AND "
        f"offset = 1"
    )
    assert main(["rebuild", "shop.item", "--from", "bronze", "-c", str(file)]) == 1
    refused = capsys.readouterr().err
    assert "BRONZE_TOO_SHORT" in refused
    assert "part-001.jsonl:0:1" in refused
    assert (shop.rows("shop/item"), changes_of(shop)) == (rows, changes)


@pytest.mark.slow
def test_trace_tells_each_change_of_a_row_with_its_messages(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.0)),
            message("UPDATE_BEFOR", 5, before=item(1, "pen", 1.0)),
        ]
    )
    shop.land(
        [
            message("UPDATE_AFTER", 5, after=item(1, "pen", 2.0)),
            message("INSERT", 1, after=item(1, "pen", 1.0)),
        ]
    )
    shop.run()
    shop.land([message("UPDATE", 3, before=item(1, "pen", 1.0), after=item(1, "pen", 1.5))])
    shop.run()
    code, found = command(shop, capsys, "trace", "shop.item", "id=1")
    assert code == 0
    alone = without_java(shop.folder, "trace", "shop.item", "id=1", "--json")
    assert json.loads(alone.stdout) == found, alone.stderr
    assert found["row"]["price"] == 2.0
    outcomes = [(change["fate"], len(change["messages"])) for change in found["changes"]]
    assert outcomes == [
        ("applied", 2),
        ("late", 1),
        *sorted([("superseded", 1), ("duplicate", 1)], key=lambda t: t[0] == "duplicate"),
    ]
    assert json.loads(found["changes"][0]["messages"][0]["value"])["payload"]["op"] == "UPDATE_BEFOR"
    assert [change["position"] for change in found["changes"]] == [f"position {n}" for n in (5, 3, 1, 1)]
    assert main(["trace", "shop.item", "id=1", "-c", str(shop.folder / "mainstem.yml")]) == 0
    printed = capsys.readouterr().out
    assert "  position 5  " in printed
    assert command(shop, capsys, "trace", "shop.item", "id=77")[0] == 1
    assert main(["trace", "shop.itme", "id=1", "-c", str(shop.folder / "mainstem.yml")]) == 2
    assert "shop.item" in capsys.readouterr().err
    assert main(["trace", "shop.item", "di=1", "-c", str(shop.folder / "mainstem.yml")]) == 2
    assert without_java(shop.folder, "trace", "shop.itme", "id=1").returncode == 2
    assert without_java(shop.folder, "trace", "shop.item", "di=1").returncode == 2


@pytest.mark.slow
def test_a_row_is_traced_by_the_text_of_silver_and_by_that_of_gold(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, 'tables:\n  - {match: shop.item, columns: {id: {type: "decimal(20,2)"}}}\n')
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.0)),
            message("UPDATE", 2, before=item(1, "pen", 1.0), after=item(1, "pen", 2.0)),
        ]
    )
    shop.run()
    for text in ("1", "1.00", "01.0"):
        code, found = command(shop, capsys, "trace", "shop.item", f"id={text}")
        assert (code, found["row"]["id"], found["row"]["price"]) == (0, "1.00", 2.0)
        assert [change["fate"] for change in found["changes"]] == ["applied", "superseded"]
        alone = without_java(shop.folder, "trace", "shop.item", f"id={text}", "--json")
        assert json.loads(alone.stdout) == found, alone.stderr


@pytest.mark.slow
def test_replay_takes_messages_out_of_quarantine_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "landing").mkdir()
    file = tmp_path / "mainstem.yml"
    text = (
        "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: oms_shareplex, files: "
        "./landing}\n"
        "tables:\n  - {match: shop.line, keys: [KEYS]}\nquality: false\n"
    )
    file.write_text(text.replace("KEYS", "id, line, other"))

    def line(scn: int, number: int) -> str:
        meta = {
            "op": "ins",
            "table": "shop.line",
            "rowid": f"shop.line-7\u0001{number}",
            "scn": str(scn),
            "seq": 1,
            "time": "2024-03-01T17:02:13",
        }
        return json.dumps({"data": {"id": 7, "line": number, "amount": 1}, "meta": meta})

    (tmp_path / "landing" / "part.jsonl").write_text("\n".join([line(1, 1), line(2, 2), "no message"]))
    arguments = ["-c", str(file), "--json"]
    main(["run", *arguments])
    capsys.readouterr()
    assert main(["replay", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["counts"].get("changes", 0) == 0
    file.write_text(text.replace("KEYS", "id, line"))
    for changes in (2, 0):
        assert main(["replay", *arguments]) == 0
        assert json.loads(capsys.readouterr().out)["counts"].get("changes", 0) == changes
    rows = DeltaTable(str(tmp_path / "lakehouse/gold/shop/line")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["line"]) for row in rows) == [(7, 1), (7, 2)]
    main(["status", *arguments])
    found = json.loads(capsys.readouterr().out)
    assert (found["changes"], found["quarantined"], found["messages"]) == (2, {"not_json": 1}, 3)


@pytest.mark.slow
def test_messages_of_a_source_that_is_not_configured_wait_until_it_is(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.0))])
    assert command(shop, capsys, "run", "--through", "bronze")[0] == 0
    file = shop.folder / "mainstem.yml"
    text = file.read_text()
    (shop.folder / "elsewhere").mkdir()
    file.write_text(text.replace("feed:", "other:").replace("./landing", "./elsewhere"))
    assert main(["run", "-c", str(file)]) == 0
    assert "source feed: messages of it have landed" in capsys.readouterr().err
    (left_out,) = command(shop, capsys, "status")[1]["left_out"]
    assert (left_out["source"], left_out["messages"]) == ("feed", 1)
    file.write_text(text)
    assert command(shop, capsys, "run")[0] == 0
    assert shop.rows("shop/item") == {1: item(1, "pen", 1.0)}
    found = command(shop, capsys, "status")[1]
    assert (found["left_out"], found["messages"], found["changes"]) == ([], 1, 1)


@pytest.mark.long
def test_a_lost_checkpoint_of_silver_is_reported_and_repaired_without_a_second_outcome(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.0))])
    assert command(shop, capsys, "run")[0] == 0
    checkpoint = shop.folder / "lakehouse/_mainstem/silver"
    checkpoint.rename(shop.folder / "away")
    shop.land([message("INSERT", 2, after=item(2, "ink", 2.0))])
    assert main(["run", "-c", str(shop.folder / "mainstem.yml")]) == 1
    assert "CHECKPOINT_LOST" in capsys.readouterr().err
    checkpoint.with_name("silver.reset").touch()
    assert command(shop, capsys, "run")[0] == 0
    assert shop.rows("shop/item") == {1: item(1, "pen", 1.0), 2: item(2, "ink", 2.0)}
    found = command(shop, capsys, "status")[1]
    assert (found["messages"], found["changes"], found["duplicates"]) == (2, 2, 0)

    shutil.rmtree(shop.folder / "lakehouse/silver/changes")
    assert main(["run", "-c", str(shop.folder / "mainstem.yml")]) == 1
    assert "SILVER_REPLACED" in capsys.readouterr().err
    shutil.rmtree(checkpoint)
    shop.land([message("UPDATE", 3, before=item(2, "ink", 2.0), after=item(2, "ink", 3.0))])
    assert command(shop, capsys, "run")[0] == 0
    assert shop.rows("shop/item") == {1: item(1, "pen", 1.0), 2: item(2, "ink", 3.0)}
    found = command(shop, capsys, "status")[1]
    assert (found["messages"], found["changes"], found["duplicates"], found["tables"][0]["behind"]) == (
        3,
        3,
        0,
        0,
    )

    for name, gone in {
        "gold/shop/item": "id = 1",
        "silver/changes": "after['id'] = '2' AND op = 'insert'",
        "silver/schemas": "true",
    }.items():
        shop.spark.sql(f"DELETE FROM delta.`{shop.lake.location(name)}` WHERE {gone}")
    code, verified = command(shop, capsys, "status", "--verify")
    assert (code, broken(verified)) == (1, ["every_fate", "schemas_known", "batches", "rows shop.item"])
