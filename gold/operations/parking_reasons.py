"""Why tables were parked, in `ops/tables`: with the keys of rows that broke a gate.

The keys are in the JSON of `profile`. Earlier releases wrote them into `reason`, each in brackets.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.erasure import Erasure
from framework.contracts.table_names import TABLES_TABLE
from framework.lakehouse.merge import Merge
from framework.pipeline.layer import Run
from framework.quality.erasure import FORGOTTEN_KEYS
from framework.spark.local_frame import local_frame
from gold.planning.table_state import GATE_KEYS

_PLACE = ("source", "database", "schema", "table")
_OF_TABLE = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in _PLACE)


def erase_reasons(run: Run, erasure: Erasure) -> int:
    """Removes the keys from all reasons for which a table was ever parked. Returns how many rows changed."""
    if not run.lake.exists(run.spark, TABLES_TABLE):
        return 0
    places = [(erasure.source, *name) for name in erasure.names]
    names = local_frame(run.spark, places, ", ".join(f"`{name}` string" for name in _PLACE)).withColumn(
        "mark", F.lit(FORGOTTEN_KEYS)
    )
    return _erase_profiles(run, names) + _erase_texts(run, names)


def _erase_profiles(run: Run, names: DataFrame) -> int:
    """Empties the list of keys in the rows of the table, whose names are in `names`."""
    gated = _rows(run, names, f"contains(t.profile, '{json.dumps(GATE_KEYS)}')")
    changed: list[tuple[Any, ...]] = []
    for row in gated.select(*_PLACE, "revision", "profile").toLocalIterator():
        profile: dict[str, Any] = json.loads(row["profile"])
        if profile.get(GATE_KEYS):
            text = json.dumps({**profile, GATE_KEYS: []}, ensure_ascii=False)
            changed.append((*(row[name] for name in _PLACE), row["revision"], text))
    if changed:
        schema = ", ".join(f"`{name}` string" for name in _PLACE)
        frame = local_frame(run.spark, changed, f"{schema}, revision bigint, profile string")
        merge = Merge(run.lake.location(TABLES_TABLE), frame, f"{_OF_TABLE} AND t.revision = s.revision")
        merge.update({"profile": "s.profile"}).execute()
    return len(changed)


def _erase_texts(run: Run, names: DataFrame) -> int:
    has_keys = "contains(t.reason, '[') AND NOT contains(t.reason, s.mark)"
    count = _rows(run, names, has_keys).count()
    if count:
        without = r"regexp_replace(t.reason, r'(?s)\[.*\]', s.mark)"
        merge = Merge(run.lake.location(TABLES_TABLE), names, _OF_TABLE)
        merge.update({"reason": without}, has_keys).execute()
    return count


def _rows(run: Run, names: DataFrame, condition: str) -> DataFrame:
    rows = run.lake.read(run.spark, TABLES_TABLE).alias("t")
    return rows.join(F.broadcast(names).alias("s"), F.expr(f"{_OF_TABLE} AND {condition}"), "left_semi")
