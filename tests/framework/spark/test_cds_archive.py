from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from framework.spark.cds_archive import java_options


def test_archives_that_no_start_uses_any_more_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_CACHE", str(tmp_path))
    old, recent = tmp_path / "classes-0123456789abcdef.jsa", tmp_path / "classes-fedcba9876543210.jsa"
    for file in (old, recent):
        file.write_bytes(b"")
    os.utime(old, (time.time() - 40 * 86_400,) * 2)
    assert any("ArchiveClassesAtExit" in option for option in java_options())
    assert (old.exists(), recent.exists()) == (False, True)


def test_an_archive_in_a_folder_that_others_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_CACHE", str(tmp_path))
    tmp_path.chmod(0o777)
    assert java_options() == []
