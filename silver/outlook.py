"""What silver would make of the messages that wait: decoded and judged as a run does it, and nothing committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.tables import CHANGES, SCHEMAS
from framework.layer import Outlook, Run
from framework.pace import set_pace
from silver import derived, epochs
from silver.batch import MESSAGES_TABLE, Arrived, decoded, judged
from silver.desk import STRIDE, Desk, source_plans
from silver.passed_over import last_batch, unread
from silver.resets import Stop
from silver.rows import STAGED_DDL
from silver.summary import Contents, contents_of


def outlook(run: Run) -> Outlook:
    """The fates of the waiting messages by kind, why some would be refused and which sources would stop.

    The rows to be of `silver/changes` and of what is derived from it go to the layer behind.
    """
    if not run.lake.exists(run.spark, MESSAGES_TABLE):
        return Outlook({"silver": _found(0, (), ())})
    spark, desk = run.spark, Desk(run.lake, run.config, source_plans(run.config))
    messages, arrived = _waiting(run, desk)
    if not arrived.messages:
        return Outlook({"silver": _found(0, (), ())})
    set_pace(spark, arrived.messages)
    decoded(messages, desk).write.parquet(_place(run, "staged"))
    staged = spark.read.schema(STAGED_DDL).parquet(_place(run, "staged"))
    contents = contents_of(staged, arrived.landed_at)
    rows, stops = judged(staged, desk, arrived, contents)
    batch = (last_batch(spark, desk) // STRIDE + 1) * STRIDE
    columns = [F.col(f"`{name}`") for name in CHANGES.names]
    rows.withColumn("batch", F.lit(batch).cast("long")).select(*columns).write.parquet(_place(run, "changes"))
    changes = spark.read.schema(CHANGES).parquet(_place(run, "changes"))
    counts = derived.count_rows(changes, arrived.landed_at)
    return Outlook({"silver": _found(arrived.messages, counts, stops)}, _rows(desk, contents, changes, counts, arrived))


def _waiting(run: Run, desk: Desk) -> tuple[DataFrame, Arrived]:
    """The messages of known sources that have no fate, but those of sources that stand still; how many, and when the last landed."""
    sources = run.config.sources
    halts = epochs.read_history(run.spark, run.lake).halts()
    moving = [name for name in sources if name not in halts or sources[name].epoch > halts[name].epoch]
    messages = run.lake.read(run.spark, MESSAGES_TABLE).where(F.col("source").isin(*moving))
    unread(messages, desk).write.parquet(_place(run, "messages"))
    found = run.spark.read.schema(messages.schema).parquet(_place(run, "messages"))
    row = found.agg(F.count("*"), F.max("ingested_at")).first()
    return found, Arrived(0, None) if row is None else Arrived(row[0], row[1])


def _place(run: Run, name: str) -> str:
    return str(Path(run.scratch) / "silver" / name)


def _found(messages: int, counts: Sequence[Row], stops: Sequence[Stop]) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for row in counts:
        kinds[row["kind"]] += row["rows"]
        if row["kind"] == "quarantined":
            refused[row["reason"]] += row["rows"]
    stopped = [{"source": stop.source, "reason": stop.reason, "detail": stop.detail} for stop in stops]
    return {"messages": messages, "kinds": dict(kinds.most_common()), "quarantined": dict(refused), "stopped": stopped}


def _rows(desk: Desk, contents: Contents, changes: DataFrame, counts: Sequence[Row], arrived: Arrived) -> Mapping[str, DataFrame]:
    """What the commit and its derivation would append, of that which gold reads."""
    spark = changes.sparkSession
    schemas = derived.schema_rows(contents.schemas, 0, desk.known_schemas(spark))
    counted = [(*row, arrived.landed_at) for row in counts]
    return {
        derived.CHANGES_TABLE: changes,
        derived.COUNTS_TABLE: spark.createDataFrame(counted, derived.COUNTS_SCHEMA),
        derived.SCHEMAS_TABLE: spark.createDataFrame(schemas, SCHEMAS),
        derived.STATEMENTS_TABLE: derived.statements_of(changes),
    }
