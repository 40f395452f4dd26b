"""What bronze is held against, as data: every message has its coordinates and its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.source import MESSAGES_TABLE
from framework.contracts.actions import TableName
from framework.contracts.tables import MESSAGE_AT
from framework.layer import Run
from framework.quality.rules import Rule, digest
from framework.quality.subject import Past, Subject

RULES = tuple(Rule(f"not_null({name})", "not_null", (name,)) for name in (*MESSAGE_AT, "ingested_at"))


def expectations(run: Run, past: Past) -> Sequence[Subject]:
    """The messages that have landed since bronze was judged; all of them at first, and as long as one breaks a rule."""
    version = run.lake.version(run.spark, MESSAGES_TABLE)
    if version is None or not run.config.quality.defaults:
        return ()
    subject = Subject("bronze", None, TableName(None, None, "messages"), RULES, keys=MESSAGE_AT, version=version, suite=digest(RULES))
    has_failed = any(result.success is False for result in past.results.get(subject.place, ()))
    since = None if has_failed else past.started_at(subject.place)

    def rows(spark: SparkSession) -> DataFrame:
        messages = run.lake.read(spark, MESSAGES_TABLE)
        fresh = messages if since is None else messages.where(F.col("ingested_at") >= F.lit(since))
        return fresh.select(*MESSAGE_AT, "ingested_at")

    return (replace(subject, rows=rows, size=run.lake.read(run.spark, MESSAGES_TABLE).count()),)
