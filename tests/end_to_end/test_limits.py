"""Extreme feeds: a message of 500 MB, one busy table among fifty new ones. Memory and threads stay bounded.

MAINSTEM_LIMITS=1 python -m pytest -s tests/end_to_end/test_limits.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import gold.job
from framework.cli import main
from gold.writing.apply import apply_table
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_crashes import ROOT
from tests.end_to_end.test_repair import command
from tests.processes import kill_tree, memory_of

IS_ON = bool(os.environ.get("MAINSTEM_LIMITS"))
MB = 2**20
MOST_BYTES = 4 * 1024 * MB


def run_watched(command: Sequence[str], log: Path) -> tuple[int, int]:
    """The exit code of a command, and the most bytes that it held."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MAINSTEM_DRIVER_MEMORY": "2g"}
    most = 0
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream, stderr=stream)
        try:
            while process.poll() is None:
                most = max(most, memory_of(process.pid))
                time.sleep(0.3)
        finally:
            kill_tree(process)
    return process.returncode, most


@pytest.mark.skipif(not IS_ON, reason="huge messages are for make limits")
def test_a_message_of_500_mb_is_quarantined_and_one_of_60_is_a_row(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "landing").mkdir()
    config = tmp_path / "mainstem.yml"
    source = "  feed: {format: datahub_blob, files: ./landing, pairing_timeout: 10 minutes}\n"
    config.write_text(f"pipeline: shop\nlakehouse: ./lakehouse\nsources:\n{source}", encoding="utf-8")
    large = "x" * (60 * MB)
    with (tmp_path / "landing" / "part.jsonl").open("w", encoding="utf-8") as file:
        print(json.dumps(message("INSERT", 1, after=item(1, "before", 1.0))), file=file)
        begun, rest = json.dumps(message("INSERT", 2, after=item(2, "HUGE", 1.0))).split("HUGE")
        file.write(begun)
        for _ in range(500):
            file.write("x" * MB)
        print(rest, file=file)
        print(json.dumps(message("INSERT", 3, after=item(3, "behind", 1.0))), file=file)
    (tmp_path / "landing" / "other.jsonl").write_text(
        "\n".join(
            json.dumps(message("INSERT", n, after=item(n, name, 1.0), tableName="line"))
            for n, name in ((1, large), (2, "small"))
        ),
        encoding="utf-8",
    )
    log = tmp_path / "run.log"
    code, most = run_watched(
        [sys.executable, "-m", "framework.cli", "run", "--through", "gold", "-c", str(config)], log
    )
    print(f"at most {most / MB:,.0f} MB")
    assert code == 0, log.read_text()
    assert most < MOST_BYTES
    names = {
        table: {
            row["id"]: len(row["name"])
            for row in DeltaTable(str(tmp_path / "lakehouse/gold/shop" / table))
            .to_pyarrow_table()
            .to_pylist()
        }
        for table in ("item", "line")
    }
    assert names == {"item": {1: 6, 3: 6}, "line": {1: 60 * MB, 2: 5}}
    capfd.readouterr()
    assert main(["status", "--json", "-c", str(config)]) == 0
    status = json.loads(capfd.readouterr().out)
    assert (status["messages"], status["changes"], status["quarantined"]) == (5, 4, {"too_large": 1})


@pytest.mark.skipif(not IS_ON, reason="fifty tables in a batch are for make limits")
def test_fifty_new_tables_beside_a_busy_one_are_all_right_in_bounded_threads(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, apply, at_once, most = Shop(spark, tmp_path), apply_table, list[int](), list[int]()
    guard = threading.Lock()

    def counted(*words: Any, **more: Any) -> Any:
        with guard:
            at_once.append(1)
            most.append(len(at_once))
        try:
            return apply(*words, **more)
        finally:
            with guard:
                at_once.pop()

    monkeypatch.setattr(gold.job, "apply_table", counted)
    busy = [
        message("INSERT", n, after=item(n % 2000, f"row {n}", 1.0), tableName="busy") for n in range(1, 5001)
    ]
    new = [message("INSERT", n, after=item(n, "new", 1.0), tableName=f"new_{n}") for n in range(1, 51)]
    shop.land([*busy[:2500], *new, *busy[2500:]])
    assert command(shop, capsys, "run")[0] == 0
    assert len(most) == 51
    assert max(most) <= gold.job.THREADS
    rows = shop.rows("shop/busy")
    assert (len(rows), rows[0]["name"], rows[1]["name"]) == (2000, "row 4000", "row 4001")
    for number in range(1, 51):
        assert shop.rows(f"shop/new_{number}") == {number: item(number, "new", 1.0)}
