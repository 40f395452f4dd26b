"""Reading a report's records from the operational tables: one small query each, a few at a time, none a replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pyspark.sql import Row, SparkSession

from framework.config import Config
from framework.contracts.quality import RESULTS_TABLE
from framework.report import queries, rows
from framework.report.file_rows import rows_by_log
from framework.report.records import Report, Source, Table
from framework.tables import Lakehouse, is_path

_THREADS = 4
_MESSAGES = "bronze/messages"


def collect(spark: SparkSession, lake: Lakehouse, config: Config) -> Report:
    """The report of a pipeline as it is now. Nothing is written, and no secret of the configuration is read."""
    found = _read_all(spark, lake)
    changes = sorted(
        [*map(rows.statement, found["statements"]), *map(rows.column_change, found["column_changes"])],
        key=lambda change: (change.happened_at is not None, change.happened_at or datetime.min.replace(tzinfo=UTC)),
        reverse=True,
    )
    checks = found["checks"]
    return Report(
        pipeline=config.pipeline,
        lakehouse=shown_lakehouse(lake),
        version=installed_version("mainstem"),
        generated_at=datetime.now(UTC),
        sources=tuple(_source(name, config) for name in sorted(config.sources)),
        messages=_row_count(lake.place(_MESSAGES)) if found["runs"] or found["fates"] else 0,
        runs=tuple(map(rows.past_run, found["runs"])),
        fates=tuple(map(rows.fate, found["fates"])),
        tables=tuple(_counted(rows.table(row)) for row in found["tables"]),
        waiting=tuple(map(rows.waiting, found["waiting"])),
        stops=rows.open_stops(found["epochs"]),
        refusals=tuple(map(rows.refusal, found["refusals"])),
        refused=tuple(map(rows.refused, found["refused"])),
        schema_changes=tuple(changes[: queries.MAX_CHANGES]),
        bad_values=tuple(map(rows.bad_values, found["bad_values"])),
        batches=tuple(map(rows.batch, found["batches"])),
        checks=tuple(map(rows.check, checks)) if lake.exists(spark, RESULTS_TABLE) else None,
        verdicts=tuple(map(rows.verdict, found["verdicts"])),
    )


def _read_all(spark: SparkSession, lake: Lakehouse) -> dict[str, Sequence[Row]]:
    def one(query: queries.Query) -> Sequence[Row]:
        return query.rows(lake.read(spark, query.table)).collect() if lake.exists(spark, query.table) else ()

    run: Callable[[queries.Query], Sequence[Row]] = one
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return dict(zip((query.name for query in queries.QUERIES), pool.map(run, queries.QUERIES), strict=True))


def _source(name: str, config: Config) -> Source:
    source = config.sources[name]
    kind = "files" if source.files is not None else "kafka" if source.kafka is not None else "table"
    return Source(name, source.format, kind, source.epoch)


def _counted(table: Table) -> Table:
    return table if table.replica is None else replace(table, rows=_row_count(table.replica))


def _row_count(place: str) -> int | None:
    return rows_by_log(Path(place)) if is_path(place) and "://" not in place else None


def shown_lakehouse(lake: Lakehouse) -> str:
    """Where the tables are: a path or URL without secrets, or the catalog and what the names of its schemas begin with."""
    return shown_place(lake.root) if lake.catalog is None else f"{lake.catalog}.{lake.schema_prefix}…"


def shown_place(place: str) -> str:
    """A path or URL without what may be secret in it: user, password, query."""
    if "://" not in place:
        return place
    parts = urlsplit(place)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2] if ":" in parts.netloc else parts.netloc, parts.path, "", ""))
