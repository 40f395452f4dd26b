"""Settings by which columns are read, changed in the middle of a feed, hold for all rows of their table."""

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
from framework.lakehouse.lakehouse import sql_name
from tests.end_to_end.test_identity import TS, Topics
from tests.end_to_end.test_late_definitions import line, row, source

AGAIN = "shop.item: decoded again, because the configuration says something else of its columns"


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

    def say(self, columns: str) -> None:
        """What the configuration says about the columns from now on."""
        rule = f"tables:\n  - {{match: shop.item, columns: {{{columns}}}}}\n" if columns else ""
        (self.folder / "mainstem.yml").write_text(self.text + rule, encoding="utf-8")

    def run(self, code: int = 0) -> str:
        """Runs the pipeline: what it says."""
        self.capsys.readouterr()
        assert main(["run", "-c", str(self.folder / "mainstem.yml")]) == code
        return self.capsys.readouterr().err

    def notes(self) -> dict[int, Any]:
        return {found["id"]: found["note"] for found in self.rows("shop/item")}


@pytest.mark.long
def test_a_codec_that_is_set_or_changed_later_reads_all_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [noted(1, "中".encode("gbk")), noted(2, b"yes", table="more")])
    assert AGAIN not in shop.run()
    assert shop.notes() == {1: "中".encode("gbk")}

    shop.say("note: {decode: latin-1}")
    shop.land("feed", [noted(3, "文".encode("gbk"))])
    assert AGAIN in shop.run()
    assert shop.notes() == {1: "ÖÐ", 3: "ÎÄ"}
    assert AGAIN not in shop.run()

    shop.say("note: {decode: gbk}")
    assert AGAIN in shop.run()
    assert shop.notes() == {1: "中", 3: "文"}
    shop.status()

    shop.say("")
    assert shop.command("rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert AGAIN not in shop.run()
    assert shop.notes() == {1: "中".encode("gbk"), 3: "文".encode("gbk")}
    assert {found["note"] for found in shop.rows("shop/more")} == {b"yes"}


@pytest.mark.long
def test_a_sign_an_encoding_or_a_type_that_is_set_later_reads_all_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Readings(tmp_path, capsys)
    shop.land("feed", [row(1, {"id": 1, "total": -1, "day": 19000, "at": 1_000})])
    shop.run()
    shop.say(
        'total: {type: "decimal(20,0)", unsigned: true}, day: {type: date},'
        " at: {type: timestamp_ntz, encoding: milliseconds}"
    )
    shop.land("feed", [row(2, {"id": 2, "total": -1, "day": 19000, "at": 1_000})])
    assert AGAIN in shop.run()
    one, other = sorted(shop.rows("shop/item"), key=lambda found: int(found.pop("id")))
    assert one == other
    assert (one["total"], str(one["day"])) == (Decimal(2**64 - 1), "2022-01-08")

    shop.say(
        'total: {type: "decimal(20,0)"}, day: {type: date}, at: {type: timestamp_ntz, encoding: microseconds}'
    )
    assert AGAIN in shop.run()
    assert [found["total"] for found in shop.rows("shop/item")] == [Decimal(-1)] * 2
    assert [found["at"].microsecond for found in shop.rows("shop/item")] == [1_000] * 2


@pytest.mark.long
def test_without_its_messages_a_table_is_read_as_before_until_the_setting_is_taken_back(
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
    for _ in range(2):
        found = shop.run(code=1)
        assert "BRONZE_TOO_SHORT" in found
        assert "take the settings of its columns back" in found
        assert shop.notes() == {1: b"pens", 2: b"inks", 3: b"caps"}
    shop.say("")
    assert AGAIN not in shop.run()
    assert shop.notes() == {1: b"pens", 2: b"inks", 3: b"caps"}


@pytest.mark.long
def test_a_lakehouse_of_an_earlier_release_is_not_decoded_again(
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
    assert AGAIN not in shop.run()
    shop.say("")
    assert AGAIN in shop.run()
    assert shop.notes() == {1: b"pens"}
