"""The parking reasons of tables in `ops/tables`: they may contain keys of rows that broke a gate."""

from __future__ import annotations

from pyspark.sql import functions as F

from framework.contracts.erasure import Erasure
from framework.contracts.table_names import TABLES_TABLE
from framework.lakehouse.merge import Merge
from framework.pipeline.layer import Run
from framework.quality.erasure import FORGOTTEN_KEYS


def erase_reasons(run: Run, erasure: Erasure) -> int:
    """Removes the keys from all reasons for which a table was ever parked. Returns how many rows changed."""
    if not run.lake.exists(run.spark, TABLES_TABLE):
        return 0
    place = {
        "source": erasure.source,
        "database": erasure.database,
        "schema": erasure.schema,
        "table": erasure.table,
    }
    names = run.spark.createDataFrame(
        [tuple(place.values())], "source string, database string, schema string, `table` string"
    )
    of_table = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in place)
    has_keys = "contains(t.reason, '[') AND NOT contains(t.reason, s.mark)"
    marked = names.withColumn("mark", F.lit(FORGOTTEN_KEYS))
    rows = run.lake.read(run.spark, TABLES_TABLE).alias("t")
    count = rows.join(
        F.broadcast(marked).alias("s"), F.expr(f"{of_table} AND {has_keys}"), "left_semi"
    ).count()
    if count:
        without = r"regexp_replace(t.reason, r'(?s)\[.*\]', s.mark)"
        Merge(run.lake.location(TABLES_TABLE), marked, of_table).update(
            {"reason": without}, has_keys
        ).execute()
    return count
