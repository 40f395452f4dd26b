"""Settings by which columns are read, changed in the middle of a feed: no column has two readings."""

from __future__ import annotations

import base64
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.pipeline import failed_tries
from silver.job import run_silver
from silver.layer import LAYER
from tests.end_to_end.test_identity import TS, Topics
from tests.end_to_end.test_late_definitions import line, row, source

KEPT = "shop.item: read as before, although the configuration says something else of "


def noted(offset: int, note: bytes, table: str = "item") -> str:
    """An insert of the row with this number and note, with its schema block."""
    fields = [{"type": "int32", "field": "id"}, {"type": "bytes", "field": "note", "optional": True}]
    after = {"id": offset, "note": base64.b64encode(note).decode()}
    schema = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    payload = {"op": "c", "before": None, "after": after, "source": source(100 + offset, table), "ts_ms": TS}
    return line(f"crm.shop.{table}", offset, {"id": offset}, {"schema": schema, "payload": payload})


class Readings(Topics):
    """A pipeline over Debezium whose settings of columns change."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys, {"feed": "format: debezium, decimals: base64"})
        self.text = (folder / "mainstem.yml").read_text(encoding="utf-8")

    def say(self, columns: str, match: str = "shop.item", more: str = "") -> None:
        """What the configuration says about the columns from now on."""
        rule = f"tables:\n  - {{match: {match}, columns: {{{columns}}}{more}}}\n" if columns else ""
        (self.folder / "mainstem.yml").write_text(self.text + rule, encoding="utf-8")

    def run(self, code: int = 0) -> str:
        """Runs the pipeline: what it says."""
        self.capsys.readouterr()
        assert main(["run", "-c", str(self.folder / "mainstem.yml")]) == code
        return self.capsys.readouterr().err

    def rebuild(self) -> None:
        """Decodes all messages of the table again."""
        code, error = self.command("rebuild", "shop.item", "--from", "bronze")
        assert code == 0, error
        assert KEPT not in self.run()

    def notes(self) -> dict[int, Any]:
        return {found["id"]: found["note"] for found in self.rows("shop/item")}


@pytest.mark.long
def test_a_codec_that_is_set_or_changed_later_reads_all_rows_at_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [noted(1, "中".encode("gbk")), noted(2, b"yes", table="more")])
    assert KEPT not in shop.run()
    assert shop.notes() == {1: "中".encode("gbk")}

    shop.say("note: {decode: gbk}")
    shop.land("feed", [noted(3, "文".encode("gbk"))])
    assert f"{KEPT}note. To read all rows so: mainstem rebuild shop.item --from bronze" in shop.run()
    assert shop.notes() == {1: "中".encode("gbk"), 3: "文".encode("gbk")}
    shop.rebuild()
    assert shop.notes() == {1: "中", 3: "文"}

    shop.say("note: {decode: latin-1}")
    shop.land("feed", [noted(4, "大".encode("gbk"))])
    assert KEPT in shop.run()
    assert shop.notes() == {1: "中", 3: "文", 4: "大"}
    shop.say("note: {decode: gbk}")
    shop.land("feed", [noted(5, "小".encode("gbk"))])
    assert KEPT not in shop.run()
    assert shop.notes() == {1: "中", 3: "文", 4: "大", 5: "小"}

    shop.say("")
    shop.rebuild()
    assert shop.notes()[5] == "小".encode("gbk")
    assert {found["note"] for found in shop.rows("shop/more")} == {b"yes"}


@pytest.mark.long
def test_a_sign_or_an_encoding_that_is_set_later_reads_all_rows_at_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [row(1, {"id": 1, "total": -1, "at": 1_000})])
    shop.run()
    shop.say(
        'total: {type: "decimal(20,0)", unsigned: true}, at: {encoding: milliseconds, type: timestamp_ntz}'
    )
    shop.land("feed", [row(2, {"id": 2, "total": -1, "at": 1_000})])
    assert f"{KEPT}at, total." in shop.run()
    assert [found["total"] for found in shop.rows("shop/item")] == [Decimal(-1)] * 2
    shop.rebuild()
    one, other = sorted(shop.rows("shop/item"), key=lambda found: int(found.pop("id")))
    assert one == other
    assert (one["total"], str(one["at"])) == (Decimal(2**64 - 1), "1970-01-01 00:00:01")


@pytest.mark.long
def test_a_rebuild_that_was_killed_is_ended_by_the_next_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [noted(1, b"pens")])
    shop.run()
    shop.say("note: {decode: utf8}")
    shop.land("feed", [noted(2, b"inks")])

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    for place in ("silver.operations.redecode.repair_log.begin", "silver.operations.redecode.finish_repair"):
        with monkeypatch.context() as context:
            context.setattr(place, killed)
            assert shop.command("rebuild", "shop.item", "--from", "bronze")[0] != 0
    assert KEPT not in shop.run()
    assert shop.notes() == {1: "pens", 2: "inks"}
    shop.status()


@pytest.mark.long
def test_a_rebuild_that_fails_stops_no_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a row was replaced, it has not begun; after that, runs try again and report it.

    The rounds of one command report it too, and try again after a pause.
    """
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [noted(1, b"pens")])
    shop.run()
    shop.say("note: {decode: utf8}")

    def fail(*_: Any) -> None:
        raise OSError("no space left on device")

    def rebuild_in_vain(place: str) -> None:
        with monkeypatch.context() as context:
            context.setattr(f"silver.operations.redecode.{place}", fail)
            assert shop.command("rebuild", "shop.item", "--from", "bronze")[0] == 1

    rebuild_in_vain("repair_log.begin")
    assert KEPT in shop.run()
    assert shop.notes() == {1: b"pens"}
    shop.say("")
    shop.land("feed", [noted(2, b"inks")])
    assert KEPT not in shop.run()
    assert shop.notes() == {1: b"pens", 2: b"inks"}

    shop.say("note: {decode: utf8}")
    shop.land("feed", [noted(3, b"yes", table="more")])
    rebuild_in_vain("finish_repair")
    tried, told = list[Any](), "messages could not be decoded again: OSError: no space left on device"
    with monkeypatch.context() as context:
        context.setattr(failed_tries, "FIRST_PAUSE", failed_tries.LONGEST_PAUSE)
        context.setattr("silver.operations.redecode._decide", lambda *given: fail(tried.append(given)))
        assert told in shop.run(code=1)
        config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
        rounds = failed_tries.FailedTries()
        for _ in range(2):
            (error,) = run_silver(spark, Lakehouse(config.root), config, tries=rounds).errors
            assert told in str(error)
    assert len(tried) == 2
    assert {found["note"] for found in shop.rows("shop/more")} == {b"yes"}
    shop.say("note: {decode: utf8}", more=", exclude: true")
    assert KEPT not in shop.run()
    shop.say("note: {decode: utf8}")
    assert KEPT not in shop.run()
    assert shop.notes() == {1: "pens", 2: "inks"}
    shop.status()


