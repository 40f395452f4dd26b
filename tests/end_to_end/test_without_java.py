"""`status` and `report` of a local lakehouse: they answer where no Java is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.archives import unpack

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "tests/fixtures/lakehouses/before_rooms.tar.xz"
TABLES = ("customer", "order_line", "orders", "price")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lakehouse of earlier code, with history, halves that wait, and messages in quarantine.

    Its replicas are where its log says, so that their rows are counted.
    """
    folder = tmp_path_factory.mktemp("kept")
    unpack(ARCHIVE, folder)
    return folder


def command(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that finds no Java: starting a session fails there."""
    without = {"PATH": "", "JAVA_HOME": str(folder / "no-java"), "PYTHONPATH": str(ROOT)}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
    return subprocess.run(
        [sys.executable, "-m", "mainstem", *words, "-c", str(folder / "mainstem.yml")],
        env={**inherited, **without, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def answer(folder: Path, *words: str) -> dict[str, Any]:
    found = command(folder, *words, "--json")
    assert found.returncode == 0, found.stderr
    return dict(json.loads(found.stdout))


def test_status_needs_no_java(folder: Path) -> None:
    status = answer(folder, "status")
    assert [table["table"] for table in status["tables"]] == ["price", *TABLES[:3]]
    assert {table["state"] for table in status["tables"]} == {"active"}
    assert (status["messages"], status["changes"], status["pending_halves"]) == (109, 64, 4)
    assert status["quarantined"] == {"truncated": 1, "unknown_op": 1}
    assert status["without_fate"] == 0


def test_report_needs_no_java(folder: Path) -> None:
    report = answer(folder, "report", "--output", str(folder / "report.html"))
    assert sorted(table["table"] for table in report["tables"]) == sorted(TABLES)
    assert {sample["reason"] for sample in report["quarantine"]["samples"]} == {"truncated", "unknown_op"}
    assert sum(waiting["rows"] for waiting in report["waiting"]) == 4
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_metrics_and_sources_of_dbt_need_no_java(folder: Path) -> None:
    found = command(folder, "metrics")
    assert found.returncode == 0, found.stderr
    assert 'mainstem_messages{pipeline="kept"} 109.0' in found.stdout
    assert "  - name: shop__order_line\n" in command(folder, "dbt-sources").stdout


def test_the_process_of_these_tests_can_start_no_session(folder: Path) -> None:
    """Else the other tests would show nothing."""
    found = command(folder, "status", "--verify")
    assert found.returncode == 1
    assert "JAVA" in found.stderr.upper()


def test_what_is_on_spark_connect_is_read_by_spark(folder: Path) -> None:
    found = command(folder, "status", SPARK_REMOTE="local[1]")
    assert found.returncode == 1


def test_nothing_has_run_yet(folder: Path, tmp_path: Path) -> None:
    shutil.copyfile(folder / "mainstem.yml", tmp_path / "mainstem.yml")
    assert (answer(tmp_path, "status")["messages"], answer(tmp_path, "status")["tables"]) == (0, [])


def test_the_lakehouse_of_another_pipeline_is_refused(folder: Path, tmp_path: Path) -> None:
    text = (folder / "mainstem.yml").read_text().replace("pipeline: kept", "pipeline: other")
    (tmp_path / "mainstem.yml").write_text(text.replace("./lakehouse", str(folder / "lakehouse")))
    found = command(tmp_path, "status")
    assert found.returncode == 1
    assert "LAKEHOUSE_TAKEN" in found.stderr


def test_status_imports_neither_spark_nor_pandas(folder: Path) -> None:
    """They take longer to import than everything that the command does."""
    program = (
        "import sys; from framework.cli import main; "
        f"assert main(['status', '-c', {str(folder / 'mainstem.yml')!r}]) == 0; "
        ""
        "print([n for n in ('pyspark', 'pandas', 'numpy', 'sqlglot') if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == "[]"
