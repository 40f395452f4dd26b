from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.cli import main


def test_validate_tells_a_landing_folder_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: datahub_blob, files: ./landing}\n"
    )
    assert main(["validate", "-c", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"error: LANDING_FOLDER_MISSING\n  found: no folder {tmp_path}/landing\n"
        f"  where: {file}: sources.feed.files (line 4, column 32)\n"
        "  do:    create the folder, or correct `files:`\n"
        "  more:  mainstem explain LANDING_FOLDER_MISSING\n"
    )
    assert main(["validate", "-c", str(file), "--schema"]) == 0


def test_env_says_what_a_reference_of_the_configuration_stands_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAINSTEM_TEST_NAME", "MAINSTEM_TEST_PLACE"):
        monkeypatch.setenv(name, "not this")  # so that it is restored afterwards
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: ${env:MAINSTEM_TEST_NAME}\nlakehouse: ./lake\nsources:\n"
        "  feed: {format: canal, files: '${env:MAINSTEM_TEST_PLACE}'}\n"
    )
    (tmp_path / "a=b").mkdir()
    given = f"MAINSTEM_TEST_NAME=shop,MAINSTEM_TEST_PLACE={tmp_path}/a=b"
    assert main(["validate", "--json", "-c", str(file), "--env", given]) == 0
    assert json.loads(capsys.readouterr().out)["pipeline"] == "shop"
    assert main(["validate", "-c", str(file), "--env", "MAINSTEM_TEST_NAME=No!"]) == 2
    assert "CONFIG" in capsys.readouterr().err


def test_a_landing_folder_behind_a_reference_is_looked_for_and_named_as_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_TEST_LANDING", "not this")  # so that it is restored afterwards
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n"
        "  feed: {format: canal, files: '${env:MAINSTEM_TEST_LANDING}orders'}\n"
    )
    given = f"MAINSTEM_TEST_LANDING={tmp_path}/hidden/"
    assert main(["validate", "-c", str(file), "--env", given]) == 2
    told = capsys.readouterr().err
    assert "found: no folder ${env:MAINSTEM_TEST_LANDING}orders\n" in told
    assert "create the folder, or correct `files:`" in told
    assert "hidden" not in told
    (tmp_path / "hidden" / "orders").mkdir(parents=True)
    assert main(["validate", "-c", str(file), "--env", given]) == 0
    assert main(["validate", "-c", str(file), "--env", "MAINSTEM_TEST_LANDING=/Volumes/main/x/y/"]) == 0


def test_the_file_alone_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mainstem.yml"
    text = "pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: canal, files: ./none}\n"
    file.write_text(text)
    assert main(["validate", "-c", str(file)]) == 2
    assert "error: LANDING_FOLDER_MISSING\n" in capsys.readouterr().err
    assert main(["validate", "--without-folders", "-c", str(file)]) == 0
    file.write_text(text.replace("canal", "canl"))
    assert main(["validate", "--without-folders", "-c", str(file)]) == 2
    assert "error: CONFIG_UNKNOWN_FORMAT\n" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["", "NAME", "=x", "A=1,", "1A=x", "A B=x"])
def test_env_takes_names_and_values(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--env", given]) == 2
    assert "do:    write NAME=VALUE" in capsys.readouterr().err


def test_a_pattern_of_files_is_answered_with_their_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./l\nsources:\n  a: {format: maxwell, files: './landing/*.json'}\n"
    )
    assert main(["validate", "-c", str(file)]) == 2
    assert f"write the folder alone, {tmp_path}/landing: every file below it" in capsys.readouterr().err


def test_a_dump_that_is_not_there_is_missed_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mainstem.yml"
    (tmp_path / "landing").mkdir()
    file.write_text("pipeline: shop\nlakehouse: ./l\nsources:\n  a: {format: maxwell, files: ./landing}\n")
    words = ["seed", "app.t", "--from", str(tmp_path / "no.csv"), "--position", "1", "-c", str(file)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "NO_SUCH_PATH" in error
    assert f"--from {tmp_path}/no.csv" in error
