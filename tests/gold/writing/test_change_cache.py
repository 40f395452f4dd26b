"""The cache of changes has what silver has, cell by cell, or is empty; and it changes no result."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import AddColumn, CreateTable
from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from gold.planning.discovery import all_tasks
from gold.planning.knowledge import CachedChanges
from gold.planning.table_state import State
from gold.planning.task import Task
from gold.writing import change_cache
from gold.writing.change_cache import change_groups, changes_of, table_changes_of
from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    ddl,
    delete,
    insert,
    row,
    truncate,
    update,
)

STRANGE = row(1, text="it's 数 \x00 \u2028 🙂", empty="", nothing=None, large="1" + "0" * 400)


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_changes_are_cached_as_they_are_within_limits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("t", 1, STRANGE), insert("other", 2, row(1), moment=-62_000_000_000), ddl("t", 3))
    gold.add_batch(update("t", 4, STRANGE, row(1, text="b"), partial=True), delete("t", 5, row(1)))
    gold.add_batch(ddl("silent", 6, CreateTable((AddColumn("id", "int", "int"),), ("id",))))
    tasks = [task for task in all_tasks(Run(spark, gold.lake, gold.config, "test")) if task.name.table == "t"]
    silent = next(
        task for task in all_tasks(Run(spark, gold.lake, gold.config, "test")) if task.name.table == "silent"
    )

    found = _changes_of_one_group(spark, gold.lake, tasks)
    assert found is not None
    kept = gold.lake.read(spark, CHANGES_TABLE).where("`table` = 't' and kind = 'row'")
    frame = changes_of(spark, gold.lake, tasks[0], found)
    texts = [F.to_json(F.struct(*CHANGES.names)), F.hex("after.text"), F.map_keys("after")]
    assert frame.select(*texts).exceptAll(kept.select(*texts)).isEmpty()
    assert (frame.count(), frame.schema) == (3, kept.schema)

    both = _changes_of_one_group(spark, gold.lake, all_tasks(Run(spark, gold.lake, gold.config, "test")))
    assert both is not None
    assert (both.rows.num_rows, both.since) == (4, -1)
    assert changes_of(spark, gold.lake, tasks[0], both).count() == 3
    without = CachedChanges(both.rows.slice(0, 0), {}, -1, both.places)
    assert changes_of(spark, gold.lake, tasks[0], without).isEmpty()
    assert changes_of(spark, gold.lake, silent, both).isEmpty()

    monkeypatch.setattr(change_cache, "MAX_CACHED_CHARACTERS", 400)
    assert _changes_of_one_group(spark, gold.lake, tasks) is None
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 2)
    assert _changes_of_one_group(spark, gold.lake, tasks) is None
    assert changes_of(spark, gold.lake, tasks[0], None).count() == 6


def _changes_of_one_group(
    spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]
) -> CachedChanges | None:
    ((group, found),) = change_groups(spark, lake, tasks)
    assert group == tasks
    return found


def _tasks(gold: GoldPipeline) -> dict[str, Task]:
    return {task.name.table: task for task in all_tasks(Run(gold.spark, gold.lake, gold.config, "test"))}


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_the_new_changes_alone_are_cached_where_all_are_many(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 3)
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(insert("t", n, row(n)) for n in range(5)), insert("quiet", 6, row(1)))
    first = _changes_of_one_group(spark, gold.lake, list(_tasks(gold).values()))
    assert first is not None
    assert {name: first.covers(task) for name, task in _tasks(gold).items()} == {"t": False, "quiet": True}
    gold.apply()
    gold.add_batch(update("t", 7, row(1), row(1, text="b")))
    gold.add_batch(insert("t", 8, row(9)), insert("quiet", 9, row(2)))

    tasks = _tasks(gold)
    assert {name: (task.new_rows, task.first_new) for name, task in tasks.items()} == {
        "t": (2, 1),
        "quiet": (1, 2),
    }
    found = _changes_of_one_group(spark, gold.lake, list(tasks.values()))
    assert found is not None
    assert (found.since, sorted(found.rows["sequence"].to_pylist())) == (
        0,
        sorted(insert("t", at, row(1)).sequence for at in (7, 8, 9)),
    )
    changes = table_changes_of(spark, gold.lake, tasks["t"], found)
    assert changes.few_after(-1) is None
    assert sorted(change.batch for change in changes.few_after(0) or ()) == [1, 2]
    assert [change.batch for change in changes.few_after(1) or ()] == [2]
    assert changes.after(0).count() == 2
    assert changes.after(-1).where("`table` = 't'").count() == 7
    applied = gold.apply()
    assert {name: (one.applied, one.notes) for name, one in applied.items()} == {
        "t": (2, ()),
        "quiet": (1, ()),
    }
    assert [one["id"] for one in gold.rows("t")] == [0, 1, 2, 3, 4, 9]
    gold.add_batch(insert("quiet", 10, row(3)))
    assert {name: (task.new_rows, task.first_new) for name, task in _tasks(gold).items()} == {
        "t": (0, None),
        "quiet": (1, 3),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_small_tables_are_cached_beside_large_ones_and_together_have_a_limit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 3)
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(
        *(insert("large", n, row(n)) for n in range(5)),
        *(insert(f"t{n % 3}", 10 + n, row(n)) for n in range(6)),
        *(insert("wide", 20 + n, row(n, text="x" * 900)) for n in range(2)),
    )
    tasks = _tasks(gold)
    monkeypatch.setattr(change_cache, "MAX_CACHED_CHARACTERS", 1_000)
    found = _changes_of_one_group(spark, gold.lake, list(tasks.values()))
    assert found is not None
    assert {name for name, task in tasks.items() if found.covers(task)} == {"t0", "t1", "t2"}
    assert found.of(tasks["t1"])["sequence"].to_pylist() == [
        insert("t1", at, row(1)).sequence for at in (11, 14)
    ]
    for name, count in (("large", None), ("wide", None), ("t2", 2)):
        few = table_changes_of(spark, gold.lake, tasks[name], found).few_after(-1)
        assert count == (None if few is None else len(few))
    applied = gold.apply()
    assert {name: one.applied for name, one in applied.items()} == {
        **{f"t{n}": 2 for n in range(3)},
        "large": 5,
        "wide": 2,
    }
    assert [one["id"] for one in gold.rows("t2")] == [2, 5]
    assert [one["id"] for one in gold.rows("large")] == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_small_tables_that_are_many_together_come_in_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first load of a thousand tables is as fast a table as one of fifty."""
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 3)
    monkeypatch.setattr(change_cache, "MAX_CACHED_CHARACTERS", 1_000)
    monkeypatch.setattr(change_cache, "MAX_ROWS_TOGETHER", 4)
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(
        *(insert("large", n, row(n)) for n in range(5)),
        *(insert(f"t{n % 5}", 10 + n, row(n)) for n in range(10)),
        *(insert("wide", 30 + n, row(n, text="x" * 900)) for n in range(2)),
    )
    tasks = _tasks(gold)
    groups = list(change_groups(spark, gold.lake, list(tasks.values())))
    names = [{task.name.table for task in group} for group, _ in groups]
    assert names == [{"large", "wide", "t0", "t1"}, {"t2", "t3"}, {"t4"}]
    for group, found in groups:
        assert found is not None
        covered = {task.name.table for task in group if found.covers(task)}
        assert covered == {task.name.table for task in group} - {"large", "wide"}
        assert found.rows.num_rows == 2 * len(covered)
    applied = gold.apply()
    assert list(applied) == list(tasks)
    assert {name: one.applied for name, one in applied.items()} == {
        **{f"t{n}": 2 for n in range(5)},
        "large": 5,
        "wide": 2,
    }
    assert [one["id"] for one in gold.rows("t4")] == [4, 9]
    gold.add_batch(*(update(f"t{n}", 40 + n, row(n), row(n, text="b")) for n in range(5)))
    monkeypatch.setattr(change_cache, "MAX_ROWS_TOGETHER", 2)
    assert [len(group) for group, _ in change_groups(spark, gold.lake, _behind(gold))] == [2, 2, 1]
    gold.apply()
    assert gold.rows("t3") == [{"id": 3, "text": "b"}, {"id": 8}]
    assert _behind(gold) == []


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_a_rebuild_of_large_tables_does_not_measure_their_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 3)
    monkeypatch.setattr(change_cache, "MAX_ROWS_TOGETHER", 4)
    monkeypatch.setattr(change_cache, "_sizes", pytest.fail)
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(insert("t", n, row(n)) for n in range(5)))
    gold.apply()
    task = replace(_tasks(gold)["t"], is_rebuild=True)
    assert task.new_rows == 0
    assert _changes_of_one_group(spark, gold.lake, [task]) is None
    gold.rebuild("t")
    assert [one["id"] for one in gold.rows("t")] == [0, 1, 2, 3, 4]


