"""Each task of the bundle's jobs runs by its own command line, from the wheel alone in a new environment.

A wheel that is only read costs little; `make test-wheel` installs it with Spark into an empty environment and
runs the tasks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("databricks.bundles", reason="the group `bundle` of pyproject.toml is not installed")

from tests.architecture.bundle import read_bundle, target_names
from tests.architecture.bundle_checks import arguments
from tests.architecture.wheel import ROOT, built_wheel, uv_program

TABLE = "trade.orders"
STILL_SECONDS = 1.1
"""A file is read once it has not changed for a second."""
SETTINGS = "MAINSTEM_PIPELINE=wheel"
CONFIG = """pipeline: ${env:MAINSTEM_PIPELINE}
lakehouse: ./lakehouse
sources:
  trade: {format: datahub_blob, files: ./landing/trade, pairing_timeout: 10 minutes}
  ledger: {format: canal, files: ./landing/ledger}
quality: {}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


def commands(table: str) -> dict[str, list[str]]:
    """The arguments of each task, in the order of a complete run; equal in all targets except for rounds."""
    found: dict[str, list[str]] = {}
    for target in target_names(ROOT):
        for job, task in read_bundle(ROOT, target).wheel_tasks:
            words = arguments(job, task, table)
            words[words.index("--env") + 1] = SETTINGS  # the names of schemas differ from target to target
            name = f"{task['task_key']} in rounds" if "--continuous" in words else task["task_key"]
            assert found.setdefault(name, words) == words
    return found


def test_the_wheel_reads_the_command_line_of_each_task(wheel: Path, tmp_path: Path) -> None:
    script = (
        "import json, sys, framework.cli.parser as cli; assert '.whl' in cli.__file__, cli.__file__; "
        "[cli.read_options(each) for each in json.loads(sys.argv[1])]; assert callable(cli.job)"
    )
    every = json.dumps(list(commands(TABLE).values()))
    done = subprocess.run(
        [sys.executable, "-c", script, every],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class Installed:
    """The wheel in a new environment, without this project on its path, and a pipeline to run."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "env" / "bin"
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        self._uv("venv", "--quiet", "--python", python, str(folder / "env"))
        self._uv("pip", "install", "--quiet", "--python", str(self.bin / "python"), f"{wheel}[local]")

    def _uv(self, *words: str) -> None:
        done = subprocess.run(
            [uv_program(), *words], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", "SPARK", "PYSPARK"))
        }
        return {**kept, "PATH": f"{self.bin}:{kept['PATH']}"}

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / program, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )

    def task(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """A task as a job calls it, with the configuration's place on this machine."""
        return self.run("mainstem-job", *self.local(words))

    def local(self, words: list[str]) -> list[str]:
        return [
            str(self.folder / "mainstem.yml") if word.startswith("/Workspace/") else word for word in words
        ]

    def status(self) -> dict[str, Any]:
        config = str(self.folder / "mainstem.yml")
        finished = self.run("mainstem", "status", "--json", "-c", config, "--env", SETTINGS)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    if "MAINSTEM_WHEEL" not in os.environ:
        pytest.skip("installs Spark into an empty environment: make test-wheel")
    place = Installed(wheel, tmp_path_factory.mktemp("installed"))
    (place.folder / "mainstem.yml").write_text(CONFIG, encoding="utf-8")
    for source, name in (("trade", "datahub_blob"), ("ledger", "canal")):
        sample = place.run("mainstem", "formats", "--sample", name)
        assert sample.returncode == 0, sample.stderr
        file = place.folder / "landing" / source / "part-1.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(sample.stdout, encoding="utf-8")
    time.sleep(STILL_SECONDS)
    return place


def test_each_task_of_the_bundle_works_from_the_wheel_alone(installed: Installed) -> None:
    whose = installed.run(
        "python",
        "-c",
        "import framework, importlib.metadata as m; print(framework.__file__, m.version('pyspark'))",
    )
    assert whose.stdout.startswith(str(installed.folder)), whose
    tasks = commands(TABLE)
    appeared: dict[str, list[str]] = {}
    for name in ("validate", "run"):
        ran(installed, name, tasks[name])
        appeared[name] = sorted(
            path.parent.relative_to(installed.folder / "lakehouse").as_posix() for path in tables(installed)
        )
    assert appeared["validate"] == []
    assert {"bronze/messages", "silver/changes", "silver/schemas", "ops/batches"} <= set(appeared["run"])
    status = installed.status()
    replicas = {f"{table['database']}.{table['table']}": table for table in status["tables"]}
    assert replicas, status
    assert {table["state"] for table in replicas.values()} <= {"active", "append_only"}
    assert all((Path(table["replica"]) / "_delta_log").is_dir() for table in replicas.values())

    chosen = next(name for name, table in sorted(replicas.items()) if table["state"] == "active")
    for name in ("replay", "rebuild_table", "maintenance", "quality", "continuous"):
        ran(installed, name, commands(chosen)[name])
    assert (installed.folder / "lakehouse" / "ops" / "quality_results" / "_delta_log").is_dir()
    assert counts(installed.status()) == counts(status)


def test_a_task_that_fails_fails_its_run(installed: Installed) -> None:
    failed = installed.task(commands("no.such_table")["rebuild_table"])
    assert failed.returncode != 0
    assert "TASK_FAILED" in failed.stderr


def test_rounds_go_on_until_the_job_is_cancelled(installed: Installed) -> None:
    words = installed.local(commands(TABLE)["continuous in rounds"])
    assert words[-2:] == ["--continuous", "30s"]
    landed = installed.folder / "landing" / "trade" / "part-2.jsonl"
    landed.write_text((landed.parent / "part-1.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    time.sleep(STILL_SECONDS)
    process = subprocess.Popen(
        [installed.bin / "mainstem-job", *words],
        cwd=installed.folder,
        env=installed.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()  # a round that found something has ended
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0
    finally:
        process.kill()
        process.wait()


def ran(installed: Installed, name: str, words: list[str]) -> None:
    done = installed.task(words)
    assert done.returncode == 0, (name, done.stdout[-2000:], done.stderr[-2000:])
    print(f"{name}: mainstem-job {' '.join(words)}")


def tables(installed: Installed) -> Iterator[Path]:
    return (installed.folder / "lakehouse").rglob("_delta_log")


def counts(status: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{table['database']}.{table['table']}": (table["state"], table["rows"]) for table in status["tables"]
    }
