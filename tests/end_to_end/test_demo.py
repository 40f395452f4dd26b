"""The demo as a stranger sees it: a table goes wrong and is repaired, and what it offers to try works."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.framework.demo.story import tell


@pytest.mark.slow
@pytest.mark.end_to_end
def test_the_demo_repairs_a_table_and_its_commands_work(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "it's a demo"
    assert main(["demo", "--folder", str(folder)]) == 0
    printed = capsys.readouterr().out.splitlines()

    (parked,) = (line for line in printed if "PARKED" in line)
    assert "hr.employee" in parked
    assert "schema_policy fail" in parked
    first, second, third = (line for line in printed if line.startswith(" done: "))
    assert "from 0 messages" in third, (first, second)

    for table in tell().tables:
        place = folder / "lakehouse" / "gold" / table.database / table.name
        rows = spark.read.format("delta").load(str(place)).collect()
        assert {tuple(str(row[key]) for key in table.keys) for row in rows} == set(table.rows), table.name
        if table.name == "employee":
            assert {row["name"]: row["team"] for row in rows} == {
                row["name"]: row["team"] for row in table.rows.values()
            }

    commands = printed[printed.index("five commands to try:") + 1 :]
    said = []
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
        said.append(capsys.readouterr().out)
    status, rows_of_sql, trace, explained, detected = said
    assert "shop.orders" in status
    assert "Packing" in rows_of_sql
    assert "99.99" in trace
    assert "schema_policy: lenient" in explained
    assert "debezium" in detected
