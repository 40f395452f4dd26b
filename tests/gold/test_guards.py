"""What keeps rows right when nothing else does:
each of gold's guards, and keys that are easily taken for others.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.pipeline.layer import Run
from gold.planning.discovery import all_tasks, waiting_tasks
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.table_state import State
from gold.writing.apply import apply_table
from tests.gold.silver_builder import GoldPipeline, Image, delete, insert, row, truncate, update

PAIR = ("id", "part")


def spelled(text: str, **values: str) -> Image:
    return {"id": text, **values}


@pytest.mark.slow
def test_old_work_late_changes_and_odd_keys_do_no_harm(spark: SparkSession, tmp_path: Path) -> None:
    """A run that was overtaken writes nothing older; a deleted row stays deleted;
    a key with a null part is one key.
    """
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(
        insert("overtaken", 1, row(1, a="first")),
        insert("deleted", 1, row(1, a="x")),
        insert("pair", 1, row(1, part=None, a="one"), keys=PAIR),
        insert("pair", 2, row(1, part="", a="another"), keys=PAIR),
        insert("spelled", 1, spelled("1", a="x")),
        update("spelled", 2, spelled("1.0", a="x"), spelled("1.0", a="y")),
        insert("keys_alone", 1, row(1)),
        insert("keys_alone", 2, row(2)),
        delete("keys_alone", 3, row(1)),
    )
    gold.apply()
    gold.add_batch(
        update("overtaken", 3, row(1, a="first"), row(1, a="second")),
        delete("deleted", 5, row(1, a="x")),
        update("pair", 3, row(1, part=None, a="one"), row(1, part=None, a="changed"), keys=PAIR),
        insert("keyless", 4, row(1, a="x"), keys=None),
        insert("keyless", 5, row(1, a="x"), keys=None),
    )
    run = Run(spark, gold.lake, gold.config, "test")
    (old,) = (task for task in waiting_tasks(run, all_tasks(run)) if task.name.table == "overtaken")
    gold.apply()
    gold.add_batch(
        update("overtaken", 7, row(1, a="second"), row(1, a="third")),
        update("deleted", 4, row(1, a="x"), row(1, a="late")),
    )
    gold.apply()

    apply_table(spark, gold.lake, old, StoredSchemas(spark, gold.lake))

    assert gold.rows("overtaken", "_cdc_sequence") == [
        {"id": 1, "a": "third", "_cdc_sequence": gold.state("overtaken").sequence}
    ]
    assert gold.rows("deleted") == []
    pairs = [(r["id"], r.get("part"), r["a"]) for r in gold.rows("pair")]
    assert (len(pairs), set(pairs)) == (2, {(1, None, "changed"), (1, "", "another")})
    assert gold.rows("spelled") == [{"id": 1, "a": "y"}]
    assert gold.rows("keys_alone") == [{"id": 2}]
    assert gold.state("keyless").state is State.APPEND_ONLY
    assert gold.rows("keyless") == [{"id": 1, "a": "x"}] * 2


@pytest.mark.slow
def test_a_truncate_concerns_the_merge_that_brings_it_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A clause for rows that no change names has Delta read the whole replica, again and again."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.marked, deletes: soft}\n")
    for at, batch in enumerate(([3, 4], [6], [2, 7])):
        changes = [insert(table, n, row(n)) for table in ("emptied", "marked") for n in batch]
        gold.add_batch(*changes, *([truncate("emptied", 5), truncate("marked", 5)] if at == 1 else []))
        gold.apply()

    def clauses(table: str) -> list[bool]:
        found = gold.lake.history(spark, f"gold/db/{table}").where("operation = 'MERGE'").orderBy("version")
        return [
            commit["operationParameters"]["notMatchedBySourcePredicates"] != "[]"
            for commit in found.collect()
        ]

    assert (clauses("emptied"), clauses("marked")) == ([True, False], [True, False])
    assert [r["id"] for r in gold.rows("emptied")] == [6, 7]
