"""Rows whose plan is made before a writer has them, and what Spark sees of them on their way.

Delta plans what it is to write three times: for the statement, for its own write, and for the job. Each time
Spark looks up the files of the tables that are read. And of rows on the way to such a statement Spark 4.1
tells nothing: it asks the statement for what was seen, which is not what computes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from framework.spark.session import is_connect


def planned(rows: DataFrame) -> DataFrame:
    """These rows as a frame without a plan, for one reader: each reader computes them.

    What comes before their last shuffle is computed at once. On Spark Connect, and in a JVM that refuses it,
    they are the rows as they were given.
    """
    if is_connect(rows.sparkSession):
        return rows
    spark, frame = cast(Any, rows.sparkSession), cast(Any, rows)._jdf
    session = spark._jsparkSession
    try:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
        made = session.internalCreateDataFrame(frame.queryExecution().toRdd(), frame.schema(), False)
    except Py4JJavaError:
        raise
    except Py4JError:  # the platform does not let Python call it
        return rows
    return DataFrame(made, rows.sparkSession)


def seen(rows: DataFrame, name: str) -> Mapping[str, Any] | None:
    """What was seen under a name (`DataFrame.observe`) while these rows were computed; None if unknown.

    Numbers and texts only. They count twice what was computed twice, where a task was lost for instance; what
    nobody has computed was not seen. It is known of `planned` rows, and of a local checkpoint of them.
    """
    if is_connect(rows.sparkSession):
        return None
    try:
        row = cast(Any, rows)._jdf.queryExecution().observedMetrics().apply(name)
        found: dict[str, Any] = dict.fromkeys(row.schema().fieldNames())  # its text leaves out what is null
        found.update(json.loads(row.json()))
        return found
    except Exception:  # a plan that Spark has changed, or another release; somebody else looks then
        return None
