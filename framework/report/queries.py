"""The queries of a report, one or two for each table: each returns few rows, and none reads a replica."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.contracts.table_names import (
    BAD_VALUES_TABLE,
    BATCHES_TABLE,
    EPOCHS_TABLE,
    PENDING_TABLE,
    QUALITY_RESULTS_TABLE,
    QUARANTINE_TABLE,
    RUNS_TABLE,
    STATEMENTS_TABLE,
    TABLES_TABLE,
)

MAX_RUNS = 50
MAX_CHANGES = 300

_MAX_BATCHES = 50
_MAX_GROUPS = 500
_MAX_CHECKS = 5_000
_MAX_NEWEST_BATCHES = 1_000
_SAMPLES_EACH, _MAX_SAMPLES = 5, 60
_EXCERPT_BYTES = 4_000
_TEXT = 500
_PLACE = ("source", "database", "schema", "table")


@dataclass(frozen=True, slots=True)
class Query:
    """A query of one table; `rows` returns few of its rows."""

    name: str
    table: str
    rows: Callable[[DataFrame], DataFrame]


def _runs(table: DataFrame) -> DataFrame:
    seconds = F.col("seconds") if "seconds" in table.columns else F.lit(None).cast("double")
    steps = F.col("steps") if "steps" in table.columns else F.lit(None).cast("string")
    newest = table.orderBy(F.desc("finished_at")).limit(MAX_RUNS)
    measured = (seconds.alias("seconds"), steps.alias("steps"))
    return newest.select("run_id", "finished_at", *measured, "counts", "tables", "errors")


def _outcomes(table: DataFrame) -> DataFrame:
    newest = F.slice(F.reverse(F.sort_array(F.collect_set("batch"))), 1, _MAX_NEWEST_BATCHES)
    return table.groupBy(*_PLACE, "kind").agg(
        F.sum("rows").alias("rows"),
        F.sum("merged").alias("merged"),
        F.max("max_event_time").alias("event_time"),
        F.max("max_ingested_at").alias("ingested_at"),
        newest.alias("batches"),
    )


def _batches(table: DataFrame) -> DataFrame:
    each = table.groupBy("batch").agg(
        F.sum("rows").alias("rows"),
        F.max("max_event_time").alias("event_time"),
        F.max("max_ingested_at").alias("ingested_at"),
    )
    return each.orderBy(F.desc("batch")).limit(_MAX_BATCHES)


def _tables(table: DataFrame) -> DataFrame:
    newest = Window.partitionBy(*_PLACE).orderBy(F.desc("revision"))
    return (
        table.withColumn("n", F.row_number().over(newest))
        .where("n = 1")
        .select(
            *_PLACE,
            "state",
            "reason",
            "replica",
            "history",
            "keys",
            "columns",
            "batch",
            "event_time",
            "changes_applied",
            "late",
        )
    )


def _column_changes(table: DataFrame) -> DataFrame:
    order = Window.partitionBy(*_PLACE).orderBy("revision")
    seen = table.select(*_PLACE, "recorded_at", "columns", F.lag("columns").over(order).alias("former"))
    return (
        seen.where("former <> '[]' AND columns <> former").orderBy(F.desc("recorded_at")).limit(MAX_CHANGES)
    )


def _statements(table: DataFrame) -> DataFrame:
    chosen = table.select(
        *_PLACE,
        "kind",
        "event_time",
        F.substring("statement", 1, _TEXT).alias("statement"),
        "actions",
        "batch",
    )
    return chosen.orderBy(F.desc_nulls_last("event_time"), F.desc("batch")).limit(MAX_CHANGES)


def _waiting(table: DataFrame) -> DataFrame:
    return table.groupBy(*_PLACE).agg(F.count("*").alias("rows"), F.min("event_time").alias("oldest"))


def _refusals(table: DataFrame) -> DataFrame:
    counts = table.where("NOT is_resolved").groupBy("source", "format", "reason")
    return counts.agg(
        F.count("*").alias("rows"), F.min("first_seen_at").alias("first"), F.max("last_seen_at").alias("last")
    )


def _refused(table: DataFrame) -> DataFrame:
    newest = Window.partitionBy("source", "reason").orderBy(
        F.desc("last_seen_at"), F.desc("batch"), "topic", "partition", "offset"
    )
    chosen = table.where("NOT is_resolved").select(
        "source", "format", "topic", "partition", "offset", "reason",
        F.substring("detail", 1, _TEXT).alias("detail"), "first_seen_at",
        *(F.substring(name, 1, _EXCERPT_BYTES).alias(name) for name in ("key", "value")),
        *(F.length(name).alias(f"{name}_bytes") for name in ("key", "value")),
        F.row_number().over(newest).alias("n"),
    )  # fmt: skip
    return chosen.where(F.col("n") <= _SAMPLES_EACH).orderBy("n", "source", "reason").limit(_MAX_SAMPLES)


def _bad_values(table: DataFrame) -> DataFrame:
    newest = F.max_by(F.struct(F.substring("text", 1, _TEXT).alias("text"), "change_id"), "sequence")
    count = F.when(F.col("reason") == "not_listed", F.col("text").try_cast("bigint")).otherwise(F.lit(1))
    named = table.withColumns({"rows": count, "column": F.coalesce("column", F.lit("several columns"))})
    groups = named.groupBy(*_PLACE, "column", "reason").agg(
        F.sum("rows").alias("rows"), newest.alias("newest")
    )
    return groups.orderBy(F.desc("rows"), *_PLACE, "column").limit(_MAX_GROUPS)


def _checks(table: DataFrame) -> DataFrame:
    """The newest result of each rule that the table has now."""
    subject = (*_PLACE, "layer")
    of_rule = Window.partitionBy(*subject, "rule").orderBy(F.desc("checked_at"))
    of_table = Window.partitionBy(*subject).orderBy(F.desc("checked_at"))
    newest = table.withColumn("n", F.row_number().over(of_rule)).withColumn(
        "newest_suite", F.first("suite").over(of_table)
    )
    cut = {
        **{name: F.substring(name, 1, _TEXT) for name in ("expected", "observed", "detail")},
        "failing_keys": F.transform("failing_keys", lambda key: F.substring(key, 1, _TEXT)),
    }
    kept = newest.where("n = 1 AND suite = newest_suite").withColumns(cut)
    return kept.orderBy("success", "severity", *subject, "rule").limit(_MAX_CHECKS)


def _verdicts(table: DataFrame) -> DataFrame:
    def failed(severity: str) -> Column:
        return F.sum((~F.col("success") & (F.col("severity") == severity)).cast("int"))

    runs = table.groupBy("run_id").agg(
        F.min("started_at").alias("started_at"),
        failed("error").alias("errors"),
        failed("warn").alias("warnings"),
    )
    return runs.orderBy(F.desc("started_at")).limit(MAX_RUNS)


QUERIES = (
    Query("runs", RUNS_TABLE, _runs),
    Query("outcomes", BATCHES_TABLE, _outcomes),
    Query("batches", BATCHES_TABLE, _batches),
    Query("tables", TABLES_TABLE, _tables),
    Query("column_changes", TABLES_TABLE, _column_changes),
    Query("statements", STATEMENTS_TABLE, _statements),
    Query("waiting", PENDING_TABLE, _waiting),
    Query("epochs", EPOCHS_TABLE, lambda table: table),
    Query("refusals", QUARANTINE_TABLE, _refusals),
    Query("refused", QUARANTINE_TABLE, _refused),
    Query("bad_values", BAD_VALUES_TABLE, _bad_values),
    Query("checks", QUALITY_RESULTS_TABLE, _checks),
    Query("verdicts", QUALITY_RESULTS_TABLE, _verdicts),
)
