"""A file for another tool replaces its former version, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.cli.commands.exports.own_file import write_own_file
from framework.errors import MainstemError


@pytest.mark.parametrize("former", [None, "", "# mine\nold"])
def test_an_own_file_is_replaced(former: str | None, tmp_path: Path) -> None:
    file = tmp_path / "a.prom"
    if former is not None:
        file.write_text(former, encoding="utf-8")
    write_own_file(file, "# mine\nnew", "# mine")
    assert file.read_text(encoding="utf-8") == "# mine\nnew"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    file = tmp_path / "sources.yml"
    file.write_text("version: 2\n", encoding="utf-8")
    with pytest.raises(MainstemError) as error:
        write_own_file(file, "# mine\nnew", "# mine")
    assert error.value.condition == "FILE_NOT_WRITTEN"
    assert file.read_text(encoding="utf-8") == "version: 2\n"


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MainstemError) as error:
        write_own_file(tmp_path / "gone/a.prom", "# mine", "# mine")
    assert error.value.condition == "FILE_NOT_WRITTEN"
