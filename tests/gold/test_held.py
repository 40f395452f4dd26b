"""What a run holds of silver is what silver has, cell by cell, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.actions import AddColumn, CreateTable
from framework.contracts.tables import CHANGES
from gold import held
from gold.changes import CHANGES_TABLE
from gold.held import changes_of, held_changes
from gold.tasks import Desk, all_tasks
from tests.gold.told import Gold, ddl, delete, insert, row, update

STRANGE = row(1, text="it's 数 \x00 \u2028 🙂", empty="", nothing=None, large="1" + "0" * 400)


@pytest.mark.usefixtures("is_held")
def test_changes_are_held_as_they_are_within_limits(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold = Gold(spark, tmp_path)
    gold.tell(insert("t", 1, STRANGE), insert("other", 2, row(1), moment=-62_000_000_000), ddl("t", 3))
    gold.tell(update("t", 4, STRANGE, row(1, text="b"), partial=True), delete("t", 5, row(1)))
    gold.tell(ddl("silent", 6, CreateTable((AddColumn("id", "int", "int"),), ("id",))))
    tasks = [task for task in all_tasks(Desk(spark, gold.lake, gold.config)) if task.name.table == "t"]
    silent = next(task for task in all_tasks(Desk(spark, gold.lake, gold.config)) if task.name.table == "silent")

    found = held_changes(spark, gold.lake, tasks)
    assert found is not None
    kept = gold.lake.read(spark, CHANGES_TABLE).where("`table` = 't' and kind = 'row'")
    frame = changes_of(spark, gold.lake, tasks[0], found)
    texts = [F.to_json(F.struct(*CHANGES.names)), F.hex("after.text"), F.map_keys("after")]
    assert frame.select(*texts).exceptAll(kept.select(*texts)).isEmpty()
    assert (frame.count(), frame.schema) == (3, kept.schema)

    both = held_changes(spark, gold.lake, all_tasks(Desk(spark, gold.lake, gold.config)))
    assert both is not None
    assert both.num_rows == 4
    assert changes_of(spark, gold.lake, tasks[0], both).count() == 3
    assert changes_of(spark, gold.lake, tasks[0], both.slice(0, 0)).isEmpty()
    assert changes_of(spark, gold.lake, silent, both).isEmpty()

    monkeypatch.setattr(held, "HELD_CHARACTERS", 400)
    assert held_changes(spark, gold.lake, tasks) is None
    monkeypatch.setattr(held, "HELD_ROWS", 2)
    assert held_changes(spark, gold.lake, tasks) is None
    assert changes_of(spark, gold.lake, tasks[0], None).count() == 6
