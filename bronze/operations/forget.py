"""Erases the bytes of messages, the only change of bronze. Their coordinates and outcomes stay."""

from __future__ import annotations

import contextlib
import json

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from framework.contracts.erasure import ERASED, FORGOTTEN, Erasure
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import HEADERS
from framework.lakehouse.deletion_vectors import purge_marked_rows
from framework.lakehouse.lakehouse import sql_name, sql_text
from framework.lakehouse.merge import Merge
from framework.lakehouse.small_files import write_note
from framework.naming import text_literal
from framework.pipeline.layer import Run
from framework.spark.local_frame import local_frame

_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_LANDINGS = "topic string, `partition` int, offset bigint, at bigint, file string, line bigint"


def erase(run: Run, erasure: Erasure) -> dict[str, int]:
    """Empties key, value and headers of the messages, and adds a header that says so.

    Returns how many they are.
    """
    if not erasure.landings or not run.lake.exists(run.spark, MESSAGES_TABLE):
        return {"messages": 0}
    # silver's stream refuses a table with rewritten rows, unless this note says that `forget` rewrote them
    write_note(run.spark, f"{run.lake.checkpoints}/silver.forgotten", json.dumps({"by": FORGOTTEN}))
    landings = local_frame(run.spark, [tuple(landing) for landing in erasure.landings], _LANDINGS)
    is_same = (
        f"t.source = {text_literal(erasure.source)} AND t.topic = s.topic AND t.`partition` = s.`partition`"
    )
    is_same += " AND t.offset = s.offset"
    # a topic that was deleted and created again has other messages at the same coordinates
    is_same += " AND unix_micros(t.ingested_at) = s.at"
    is_same += " AND coalesce(t.file, '') = s.file AND coalesce(t.line, 0) = s.line"
    marker = F.array(F.struct(F.lit(FORGOTTEN).alias("key"), F.lit(None).cast("binary").alias("value"))).cast(
        HEADERS
    )
    rows = F.broadcast(landings.select("*", marker.alias("headers")))
    note = json.dumps({"source": erasure.source, "by": FORGOTTEN})
    with contextlib.suppress(PySparkException):  # serverless compute refuses the setting
        run.spark.conf.set(_NOTE, note)
    try:
        _set_append_only(run, "false", f", '{ERASED}' = {sql_text(note)}")
        Merge(run.lake.location(MESSAGES_TABLE), rows, is_same).update(
            {"key": "null", "value": "null", "headers": "s.headers"}
        ).execute()
        purge_marked_rows(run.spark, run.lake.location(MESSAGES_TABLE))
    finally:
        _set_append_only(run, "true")
        with contextlib.suppress(PySparkException):
            run.spark.conf.unset(_NOTE)
    return {"messages": len(erasure.landings)}


def _set_append_only(run: Run, value: str, more: str = "") -> None:
    table = sql_name(run.lake.location(MESSAGES_TABLE))
    run.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = '{value}'{more})")
