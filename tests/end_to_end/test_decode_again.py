"""Messages that are decoded again become what a run makes of them: rules and `forget` hold."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.pipeline import erasure
from silver.operations import redecode
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_forget import holding
from tests.end_to_end.test_repair import broken, changes_of, command, later
from tests.end_to_end.test_seed import PowerCut

RULE = (
    "quality:\n  rules:\n    - {match: shop.item, range: {column: price, max: 100}, on_change: quarantine}\n"
)
EXCLUDED = "tables:\n  - {match: shop.note, exclude: true}\n"


class CanalShop(Shop):
    """A pipeline over Canal's messages, each of several rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder, "quality: false\n")
        self.configure(EXCLUDED + RULE)

    def configure(self, more: str) -> None:
        text = "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
        (self.folder / "mainstem.yml").write_text(text + more, encoding="utf-8")


def rows(sequence: int, kind: str, *items: tuple[int, str, float], table: str = "item") -> dict[str, Any]:
    """A message of Canal with several rows."""
    return {
        "database": "shop", "table": table, "type": kind, "es": 1700000000000 + sequence * 1000, "ts": 1,
        "id": sequence, "isDdl": False,
        "sql": "", "pkNames": ["id"], "mysqlType": {"id": "bigint(20)", "name": "varchar(20)",
            "price": "double"},
        "data": [{"id": str(number), "name": name, "price": str(price)} for number, name, price in items],
        "old": None,
    }  # fmt: skip


def check(shop: Shop, ids: Sequence[int], quarantined: dict[str, int]) -> None:
    """The replica has these rows, and quarantine these messages; none counts as missed."""
    assert sorted(shop.rows("shop/item")) == list(ids)
    found = shop.status()
    assert found["quarantined"] == quarantined
    assert [table["missed_while_excluded"] for table in found["tables"]] == [0] * len(found["tables"])


def verify(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """All checks hold."""
    code, found = command(shop, capsys, "status", "--verify")
    assert (code, broken(found)) == (0, [])


@pytest.mark.long
def test_decoding_again_keeps_what_was_forgotten_quarantined_or_excluded(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = CanalShop(spark, tmp_path)
    shop.land(
        [
            rows(1, "INSERT", (1, "pen", 1.0), (2, "Ada", 2.0), (3, "ink", 3.0)),
            rows(2, "INSERT", (4, "gold", 400.0), (5, "cap", 5.0)),
            rows(3, "INSERT", (1, "seen while excluded", 1.0), table="note"),
        ]
    )
    assert command(shop, capsys, "plan")[1]["silver"]["quarantined"] == {"rule_broken": 1}
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    check(shop, [1, 2, 3, 5], {"rule_broken": 1})
    assert command(shop, capsys, "forget", "shop.item", "id=2")[0] == 0
    changes = changes_of(shop)
    for _ in range(2):
        code, found = command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")
        assert (code, found["counts"]["messages"]) == (0, 1)
        check(shop, [1, 3, 5], {"rule_broken": 1})
        assert changes_of(shop) == changes

    shop.land(
        [rows(1, "INSERT", (1, "pen", 1.0), (2, "Ada", 2.0), (3, "ink", 3.0))]
    )  # a second delivery of what was forgotten
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    check(shop, [1, 3, 5], {"rule_broken": 1})
    verify(shop, capsys)

    assert main(["rebuild", "shop.note", "--from", "bronze", "-c", str(shop.folder / "mainstem.yml")]) == 2
    assert "TABLE_EXCLUDED" in capsys.readouterr().err
    shop.configure(RULE)
    for point in ("silver.before_again", "silver.after_again"):
        with monkeypatch.context() as patched:
            patched.setattr(redecode, "crash_point", dying_at(point))
            assert (
                main(["rebuild", "shop.note", "--from", "bronze", "-c", str(shop.folder / "mainstem.yml")])
                == 1
            )
    capsys.readouterr()
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    assert shop.rows("shop/note") == {1: item(1, "seen while excluded", 1.0)}
    check(shop, [1, 3, 5], {"rule_broken": 1})
    verify(shop, capsys)

    shop.configure("quality: false\n")
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    check(shop, [1, 3, 4, 5], {})
    shop.configure(RULE)
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    check(shop, [1, 3, 5], {"rule_broken": 1})
    assert command(shop, capsys, "replay")[0] == 0
    check(shop, [1, 3, 5], {"rule_broken": 1})
    verify(shop, capsys)


def dying_at(point: str) -> Any:
    def die(name: str) -> None:
        if name == point:
            raise PowerCut(name)

    return die


@pytest.mark.long
def test_halves_that_wait_or_are_quarantined_or_forgotten_stay_so_after_every_repair(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, RULE)
    file = shop.folder / "mainstem.yml"
    strict = file.read_text(encoding="utf-8")
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.0)),
            message("UPDATE_AFTER", 3, after=item(1, "pen", 300.0)),
        ]
    )
    shop.land(
        [
            message("UPDATE_AFTER", 9, after=item(8, "waits", 8.0)),
            message("UPDATE_BEFOR", 12, before=item(9, "Ada", 9.0)),
        ]
    )
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    shop.land([message("UPDATE_BEFOR", 3, before=item(1, "pen", 1.0))])
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    (quarantined,) = shop.lake.read(spark, "silver/quarantine").collect()
    assert (quarantined["reason"], quarantined["topic"], quarantined["offset"]) == (
        "rule_broken",
        "part-001.jsonl",
        2,
    )
    assert b"300" in bytes(quarantined["value"])
    assert quarantined["first_seen_at"] is not None
    assert quarantined["last_seen_at"] is not None
    check(shop, [1], {"rule_broken": 1})

    with monkeypatch.context() as patched:
        patched.setattr(erasure, "crash_point", dying_at("forget.between_layers"))
        assert main(["forget", "shop.item", "id=9", "-c", str(file)]) == 1
    assert holding(shop, "Ada")
    assert command(shop, capsys, "forget", "shop.item", "id=9")[0] == 0
    assert not holding(shop, "Ada")
    check(shop, [1], {"rule_broken": 1})
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    check(shop, [1], {"rule_broken": 1})
    verify(shop, capsys)
    assert shop.status()["pending_halves"] == 1

    file.write_text(strict.replace("max: 100", "max: 500"), encoding="utf-8")
    assert command(shop, capsys, "replay")[0] == 0
    assert shop.rows("shop/item")[1] == item(1, "pen", 300.0)
    check(shop, [1], {})
    shop.land(
        [
            later("UPDATE_BEFOR", 20, 3, before=item(7, "Grace", 7.0)),
            later("INSERT", 21, 9, after=item(6, "new", 6.0)),
        ]
    )
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    check(shop, [1, 6, 8], {"unpaired_before_image": 1})
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    check(shop, [1, 6, 8], {"unpaired_before_image": 1})
    assert command(shop, capsys, "forget", "shop.item", "id=7")[0] == 0
    assert not holding(shop, "Grace")
    check(shop, [1, 6, 8], {})
    verify(shop, capsys)


