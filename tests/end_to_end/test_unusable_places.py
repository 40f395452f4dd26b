"""A full disk, or a target that cannot be written or is gone: the run says so, and continues later."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import gold.writing.apply
import gold.writing.replica_and_history
from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_crashes import CHAOS
from tests.end_to_end.test_repair import broken, command

STAGES = ("bronze", "silver", "gold")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file system of its own, of 32 MB."""
    folder = tmp_path / "lakehouse"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], capture_output=True, check=False
    ).returncode:
        pytest.skip("a full disk needs the right to mount a small one")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No room is left on the disk meanwhile."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing below the folder can be made meanwhile, by nobody."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    if os.geteuid():
        lock, unlock = ["chmod", "a-w"], ["chmod", "u+w"]
    else:  # rights are nothing to root
        lock, unlock = ["chattr", "+i"], ["chattr", "-i"]
    try:
        if subprocess.run([*lock, *folders], capture_output=True, check=False).returncode:
            pytest.skip("this file system cannot forbid root to write")
        yield
    finally:
        subprocess.run([*unlock, *folders], capture_output=True, check=False)


def run(shop: Shop, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["run", *words, "-c", str(shop.folder / "mainstem.yml")])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.skipif(not CHAOS, reason="a disk that is full three times over is for make chaos")
def test_a_full_disk_ends_the_run_with_the_reason_and_the_next_one_goes_on(
    spark: SparkSession, tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.0))])
    assert run(shop, capsys)[0] == 0
    rows = {1: item(1, "pen", 1.0)}
    for number, stage in enumerate(STAGES, start=2):
        shop.land([message("INSERT", number, after=item(number, stage, 2.0))])
        before = {"silver": "bronze", "gold": "silver"}.get(stage)
        if before is not None:
            assert run(shop, capsys, "--through", before)[0] == 0
        with filled(small_disk):
            code, output = run(shop, capsys)
            assert code in (1, 3), output
            assert "No space left" in output
            assert shop.rows("shop/item") == rows
        assert run(shop, capsys)[0] == 0
        rows[number] = item(number, stage, 2.0)
        assert shop.rows("shop/item") == rows
    code, found = command(shop, capsys, "status", "--verify")
    assert (code, broken(found), found["changes"], found["duplicates"]) == (0, [], len(rows), 0)


@pytest.mark.skipif(not CHAOS, reason="places that cannot be used are for make chaos")
def test_a_table_that_cannot_be_written_is_parked_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, place = Shop(spark, tmp_path), tmp_path / "lakehouse/gold/shop/item"

    def land(number: int) -> None:
        shop.land(
            [
                message("INSERT", number, after=item(number, table, 1.0), tableName=table)
                for table in ("item", "line")
            ]
        )

    def check(count: int, table: str) -> None:
        assert shop.rows(f"shop/{table}") == {n: item(n, table, 1.0) for n in range(1, count + 1)}

    land(1)
    assert run(shop, capsys)[0] == 0
    land(2)
    with read_only(place):
        code, output = run(shop, capsys)
        assert (code, "PARKED" in output) == (3, True)
        assert "ermi" in output, output  # not permitted, or permission denied
        check(1, "item")
        check(2, "line")
    assert run(shop, capsys)[0] == 0
    check(2, "item")

    land(3)

    merge = gold.writing.replica_and_history.merge_new

    def take_away(spark: Any, changes: Any, new: Any, plan: Any, target: Any) -> Any:
        if plan.task.name.table == "item":
            place.rename(tmp_path / "away")
        return merge(spark, changes, new, plan, target)

    with monkeypatch.context() as patched:
        patched.setattr(gold.writing.apply, "merge_new", take_away)
        code, output = run(shop, capsys)
    assert (code, place.exists()) == (3, False), output
    check(3, "line")
    (tmp_path / "away").rename(place)
    check(2, "item")
    assert run(shop, capsys)[0] == 0
    check(3, "item")
    code, found = command(shop, capsys, "status", "--verify")
    assert (code, broken(found)) == (0, [])
