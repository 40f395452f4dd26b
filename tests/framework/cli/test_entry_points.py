"""The entry point of scheduled jobs: what calls it sees exceptions alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from framework.cli import parser
from framework.errors import MainstemError


def test_a_job_returns_when_its_command_has_ended_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser.job(["formats", "--sample", "canal"]) is None
    assert parser.job(["--version"]) is None
    assert capsys.readouterr().out


def test_a_job_raises_when_its_command_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MainstemError) as raised:
        parser.job(["validate", "-c", str(tmp_path / "none.yml")])
    assert raised.value.condition == "TASK_FAILED"
    assert "exit code 2" in raised.value.found
    assert "CONFIG_NOT_FOUND" in capsys.readouterr().err


def test_a_job_raises_when_a_table_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "main", lambda arguments: 3)
    with pytest.raises(MainstemError) as raised:
        parser.job(["run"])
    assert "parked" in raised.value.found


def test_a_step_of_a_job_ends_well_when_a_table_is_parked_and_leaves_the_verdict_to_the_last_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parser, "main", lambda arguments: 3)
    assert parser.step(["run", "--through", "gold"]) is None
    assert "parked" in capsys.readouterr().err


@pytest.mark.parametrize("code", [1, 2])
def test_a_step_of_a_job_raises_for_what_another_attempt_may_mend(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(parser, "main", lambda arguments: code)
    with pytest.raises(MainstemError) as raised:
        parser.step(["run", "--through", "gold"])
    assert f"exit code {code}" in raised.value.found


def test_a_job_raises_when_its_command_is_not_understood() -> None:
    with pytest.raises(MainstemError) as raised:
        parser.job(["run", "--through", "platinum"])
    assert raised.value.condition == "TASK_FAILED"


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"], ["sttus"], ["explain"]])
def test_help_versions_and_explanations_do_not_wait_for_heavy_packages(words: list[str]) -> None:
    code = (
        "import sys; from framework.cli import main; main(sys.argv[1:]); print('loaded:', sorted({'pyspark', "
        "'pandas', 'pyarrow', 'great_expectations', 'jinja2', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_without_spark_a_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parser, "import_module", _without_spark)
    assert parser.main(["status"]) == 1
    assert "error: PYSPARK_MISSING\n" in capsys.readouterr().err


def _without_spark(name: str) -> None:
    raise ModuleNotFoundError(f"no module for {name}", name="pyspark")
