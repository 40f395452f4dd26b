"""Tables put back from a copy without the last run: refused with advice that repairs it, or derived again."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.cli import main
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    ENCODINGS_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
)
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import sql_name
from framework.pipeline import erasure
from framework.pipeline.layer import Run
from framework.spark.session import is_connect
from silver.batches.encodings import EncodingRow, append_rows, read_encodings
from silver.job import replay_silver
from silver.layer import LAYER as SILVER
from tests.end_to_end.lost_parts import run_on
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message
from tests.end_to_end.test_decode_again import RULE, dying_at
from tests.end_to_end.test_forget import holding
from tests.end_to_end.test_forget_tables import statement
from tests.end_to_end.test_partition_order import Topics, flat, row
from tests.older_copies import put_back


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    if is_connect(spark):
        pytest.skip("the session of another process keeps what it knows of a table")
    return Shop(spark, tmp_path)


def land(shop: Shop, number: int) -> None:
    shop.land([message("INSERT", number, after=item(number, "quill", 1.5))])


def begin_anew(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.with_name(f"{checkpoint.name}.reset").touch()


@pytest.mark.slow
@pytest.mark.parametrize("name", [MESSAGES_TABLE, CHANGES_TABLE])
def test_an_older_copy_is_refused_and_the_advice_repairs_it(
    spark: SparkSession, shop: Shop, tmp_path: Path, name: str
) -> None:
    table, checkpoints = Path(shop.lake.location(name)), Path(shop.lake.checkpoints)
    land(shop, 1)
    shop.run()
    shutil.copytree(table, tmp_path / "backup")
    land(shop, 2)
    shop.run()
    put_back(spark, tmp_path / "backup", table)
    for grown in (False, True):  # the version that silver has read is there again, with another commit
        if grown:
            spark.sql(f"ALTER TABLE {sql_name(str(table))} SET TBLPROPERTIES ('a.b' = 'c')")
        with pytest.raises(MainstemError) as raised:
            SILVER.run(Run(spark, shop.lake, shop.config, "refused"))
        assert (raised.value.condition, raised.value.where) == ("OLDER_COPY", str(table))
        assert f"delete {checkpoints}/silver" in raised.value.action
        assert f"create the empty file {checkpoints}/silver.reset" in raised.value.action
    begin_anew(checkpoints / "silver")
    if name == MESSAGES_TABLE:
        begin_anew(checkpoints / "bronze" / "feed")
    else:
        assert f"and {shop.lake.location(BATCHES_TABLE)}" in raised.value.action
        shutil.rmtree(shop.lake.location(BATCHES_TABLE))
    land(shop, 3)
    shop.run()
    assert sorted(shop.rows("shop/item")) == [1, 2, 3]
    found = shop.status()
    assert (found["messages"], found["changes"], found["duplicates"]) == (3, 3, 0)


@pytest.mark.slow
def test_an_older_copy_of_the_schemas_is_refused_and_the_advice_repairs_it(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    lakehouse, command = tmp_path / "lakehouse", ["run", "-c", str(tmp_path / "mainstem.yml")]
    land(shop, 1)
    assert main(command) == 0
    shutil.copytree(lakehouse / SCHEMAS_TABLE, tmp_path / "older")
    columns = [*COLUMNS, {"name": "made", "type": "DATE"}]
    shop.land(
        [message("INSERT", 2, after={**item(2, "ink", 2.5), "made": 1_700_000_000_000}, columns=columns)]
    )
    assert main(command) == 0
    rows = shop.rows("shop/item")

    put_back(spark, tmp_path / "older", lakehouse / SCHEMAS_TABLE)
    land(shop, 3)
    conditions, _ = run_on(lakehouse, lakehouse, command)
    assert conditions == ["OLDER_COPY"]
    assert {number: row for number, row in shop.rows("shop/item").items() if number < 3} == rows
    assert main(["status", "--verify", *command[1:]]) == 0


@pytest.mark.slow
def test_older_copies_of_what_follows_from_the_changes_are_derived_again(
    spark: SparkSession, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lakehouse, command = tmp_path / "lakehouse", ["run", "-c", str(tmp_path / "mainstem.yml")]
    derived = (BATCHES_TABLE, PENDING_TABLE, QUARANTINE_TABLE, STATEMENTS_TABLE)
    half = message("UPDATE_BEFOR", 9, before=item(1, "quill", 1.5))
    shop.land(
        [
            message("INSERT", 1, after=item(1, "quill", 1.5)),
            statement(2, "TRUNCATE TABLE log"),
            "no message",
            half,
        ]
    )
    assert main(command) == 0
    for name in derived:
        shutil.copytree(lakehouse / name, tmp_path / "older" / name)
    for place in (10, 20):
        other = message("UPDATE_AFTER", place - 1, after=item(1, "ink", 1.5))
        more = message("UPDATE_BEFOR", place + 9, before=item(1, "ink", 1.5))
        shop.land([other, statement(place, f"TRUNCATE TABLE log{place}"), f"no message {place}", more])
        assert main(command) == 0

    for name in derived:
        put_back(spark, tmp_path / "older" / name, lakehouse / name)
    capsys.readouterr()
    assert main(command) == 0
    printed = "".join(capsys.readouterr())
    assert [name for name in derived if f"{name} was an older copy" in printed] == list(derived)
    assert main(["status", "--verify", *command[1:]]) == 0
    capsys.readouterr()
    assert main(command) == 0
    assert "older copy" not in "".join(capsys.readouterr())


@pytest.mark.slow
def test_an_update_comes_last_although_the_progress_of_its_partition_was_an_older_copy(
    spark: SparkSession, tmp_path: Path
) -> None:
    if is_connect(spark):
        pytest.skip("the session of another process keeps what it knows of a table")
    topics, progress = Topics(spark, tmp_path), tmp_path / "lakehouse" / PARTITIONS_TABLE
    for source in topics.config.sources:
        (tmp_path / "landing" / source).mkdir(parents=True)
    seconds, notes = (50, 100, 90), [""]
    for offset, (second, value) in enumerate(zip(seconds, "ABC", strict=True)):
        if offset == 2:
            put_back(spark, tmp_path / "older", progress)
        topics.land("slow", {offset: flat("slow", "INSERT", row(value), es=second)})
        work = Run(spark, topics.lake, topics.config, f"run-{offset}")
        assert not BRONZE.run(work).errors
        notes += SILVER.run(work).notes
        if offset == 0:
            shutil.copytree(progress, tmp_path / "older")
    assert f"{PARTITIONS_TABLE} was an older copy" in notes[-1]
    sequences = [sequence for _, _, sequence, _ in topics.sequences()]
    assert sequences == sorted(sequences)
    assert len(sequences) == len(seconds)


@pytest.mark.slow
def test_what_an_older_copy_of_the_encodings_lacks_is_shown_again(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    table, noise = Path(shop.lake.location(ENCODINGS_TABLE)), EncodingRow("other", "taken", None, "", 0)
    append_rows(spark, shop.lake, [noise])
    shutil.copytree(table, tmp_path / "older")
    halves = [
        message(f"UPDATE_{half}", 3, **{side: item(number, "quill", 1.5)})
        for number in (1, 2)
        for half, side in (("BEFOR", "before"), ("AFTER", "after"))
    ]
    shop.land(halves)
    work = Run(spark, shop.lake, shop.config, "run")
    assert not BRONZE.run(work).errors
    SILVER.run(work)
    recorded = read_encodings(spark, shop.lake)
    assert recorded.shared == {"feed"}

    put_back(spark, tmp_path / "older", table)
    land(shop, 4)
    assert not BRONZE.run(work).errors
    assert any(f"{ENCODINGS_TABLE} was an older copy" in note for note in SILVER.run(work).notes)
    assert len(read_encodings(spark, shop.lake).rows) == len(recorded.rows)
    assert read_encodings(spark, shop.lake).shared == {"feed"}
    assert SILVER.run(work).notes == ()


@pytest.mark.slow
def test_no_row_is_forgotten_in_an_older_copy_of_the_changes(
    spark: SparkSession,
    shop: Shop,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes, config = Path(shop.lake.location(CHANGES_TABLE)), ["-c", str(tmp_path / "mainstem.yml")]
    run, forget = ["run", "--through", "silver", *config], ["forget", "shop.item", "id=1", *config]
    note = Path(shop.lake.checkpoints) / "forget.unfinished"
    land(shop, 1)
    assert main(run) == 0
    shutil.copytree(changes, tmp_path / "older")
    shop.land([message("INSERT", 5, after=item(5, "ink", 2.5))])
    assert main(run) == 0
    shutil.copytree(changes, tmp_path / "newest")

    put_back(spark, tmp_path / "older", changes)
    capsys.readouterr()
    assert main(forget) == 1
    assert "OLDER_COPY" in capsys.readouterr().err
    assert not note.exists()
    put_back(spark, tmp_path / "newest", changes)
    with monkeypatch.context() as patched:
        patched.setattr(erasure, "crash_point", dying_at("forget.between_layers"))
        assert main(forget) == 1
    put_back(spark, tmp_path / "older", changes)
    capsys.readouterr()
    assert main(run) == 1
    assert "OLDER_COPY" in capsys.readouterr().err
    assert note.exists()
    put_back(spark, tmp_path / "newest", changes)
    assert main(run) == 0
    assert not note.exists()
    assert not holding(shop, "quill")
    assert holding(shop, "ink")


@pytest.mark.slow
def test_changes_from_before_a_repair_are_refused_by_the_next_command(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    """Their next batch would have the number of the repair's, which gold has applied."""
    changes, file = Path(shop.lake.location(CHANGES_TABLE)), tmp_path / "mainstem.yml"
    plain = file.read_text(encoding="utf-8")
    file.write_text(plain.replace("quality: false\n", RULE), encoding="utf-8")
    land(shop, 1)
    shop.land([message("INSERT", 2, after=item(2, "gold", 300.0))])
    assert main(["run", "-c", str(file)]) == 0
    file.write_text(plain, encoding="utf-8")
    shutil.copytree(changes, tmp_path / "backup")
    work = Run(spark, shop.lake, shop.config, "refused")
    for command in (
        ["replay"],
        ["rebuild", "shop.item", "--from", "bronze"],
        ["forget", "shop.item", "id=1"],
    ):
        assert main([*command, "-c", str(file)]) == 0
        shutil.copytree(changes, tmp_path / command[0])
        put_back(spark, tmp_path / "backup", changes)
        for refused in (partial(replay_silver, spark, shop.lake, shop.config), partial(SILVER.run, work)):
            with pytest.raises(MainstemError) as raised:
                refused()
            assert (raised.value.condition, raised.value.where) == ("OLDER_COPY", str(changes))
        put_back(spark, tmp_path / command[0], changes)