@pytest.mark.slow
def test_a_replay_completes_a_key_change_whose_after_half_had_been_released(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    file = shop.folder / "mainstem.yml"
    lenient = file.read_text(encoding="utf-8")
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 300.0)),
            message("UPDATE_AFTER", 3, after=item(2, "pen", 300.0)),
            later("INSERT", 4, 1, after=item(5, "ink", 5.0)),
        ]
    )
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    check(shop, [1, 2, 5], {})
    file.write_text(lenient.replace("quality: false\n", RULE), encoding="utf-8")
    shop.land([message("UPDATE_BEFOR", 3, before=item(1, "pen", 300.0))])
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    check(shop, [1, 2, 5], {"rule_broken": 1})
    file.write_text(lenient, encoding="utf-8")
    for _ in range(2):
        assert command(shop, capsys, "replay")[0] == 0
        check(shop, [2, 5], {})
    verify(shop, capsys)


@pytest.mark.slow
def test_a_repair_that_was_cut_short_is_finished_where_the_log_of_repairs_is_gone(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the copy of the log; and where that is gone too, every table is taken for a repaired one.

    Where also nothing tells that there was a log of repairs, the commits of the changes do.
    """
    shop = CanalShop(spark, tmp_path)
    config, log = str(shop.folder / "mainstem.yml"), shop.folder / "lakehouse" / "ops" / "repairs"
    copy, noted = (
        shop.folder / "lakehouse" / "_mainstem" / f"silver.{name}" for name in ("repairs", "tables")
    )
    messages = [
        rows(1, "INSERT", (1, "pen", 1.0), (4, "gold", 400.0)),
        rows(3, "INSERT", (1, "seen while excluded", 1.0), table="note"),
    ]
    shop.land(messages)
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    check(shop, [1], {"rule_broken": 1})

    for table, more, lost, note in (
        ("shop.note", RULE, (log,), "it has been written again from its copy"),
        ("shop.item", "quality: false\n", (log, copy), "and its copy"),
        ("shop.item", RULE, (log, copy, noted), "and its copy"),
    ):
        shop.configure(more)
        with monkeypatch.context() as patched:
            patched.setattr(redecode, "crash_point", dying_at("silver.after_again"))
            assert main(["rebuild", table, "--from", "bronze", "-c", config]) == 1
        for place in lost:
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        capsys.readouterr()
        assert main(["run", "--through", "gold", "-c", config]) == 0
        assert f"ops/repairs was gone{',' if copy in lost else ':'} {note}" in capsys.readouterr().err
        assert shop.rows("shop/note") == {1: item(1, "seen while excluded", 1.0)}
        check(shop, *(([1, 4], {}) if more != RULE else ([1], {"rule_broken": 1})))
        verify(shop, capsys)
