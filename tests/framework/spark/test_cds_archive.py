from __future__ import annotations

import os
import subprocess
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


def test_of_archives_that_several_starts_have_written_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_CACHE", str(tmp_path))
    (option,) = (option for option in java_options() if "ArchiveClassesAtExit" in option)
    draft = option.partition("=")[2].rpartition(".")[0]
    starts = [subprocess.Popen(["true"]) for _ in range(2)]
    for start in starts:
        start.wait()
    for owner in (os.getpid(), *(start.pid for start in starts)):
        Path(f"{draft}.{owner}").write_bytes(b"classes")
    assert java_options()[0] == f"-XX:SharedArchiveFile={draft}"
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        Path(draft).name, f"{Path(draft).name}.{os.getpid()}"
    ]  # fmt: skip


def test_an_archive_in_a_folder_that_others_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_CACHE", str(tmp_path))
    tmp_path.chmod(0o777)
    assert java_options() == []
