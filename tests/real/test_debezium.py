"""Debezium captures real databases through a real broker: every replica equals its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.real.capture import PREFIXES, Captured
from tests.real.columns import UNKNOWN_ENCODINGS
from tests.real.connectors import pipeline, table_rules
from tests.real.tables import differences, replica_rows

pytestmark = pytest.mark.real


def status_of(config: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--json", "-c", str(config)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def check_replicas(
    config: Path, prefix: str, captured: Captured, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    """Every table of the database, cell by cell, and an outcome for every message."""
    found = status_of(config, capsys)
    entries = {entry["table"]: entry for entry in found["tables"] if entry["state"] == "active"}
    workload = captured.workloads[prefix[0]]
    faults = []
    for table in workload.tables.values():
        if table.name == "cleared" and prefix.endswith("f"):
            continue  # flattening drops the TRUNCATE
        if table.name not in entries:
            faults.append(f"{table.name}: no active replica")
            continue
        unknown = UNKNOWN_ENCODINGS if prefix == "pn" else frozenset()
        names, rows = replica_rows(
            spark, entries[table.name]["replica"], [c for c in table.all_columns if c.name not in unknown]
        )
        wanted = [
            {own_name(n): v for n, v in row.items() if n not in unknown}
            for row in captured.rows(prefix[0], table)
        ]
        faults += [f"{table.name}: {d}" for d in differences(wanted, rows, [k.name for k in table.keys])]
        missing = {own_name(c.name) for c in table.all_columns} - set(names)
        faults += [f"{table.name}: no column {name}" for name in sorted(missing)]
    assert not faults, "\n".join(faults[:60])
    assert found["quarantined"] == {}
    messages = sum(
        high - low for t in captured.topics(prefix) for low, high in captured.broker.ends(t).values()
    )
    assert found["messages"] == messages


def own_name(name: str) -> str:
    return "_" + name if name.startswith("_cdc_") else name


@pytest.mark.parametrize("prefix", PREFIXES)
def test_replicas_equal_the_tables(
    prefix: str, captured: Captured, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    config = pipeline(
        tmp_path, prefix, captured.broker.address, table_rules(prefix, captured.workloads[prefix[0]])
    )
    assert main(["run", "-c", str(config)]) == 0, capsys.readouterr().err
    check_replicas(config, prefix, captured, capsys, spark)
