"""Recorded feeds of real databases, landed as files, end as replicas that equal the tables, cell by cell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.real.tables import differences, replica_rows
from tests.silver.recordings import FOLDER, recorded_tables

CONFIG = """pipeline: recorded
lakehouse: ./lakehouse
sources:
  maria: {format: debezium, files: ./landing/maria, layout: kcat}
  postgres: {format: debezium, files: ./landing/postgres, layout: kcat}
tables:
  - {match: "shop.*", exclude: true}
  - {match: "shop.public.*", exclude: true}
  - {match: shop.kinds, exclude: false}
  - {match: shop.public.growing, exclude: false}
quality: false
"""


@pytest.mark.slow
def test_replicas_of_recorded_feeds_equal_the_tables(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    for source, prefix in (("maria", "mn"), ("postgres", "p")):
        (tmp_path / "landing" / source).mkdir(parents=True)
        shutil.copy(FOLDER / f"{prefix}.jsonl.gz", tmp_path / "landing" / source)
    config = tmp_path / "mainstem.yml"
    config.write_text(CONFIG)
    assert main(["run", "-c", str(config)]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["status", "--json", "-c", str(config)]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["quarantined"], status["pending_halves"]) == ({}, 0)
    tables = {"m": recorded_tables("m"), "p": recorded_tables("p")}
    entries = [e for e in status["tables"] if e["state"] == "active"]
    assert len(entries) == 2
    faults = []
    for entry in entries:
        table = tables["p" if entry["schema"] else "m"][entry["table"]]
        names, found = replica_rows(spark, entry["replica"], table.columns)
        wanted = [{"_" + n if n.startswith("_cdc_") else n: v for n, v in row.items()} for row in table.rows]
        faults += [f"{entry['schema']}.{entry['table']}: {d}" for d in differences(wanted, found, table.keys)]
        assert set(entry["keys"]) == set(table.keys)
        assert set(wanted[0]) <= set(names)
    assert not faults, "\n".join(faults[:40])
