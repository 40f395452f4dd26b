"""Taking the bytes of messages away: the one change that bronze ever sees. Their coordinates and fates stay."""

from __future__ import annotations

import json

from pyspark.sql import functions as F

from bronze.source import MESSAGES_TABLE
from framework.contracts.erasure import FORGOTTEN, Erasure
from framework.contracts.tables import HEADERS
from framework.layer import Run
from framework.merge import Merge
from framework.names import text_literal
from framework.notes import write_note
from framework.tables import sql_name

_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_PLACES = "topic string, `partition` int, offset bigint"


def erase(run: Run, erasure: Erasure) -> dict[str, int]:
    """Empty key, value and headers of the messages, but for a header that says so. Returns how many they are."""
    if not erasure.places or not run.lake.exists(run.spark, MESSAGES_TABLE):
        return {"messages": 0}
    # silver's stream refuses a table whose rows were rewritten, unless it is told that this was done here
    write_note(run.spark, f"{run.lake.checkpoints}/silver.forgotten", json.dumps({"by": FORGOTTEN}))
    places = run.spark.createDataFrame(list(erasure.places), _PLACES)
    is_same = f"t.source = {text_literal(erasure.source)} AND t.topic = s.topic AND t.`partition` = s.`partition` AND t.offset = s.offset"
    told = F.array(F.struct(F.lit(FORGOTTEN).alias("key"), F.lit(None).cast("binary").alias("value"))).cast(HEADERS)
    rows = F.broadcast(places.select("*", told.alias("headers")))
    run.spark.conf.set(_NOTE, json.dumps({"source": erasure.source, "by": FORGOTTEN}))
    try:
        _set_append_only(run, "false")
        Merge(run.lake.place(MESSAGES_TABLE), rows, is_same).update({"key": "null", "value": "null", "headers": "s.headers"}).execute()
    finally:
        _set_append_only(run, "true")
        run.spark.conf.unset(_NOTE)
    return {"messages": len(erasure.places)}


def _set_append_only(run: Run, value: str) -> None:
    table = sql_name(run.lake.place(MESSAGES_TABLE))
    run.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = '{value}')")
