"""Removes a row's key from the logs of whole runs: failing keys of rules, and keys that runs printed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F

from framework.contracts.erasure import Erasure
from framework.contracts.table_names import QUALITY_RESULTS_TABLE, RUNS_TABLE
from framework.lakehouse.deletion_vectors import purge_marked_rows
from framework.lakehouse.merge import Merge
from framework.naming import dotted_name
from framework.pipeline.layer import Run
from framework.quality.memory import forget
from framework.spark.local_frame import local_frame

FORGOTTEN_KEYS = "[forgotten]"
_KEYS = re.compile(r"\[.*\]", re.DOTALL)


def erase(run: Run, erasure: Erasure) -> dict[str, int]:
    """Remove all failing keys of the table from its quality results and from the notes of runs.

    Verdicts and counts stay. A failing key is text as a rule wrote it, which can differ from the text in
    silver: so all keys of the table go. Returns the number of changed rows.
    """
    forget(run)
    return {"quality_results": _erase_results(run, erasure), "runs": _erase_notes(run, erasure)}


def without_keys(text: str) -> str:
    """A note of a run without the keys that earlier releases wrote into it, in brackets."""
    return _KEYS.sub(FORGOTTEN_KEYS, text)


def _erase_results(run: Run, erasure: Erasure) -> int:
    if not run.lake.exists(run.spark, QUALITY_RESULTS_TABLE):
        return 0
    place = ("database", "schema", "table")
    names = local_frame(
        run.spark,
        list(erasure.names),
        "database string, schema string, `table` string",
    )
    has_keys = "(size(t.failing_keys) > 0 OR t.detail IS NOT NULL)"
    results = run.lake.read(run.spark, QUALITY_RESULTS_TABLE).alias("t")
    of_table = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in place)
    count = results.join(
        F.broadcast(names).alias("s"), F.expr(f"{of_table} AND {has_keys}"), "left_semi"
    ).count()
    if count:
        blank = {"failing_keys": "array()", "detail": "null"}
        Merge(run.lake.location(QUALITY_RESULTS_TABLE), names, of_table).update(blank, has_keys).execute()
    purge_marked_rows(run.spark, run.lake.location(QUALITY_RESULTS_TABLE))
    return count


def _erase_notes(run: Run, erasure: Erasure) -> int:
    if not run.lake.exists(run.spark, RUNS_TABLE):
        return 0
    names = {dotted_name(*name) for name in erasure.names}
    texts = json.dumps([json.dumps(name, ensure_ascii=False) for name in sorted(names)])
    wanted = F.from_json(F.lit(texts), "array<string>")
    runs = run.lake.read(run.spark, RUNS_TABLE)
    named = runs.where(F.exists(wanted, lambda name: F.contains(F.col("tables"), name)))
    changed = [
        (row["run_id"], tables)
        for row in named.select("run_id", "tables").toLocalIterator()
        if (tables := _without_notes(row, names))
    ]
    if changed:
        frame = local_frame(run.spark, changed, "run_id string, tables string")
        Merge(run.lake.location(RUNS_TABLE), frame, "t.run_id = s.run_id").update(
            {"tables": "s.tables"}
        ).execute()
    purge_marked_rows(run.spark, run.lake.location(RUNS_TABLE))
    return len(changed)


def _without_notes(row: Row, names: Collection[str]) -> str | None:
    """The tables of a run without keys of the table with these names; None where there are none."""
    tables: list[list[Any]] = json.loads(row["tables"])
    kept = [
        [*line[:-1], [without_keys(note) for note in line[-1]]] if line[0] in names else line
        for line in tables
    ]
    return None if kept == tables else json.dumps(kept, ensure_ascii=False)