def _behind(gold: GoldPipeline) -> list[Task]:
    return [task for task in _tasks(gold).values() if task.new_rows]


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
@pytest.mark.parametrize("is_near", [True, False], ids=["near", "by Spark"])
def test_tables_of_many_databases_that_are_called_the_same_are_small(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_near: bool
) -> None:
    """A database for each customer: the rows of the others are not looked through for each table."""
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 3)
    if not is_near:
        monkeypatch.setattr(change_cache, "rows_above", lambda *_: None)
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(insert("t", n, row(n), database=f"customer{n % 4}") for n in range(8)))
    tasks = all_tasks(Run(spark, gold.lake, gold.config, "test"))
    found = _changes_of_one_group(spark, gold.lake, tasks)
    assert found is not None
    for task in tasks:
        places = [at for at in range(8) if task.name.database == f"customer{at % 4}"]
        mine = {insert("t", at, row(at)).sequence for at in places}
        assert found.covers(task)
        assert set(found.of(task)["sequence"].to_pylist()) == mine
        assert table_changes_of(spark, gold.lake, task, found).after(-1).count() == 2


@pytest.mark.slow
def test_the_new_changes_of_a_larger_table_are_read_from_their_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path / "a [b]{c}")
    gold.add_batch(insert("t", 1, STRANGE), insert("t", 2, row(2)))
    gold.apply()
    gold.add_batch(insert("t", 3, row(3)), insert("other", 4, row(1)))
    gold.add_batch(update("t", 5, row(3), row(3, text="b")), delete("t", 6, row(2)))
    task = _tasks(gold)["t"]
    known = gold.lake.read(spark, CHANGES_TABLE).where(F.col("batch") > task.state.batch)
    found = table_changes_of(spark, gold.lake, task, None)
    assert (found.few, found.since) == (None, task.state.batch)
    assert found.recent is not None
    texts = [F.to_json(F.struct(*CHANGES.names)), F.hex("after.text"), F.map_keys("after")]
    assert found.after(task.state.batch).select(*texts).exceptAll(known.select(*texts)).isEmpty()
    assert found.after(task.state.batch).count() == 4
    assert found.all_rows().count() == found.after(-1).count() == 6
    monkeypatch.setattr(change_cache, "_FEW_FILES", 1)
    assert table_changes_of(spark, gold.lake, task, None).recent is None


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_what_came_while_a_table_was_parked_is_new(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 4)
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(insert("t", n, row(n)) for n in range(5)), insert("other", 6, row(1)))
    gold.apply()
    gold.configure("  - match: db.t\n    columns: {n: {type: int}}\n    bad_values: park\n")
    gold.add_batch(insert("t", 7, row(7, n="no number")), insert("other", 8, row(2)))
    assert gold.apply()["t"].state.state is State.PARKED
    gold.add_batch(insert("t", 9, row(9)), insert("other", 10, row(3)))
    assert _tasks(gold)["t"].new_rows == 7
    gold.configure("")
    gold.apply()
    assert [one["id"] for one in gold.rows("t")] == [0, 1, 2, 3, 4, 7, 9]


