from __future__ import annotations

import os
from pathlib import Path

import pytest

from framework.private_files import is_trusted, private_folder, replace_text


def test_text_is_replaced_whole_and_no_draft_stays(tmp_path: Path) -> None:
    file = tmp_path / "note"
    replace_text(file, "one\n")
    replace_text(file, "数\n")
    assert (file.read_text(encoding="utf-8"), [each.name for each in tmp_path.iterdir()]) == (
        "数\n",
        ["note"],
    )


def test_a_planted_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "note"
    victim.write_text("mine")
    file.symlink_to(victim)
    replace_text(file, "ours")
    assert (victim.read_text(), file.read_text(), file.is_symlink()) == ("mine", "ours", False)


def test_a_write_that_fails_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "note").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_text(tmp_path / "note", "x")
    assert [each.name for each in tmp_path.iterdir()] == ["note"]


def test_what_anybody_may_write_is_not_trusted(tmp_path: Path) -> None:
    folder, file = tmp_path / "cache", tmp_path / "cache" / "index"
    assert private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    file.write_text("x")
    assert is_trusted(file)
    file.chmod(0o666)
    assert not is_trusted(file)
    folder.chmod(0o777)
    assert not private_folder(folder)
    assert not is_trusted(tmp_path / "nothing")
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
        folder.chmod(0o700)
        assert not private_folder(folder)


@pytest.mark.parametrize(
    ("mode", "is_trusted"), [(0o700, True), (0o755, True), (0o775, False), (0o757, False)]
)
def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path, mode: int, is_trusted: bool) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    assert private_folder(folder) == is_trusted


def test_a_planted_link_to_a_folder_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "own")
    assert private_folder(tmp_path / "own")
    assert not private_folder(tmp_path / "cache")