@pytest.mark.long
def test_a_run_says_that_nothing_tells_any_more_how_columns_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [noted(1, b"pens")])
    shop.say("note: {decode: utf8}")
    shop.run()
    (tmp_path / "lakehouse/_mainstem/silver.tables").unlink()
    assert "silver.tables was gone, which tells how columns were read" in shop.run()
    assert "how columns were read" not in shop.run()


@pytest.mark.long
def test_without_its_messages_a_table_is_read_as_before(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [noted(1, b"pens"), noted(2, b"inks")])
    shop.run()
    bronze = sql_name(f"{tmp_path}/lakehouse/bronze/messages")
    checkpoint = tmp_path / "lakehouse/_mainstem/silver"
    spark.sql(f"ALTER TABLE {bronze} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    spark.sql(f"DELETE FROM {bronze} WHERE `offset` = 1")
    shutil.rmtree(checkpoint)
    checkpoint.with_name("silver.reset").touch()
    shop.say("note: {decode: utf8}")
    shop.land("feed", [noted(3, b"caps")])
    assert KEPT in shop.run()
    assert shop.command("rebuild", "shop.item", "--from", "bronze")[0] != 0
    shop.land("feed", [noted(4, b"bags")])
    assert KEPT in shop.run()
    assert shop.notes() == {1: b"pens", 2: b"inks", 3: b"caps", 4: b"bags"}
    shop.say("")
    assert KEPT not in shop.run()


@pytest.mark.long
def test_a_lakehouse_of_an_earlier_release_notes_its_settings(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.say("note: {decode: utf8}")
    shop.land("feed", [noted(1, b"pens")])
    shop.run()
    file = tmp_path / "lakehouse/_mainstem/silver.tables"
    told = json.loads(file.read_text())
    del told["facts"]["readings"]
    file.write_text(json.dumps(told))
    assert KEPT not in shop.run()
    shop.say("")
    assert KEPT in shop.run()
    assert shop.notes() == {1: "pens"}