def _random_batches(source: random.Random) -> list[list[ChangeSpec]]:
    """Changes of two tables, some late, some with another key, some partial; now and then a statement."""
    batches, place = [], 100
    for number in range(4):
        events: list[ChangeSpec] = []
        for _ in range(8 if number < 2 else source.randint(1, 4)):
            place += 1
            table, at = source.choice("ab"), place - source.choice((0, 0, 0, 50)) * (number > 1)
            key, other = source.randrange(5), source.randrange(5)
            kind = source.choice(
                ("insert", "update", "update", "key", "partial", "delete", "ddl", "truncate")
            )
            new = row(key, n=str(place), text=source.choice(("x", None)))
            if kind == "insert":
                events.append(insert(table, at, new))
            elif kind == "delete":
                events.append(delete(table, at, row(key)))
            elif kind == "partial":
                events.append(update(table, at, None, row(key, n=str(place)), partial=True))
            elif kind in ("update", "key"):
                old = row(key if kind == "update" else other, n="0", text="old")
                events.append(update(table, at, old, new))
            elif kind == "ddl" and number > 1 and source.random() < 0.3:
                events.append(ddl(table, place, AddColumn(f"c{place}", "int", "int")))
            elif kind == "truncate" and source.random() < 0.2:
                events.append(truncate(table, place))
        batches.append(events)
    return [events for events in batches if events]


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
@pytest.mark.parametrize("seed", range(2))
def test_random_changes_lead_to_the_same_tables_with_any_cache(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    source = random.Random(seed)
    tables = source.choice(
        ("", "  - match: db.a\n    history: true\n", "  - match: '*.*'\n    deletes: soft\n")
    )
    batches = _random_batches(source)
    found = []
    for limit, together, files in ((-1, 0, 0), (-1, 0, 32), (6, 7, 32), (6, 99, 32), (5_000, 5_000, 32)):
        monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", limit)
        monkeypatch.setattr(change_cache, "MAX_ROWS_TOGETHER", together)
        monkeypatch.setattr(change_cache, "_FEW_FILES", files)
        gold = GoldPipeline(spark, tmp_path / f"{limit} {together} {files}", tables)
        said = []
        for events in batches:
            gold.add_batch(*events)
            applied = gold.apply()
            said.append(
                {
                    name: (one.applied, one.late, one.ops, one.notes, one.faults, one.state.collisions)
                    for name, one in applied.items()
                }
            )
        tops = {"_cdc_sequence", "_cdc_change_id"}
        rows = {name: gold.rows(name, *tops) for name in said[-1] | said[0]}
        found.append((said, rows, gold.history("a") if "history" in tables and "a" in rows else None))
    for one in found[1:]:
        assert one == found[0]
