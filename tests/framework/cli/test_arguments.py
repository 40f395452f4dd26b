"""What the command line says about words that it does not know."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.commands import doctor


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sttus"], "invalid choice: 'sttus' (did you mean 'status'? allowed: demo, detect, "),
        (["run", "--through", "slver"], "invalid choice: 'slver' (did you mean 'silver'? allowed: "),
        (["run", "--throgh", "gold"], "unrecognized arguments: --throgh gold (did you mean --through?)"),
        (["sql", "SELECT 1", "--limt=3"], "unrecognized arguments: --limt=3 (did you mean --limit?)"),
        (["status", "everything"], "unrecognized arguments: everything\n"),
        (["status", "--xyz"], "unrecognized arguments: --xyz\n"),
    ],
)
def test_a_misspelt_word_is_told_with_the_nearest_one(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mainstem {version('mainstem')}\n"


def test_an_unexpected_error_names_its_class_and_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(root: str | None) -> list[doctor.Finding]:
        raise KeyError("colour")

    monkeypatch.setattr(doctor, "diagnose", fail)
    assert main(["doctor", "-c", f"{tmp_path}/none.yml"]) == 1
    assert capsys.readouterr().err.splitlines()[:3] == [
        "error: UNEXPECTED_ERROR",
        "  found: KeyError: 'colour'",
        f"  where: mainstem doctor -c {tmp_path}/none.yml",
    ]


def test_a_command_that_is_stopped_says_that_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stop(root: str | None) -> list[doctor.Finding]:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "diagnose", stop)
    assert main(["doctor", "-c", f"{tmp_path}/none.yml"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: INTERRUPTED\n")
    assert "do:    run again: nothing is lost or doubled" in error
