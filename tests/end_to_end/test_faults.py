"""Files that are lost or damaged between runs are named, and the advice repairs them without loss."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import command


def insert(number: int) -> dict[str, Any]:
    return message("INSERT", number, after=item(number, f"item {number}", number + 0.5))


def failed(shop: Shop, capsys: pytest.CaptureFixture[str]) -> str:
    """What a run says that ends with exit code 1."""
    capsys.readouterr()
    assert main(["run", "-c", str(shop.folder / "mainstem.yml")]) == 1
    return capsys.readouterr().err


def check(shop: Shop, capsys: pytest.CaptureFixture[str], count: int) -> None:
    """A run ends well, and each of the messages has led to its row, once."""
    assert command(shop, capsys, "run")[0] == 0
    assert shop.rows("shop/item") == {n: item(n, f"item {n}", n + 0.5) for n in range(1, count + 1)}
    found = command(shop, capsys, "status")[1]
    assert (found["messages"], found["changes"], found["duplicates"]) == (count, count, 0)


def begin_anew(checkpoint: Path) -> None:
    """What the errors of checkpoints advise."""
    shutil.rmtree(checkpoint)
    checkpoint.with_name(f"{checkpoint.name}.reset").touch()


@pytest.mark.long
def test_damaged_state_is_named_and_repaired_as_the_error_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    of_silver, of_bronze = (tmp_path / "lakehouse/_mainstem" / name for name in ("silver", "bronze/feed"))
    shop.land([insert(1)])
    check(shop, capsys, 1)

    for place in (of_silver, of_bronze):  # the last commit gone: its batch is run again
        (place / "commits" / "0").unlink()
    shop.land([insert(2)])
    check(shop, capsys, 2)

    for checkpoint in (of_silver, of_bronze):
        newest = max(
            (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()),
            key=lambda file: int(file.name),
        )
        newest.write_text(newest.read_text()[:-5])
        shop.land([insert(shop.files + 1)])
        errors = failed(shop, capsys)
        assert "CHECKPOINT_DAMAGED" in errors
        assert str(newest) in errors
        begin_anew(checkpoint)
        check(shop, capsys, shop.files)

    shutil.rmtree(tmp_path / "lakehouse/gold/shop/item")
    check(shop, capsys, shop.files)

    before = set((tmp_path / "lakehouse/bronze/messages").glob("*.parquet"))
    shop.land([insert(shop.files + 1)])
    assert command(shop, capsys, "run", "--through", "bronze")[0] == 0
    (lost,) = set((tmp_path / "lakehouse/bronze/messages").glob("*.parquet")) - before
    lost.rename(tmp_path / "kept")
    errors = failed(shop, capsys)
    assert "BRONZE_INCOMPLETE" in errors
    assert lost.name in errors
    (tmp_path / "kept").rename(lost)
    check(shop, capsys, shop.files)
