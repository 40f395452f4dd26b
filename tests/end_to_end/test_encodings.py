"""Decimals that may be text or base64 wait until a setting or a later value decides, and none is lost."""

from __future__ import annotations

import gzip
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.real.modes import FOLDER
from tests.real.tables import differences, replica_rows
from tests.silver.recordings import recorded_tables

SOURCES = ("late", "mixed", "stated", "hidden")
COLUMNS = (("id", "INT", None), ("amount", "DECIMAL", 20), ("raw", "BLOB", None))


class Feeds:
    """Debezium's messages without schema blocks, as `kcat -J` prints them, in one landing folder a source."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.offsets: dict[str, int] = {}

    def land(self, source: str, *amounts: str) -> None:
        """One file: the table's definition when it is the source's first, and a row for each amount."""
        lines = []
        if source not in self.offsets:
            columns = [
                {
                    "name": n,
                    "typeName": kind,
                    "typeExpression": kind,
                    "length": length,
                    "scale": 0 if length else None,
                }
                for n, kind, length in COLUMNS
            ]
            change = {
                "type": "CREATE",
                "id": f'"shop"."{source}"',
                "table": {"primaryKeyColumnNames": ["id"], "columns": columns},
            }
            value = {
                "source": self._at(source, 0) | {"snapshot": "true"},
                "databaseName": "shop",
                "ddl": "",
                "tableChanges": [change],
                "ts_ms": 1,
            }
            lines.append(self._line(source, "crm", {"databaseName": "shop"}, value))
        for amount in amounts:
            key = {"id": self.offsets.get(source, 0)}
            after = {**key, "amount": amount, "raw": None}
            lines.append(
                self._line(
                    source,
                    f"crm.shop.{source}",
                    key,
                    {"op": "c", "before": None, "after": after, "source": self._at(source, key["id"])},
                )
            )
        folder = self.place / source
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.offsets[source]}.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def _at(self, source: str, n: int) -> dict[str, Any]:
        return {
            "connector": "mariadb",
            "db": "shop",
            "table": source,
            "file": "bin.1",
            "pos": 100 + n,
            "row": 0,
            "server_id": 1,
            "ts_ms": 1709200800000 + n,
        }

    def _line(self, source: str, topic: str, key: Any, value: Any) -> str:
        offset = self.offsets.get(source, 0)
        self.offsets[source] = offset + 1
        return json.dumps(
            {
                "topic": topic,
                "partition": 0,
                "offset": offset,
                "ts": 1709200800000,
                "key": json.dumps(key),
                "payload": json.dumps(value),
            }
        )


def configure(place: Path, **settings: str) -> str:
    sources = "".join(
        f"  {name}: {{format: debezium, files: ./landing/{name}, layout: kcat{settings.get(name, '')}}}\n"
        for name in (*SOURCES, "recorded")
    )
    file = place / "mainstem.yml"
    file.write_text(
        f"pipeline: modes\nlakehouse: ./lakehouse\nsources:\n{sources}tables:\n  - {{match: shop.hidden, "
        f"exclude: true}}\nquality: false\n"
    )
    return str(file)


def amounts(spark: SparkSession, place: Path, table: str) -> list[Decimal] | None:
    """The column of a replica in the order of its keys; None where there is no replica."""
    path = place / "lakehouse" / "gold" / "shop" / table
    return (
        [
            row[0]
            for row in spark.read.format("delta").load(str(path)).orderBy("id").select("amount").collect()
        ]
        if path.exists()
        else None
    )


def quarantined(config: str, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    capsys.readouterr()
    assert main(["status", "--verify", "--json", "-c", config]) == 0
    found = json.loads(capsys.readouterr().out)["quarantined"]
    assert isinstance(found, dict)
    return found


@pytest.mark.long
def test_ambiguous_decimals_wait_for_a_setting_or_for_evidence(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    feeds = Feeds(tmp_path / "landing")
    for source in SOURCES:
        feeds.land(source, "1234", "12345678")
    feeds.land("mixed", "-5")
    (tmp_path / "landing" / "recorded").mkdir()
    recorded = gzip.decompress((FOLDER / "m1.jsonl.gz").read_bytes()).decode().splitlines(keepends=True)
    lines = [line for line in recorded if json.loads(line)["topic"].split(".")[0] == "m1n"]
    (tmp_path / "landing" / "recorded" / "m1n.jsonl").write_text("".join(lines), encoding="utf-8")

    config = configure(tmp_path, stated=", decimals: base64")
    assert main(["run", "-c", config]) == 1
    errors = capsys.readouterr().err
    assert "ENCODING_UNKNOWN" in errors
    assert "source late" in errors
    assert "write `decimals:`" in errors
    assert amounts(spark, tmp_path, "late") is None
    assert amounts(spark, tmp_path, "stated") == [-2658824, -44607649370372]
    assert amounts(spark, tmp_path, "mixed") == [1234, 12345678, -5]
    table = recorded_tables("m", FOLDER)["modes"]
    _, rows = replica_rows(spark, str(tmp_path / "lakehouse" / "gold" / "shop" / "modes"), table.columns)
    assert differences(table.rows, rows, table.keys) == []

    feeds.land("late", "12345678", "-7")
    feeds.land("mixed", "BNI=", "5")
    assert main(["run", "-c", config]) == 1
    errors = capsys.readouterr().err
    assert "ENCODING_CONTRADICTED" in errors
    assert "source late" not in errors
    assert amounts(spark, tmp_path, "late") == [1234, 12345678, 12345678, -7]
    assert amounts(spark, tmp_path, "mixed") == [1234, 12345678, -5]

    shutil.rmtree(
        tmp_path / "lakehouse" / "ops" / "encodings"
    )  # what has been seen before still contradicts what comes
    feeds.land("mixed", "-8", "7777")
    assert main(["run", "-c", config]) == 1
    errors = capsys.readouterr().err
    assert "ops/encodings was gone" in errors
    assert "ENCODING_CONTRADICTED" in errors
    assert amounts(spark, tmp_path, "mixed") == [1234, 12345678, -5]

    config = configure(tmp_path, stated=", decimals: base64", mixed=", decimals: text")
    assert main(["run", "-c", config]) == 0
    assert amounts(spark, tmp_path, "mixed") == [1234, 12345678, -5, 5, -8, 7777]
    assert quarantined(config, capsys) == {"encoding_contradicted": 1}
    assert main(["rebuild", "shop.late", "--from", "bronze", "-c", config]) == 0
    assert amounts(spark, tmp_path, "late") == [1234, 12345678, 12345678, -7]
