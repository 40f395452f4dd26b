"""Reads the records of a report from the operational tables with small queries, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.table_names import (
    CHANGES_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    QUALITY_RESULTS_TABLE,
)
from framework.lakehouse.lakehouse import Lakehouse, is_path
from framework.pipeline.message_counts import accounts
from framework.report import queries, row_mapping
from framework.report.delta_row_count import rows_by_log
from framework.report.model import PartitionOffset, Report, Source, Table
from framework.report.summary import unaccounted

_THREADS = 4
_MESSAGES, _CHANGES = MESSAGES_TABLE, CHANGES_TABLE


def collect(spark: SparkSession, lake: Lakehouse, config: Config) -> Report:
    """The report on a pipeline as it is now. It writes nothing, and reads no secret of the configuration."""
    found = _read_all(spark, lake)
    changes = sorted(
        [
            *map(row_mapping.statement, found["statements"]),
            *map(row_mapping.column_change, found["column_changes"]),
        ],
        key=lambda change: (
            change.happened_at is not None,
            change.happened_at or datetime.min.replace(tzinfo=UTC),
        ),
        reverse=True,
    )
    checks = found["checks"]
    report = Report(
        pipeline=config.pipeline,
        lakehouse=describe_lakehouse(lake),
        version=installed_version("mainstem"),
        generated_at=datetime.now(UTC),
        sources=tuple(_source(name, config) for name in sorted(config.sources)),
        messages=_row_count(lake.location(_MESSAGES)) if found["runs"] or found["outcomes"] else 0,
        runs=tuple(map(row_mapping.past_run, found["runs"])),
        outcomes=tuple(map(row_mapping.outcome, found["outcomes"])),
        tables=tuple(_counted(row_mapping.table(row)) for row in found["tables"]),
        waiting=tuple(map(row_mapping.waiting, found["waiting"])),
        stops=row_mapping.open_stops(found["epochs"]),
        refusals=tuple(map(row_mapping.refusal, found["refusals"])),
        refused=tuple(map(row_mapping.refused, found["refused"])),
        schema_changes=tuple(changes[: queries.MAX_CHANGES]),
        bad_values=tuple(map(row_mapping.bad_values, found["bad_values"])),
        batches=tuple(map(row_mapping.batch, found["batches"])),
        checks=tuple(map(row_mapping.check, checks)) if lake.exists(spark, QUALITY_RESULTS_TABLE) else None,
        verdicts=tuple(map(row_mapping.verdict, found["verdicts"])),
    )
    if not unaccounted(report) or not lake.exists(spark, _CHANGES):
        return report
    return replace(
        report, accounts=tuple(map(row_mapping.account, accounts(lake.read(spark, _CHANGES)).collect()))
    )


def partition_offsets(spark: SparkSession, lake: Lakehouse) -> tuple[PartitionOffset, ...]:
    """How far each partition has come, of sources that the order in the partition orders."""
    if not lake.exists(spark, PARTITIONS_TABLE):
        return ()
    newest = F.max_by("last_offset", F.struct("epoch", "batch", "last_offset"))
    found = lake.read(spark, PARTITIONS_TABLE).groupBy("source", "topic", "partition")
    rows = found.agg(newest.alias("last_offset")).orderBy("source", "topic", "partition").collect()
    return tuple(PartitionOffset(*row) for row in rows)


def _read_all(spark: SparkSession, lake: Lakehouse) -> dict[str, Sequence[Row]]:
    def one(query: queries.Query) -> Sequence[Row]:
        return query.rows(lake.read(spark, query.table)).collect() if lake.exists(spark, query.table) else ()

    run: Callable[[queries.Query], Sequence[Row]] = one
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return dict(
            zip((query.name for query in queries.QUERIES), pool.map(run, queries.QUERIES), strict=True)
        )


def _source(name: str, config: Config) -> Source:
    source = config.sources[name]
    kind = "files" if source.files is not None else "kafka" if source.kafka is not None else "table"
    return Source(name, source.format, kind, source.epoch)


def _counted(table: Table) -> Table:
    return table if table.replica is None else replace(table, rows=_row_count(table.replica))


def _row_count(place: str) -> int | None:
    return rows_by_log(Path(place)) if is_path(place) and "://" not in place else None


def describe_lakehouse(lake: Lakehouse) -> str:
    """The place of the tables, without secrets: a path or URL, or the catalog and its schemas' prefix."""
    return without_credentials(lake.root) if lake.catalog is None else f"{lake.catalog}.{lake.schema_prefix}…"


def without_credentials(place: str) -> str:
    """A path or URL without what may be secret in it: user, password, query."""
    if "://" not in place:
        return place
    parts = urlsplit(place)
    return urlunsplit(
        (
            parts.scheme,
            parts.netloc.rpartition("@")[2] if ":" in parts.netloc else parts.netloc,
            parts.path,
            "",
            "",
        )
    )
