"""Quality rules of bronze: every message has its coordinates and the time of its landing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, KnownFindings, PreviousResults, Rule
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGE_AT
from framework.lakehouse.local_tables import parts_of_files
from framework.pipeline.layer import Run
from framework.quality.memory import memory_of
from framework.quality.row_checks import passed
from framework.quality.rules import digest

RULES = tuple(Rule(f"not_null({name})", "not_null", (name,)) for name in (*MESSAGE_AT, "ingested_at"))


def expectations(run: Run, past: PreviousResults) -> Sequence[CheckTarget]:
    """The messages since the last check; all of them the first time, and as long as one breaks a rule."""
    version = run.lake.version(run.spark, MESSAGES_TABLE)
    if version is None or not run.config.quality.defaults:
        return ()
    subject = CheckTarget(
        "bronze",
        None,
        TableName(None, None, "messages"),
        RULES,
        keys=MESSAGE_AT,
        version=version,
        suite=digest(RULES),
    )
    has_failed = any(result.success is False for result in past.results.get(subject.id, ()))
    since = None if has_failed else past.started_at(subject.id)

    def rows(spark: SparkSession) -> DataFrame:
        messages = run.lake.read(spark, MESSAGES_TABLE)
        fresh = messages if since is None else messages.where(F.col("ingested_at") >= F.lit(since))
        return fresh.select(*MESSAGE_AT, "ingested_at")

    memory = memory_of(run)
    new = None if has_failed else memory.new_files(MESSAGES_TABLE, memory.marks.get(MESSAGES_TABLE))
    if new is None:
        return (replace(subject, rows=rows, size=run.lake.read(run.spark, MESSAGES_TABLE).count()),)
    count = sum(file.rows for file in new)

    def known_findings() -> KnownFindings | None:
        for part in parts_of_files(new, (*MESSAGE_AT, "ingested_at"), repeated=("source", "topic")):
            if any(column.null_count for column in part.columns):
                return None
        return KnownFindings([passed(rule, count) for rule in RULES])

    return (replace(subject, rows=rows, size=count, known_findings=known_findings),)
