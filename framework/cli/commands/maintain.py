"""`mainstem maintain`: compacts small files and removes files that nothing reads. No value changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from framework.cli.options import Options
from framework.cli.progress import show_progress
from framework.cli.terminal import say, say_json, say_note
from framework.errors import ConfigurationError
from framework.lakehouse.deletion_vectors import purge_marked_rows
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.lakehouse.staging import clear_staging
from framework.lakehouse.tended_tables import TendedTables
from framework.pipeline.layer import MaintainedTable, Run, installed_layers
from framework.pipeline.session import open_pipeline, read_config
from framework.spark.worker_threads import in_threads
from framework.text.formatting import quantity
from framework.text.tables import TextTable

SHORTEST_DAYS = 7
SMALL_BYTES = 32 * 1024 * 1024
FEW_FILES = 8
_VACUUM_COMMITS = "spark.databricks.delta.vacuum.logging.enabled"
"""Else each VACUUM adds two commits, also to a table that nobody writes. After a month its log then loses
those that streams read next.
"""


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """The maintenance of one table: files before and after, and bytes.

    `note` says why old files stay, or why the maintenance failed (`has_failed`); null if neither.
    """

    table: str
    files_before: int
    files_after: int
    size: int
    is_compacted: bool
    note: str | None = None
    has_failed: bool = False


def run(options: Options) -> int:
    """Compact and clean the tables of the pipeline; returns 1 when that failed for one of them."""
    if options.days < SHORTEST_DAYS:
        raise ConfigurationError(
            "RETENTION_TOO_SHORT",
            found=quantity(options.days, "day"),
            where="--days",
            action=f"name {SHORTEST_DAYS} or more: readers and rebuilds may still use younger files",
        )
    config = read_config(options.config)
    with (
        show_progress(is_shown=not options.json) as progress,
        open_pipeline(config, is_exclusive=True, notify=say_note) as (lake, spark),
    ):
        work = Run(spark, lake, config, "maintain", options.table, progress=progress)
        progress.begin("maintenance")
        tables = [
            table
            for layer in installed_layers()
            if layer.tables_to_maintain is not None
            for table in layer.tables_to_maintain(work)
        ]
        results = maintain_tables(work, tables, options.days)
        clear_staging(spark, lake)
    if options.json:
        say_json({"tables": [asdict(result) for result in results]})
    else:
        say([_table(results)])
    return 1 if any(result.has_failed for result in results) else 0


def maintain_tables(work: Run, tables: Sequence[MaintainedTable], days: int) -> list[MaintenanceResult]:
    """Maintain the tables of which something may be new since the last time; the others stay unread."""
    tended, progress = TendedTables(work.spark, work.lake), work.progress
    progress.expect("tables", len(tables))

    def one(spark: SparkSession, table: MaintainedTable) -> MaintenanceResult:
        known = tended.size_of(table.name) if table.in_use is None else None
        if known is not None:
            progress.advance("tables")
            return MaintenanceResult(table.name, known[0], *known, is_compacted=False)
        progress.start_table(table.name)
        result = maintain_table(spark, work.lake, table, days)
        if table.in_use is None and not result.has_failed:
            tended.note(table.name, result.files_after, result.size, days)
        progress.end_table(table.name, "FAILED" if result.has_failed else "ok")
        progress.advance("tables")
        return result

    try:
        return in_threads(work.spark, tables, one)
    finally:
        tended.write([table.name for table in tables] if work.table is None else None)


def maintain_table(
    spark: SparkSession, lake: Lakehouse, table: MaintainedTable, days: int
) -> MaintenanceResult:
    """Compact one table where that pays, and remove what it has not used for so many days.

    A failure is noted in the result and does not stop the other tables.
    """
    before, size = _files(spark, lake, table.name)
    is_ragged = before >= FEW_FILES and size < before * SMALL_BYTES
    try:
        name = sql_name(lake.location(table.name))
        if is_ragged:
            spark.sql(f"OPTIMIZE {name}")
        is_purged = purge_marked_rows(spark, lake.location(table.name))
        if table.in_use is None:
            with suppress(PySparkException):  # where the platform does not allow that, it goes on without
                spark.conf.set(_VACUUM_COMMITS, "false")
            spark.sql(f"VACUUM {name} RETAIN {24 * days} HOURS")
    except Exception as error:
        note = f"failed: {str(error).partition(chr(10))[0][:300]}"
        return MaintenanceResult(table.name, before, before, size, False, note, has_failed=True)
    # VACUUM removes no file that the table has
    after, size = _files(spark, lake, table.name) if is_ragged or is_purged else (before, size)
    return MaintenanceResult(table.name, before, after, size, after < before, table.in_use)


def _files(spark: SparkSession, lake: Lakehouse, name: str) -> tuple[int, int]:
    """The number of a table's files, and their bytes."""
    row = (
        spark.sql(f"DESCRIBE DETAIL {sql_name(lake.location(name))}")
        .select("numFiles", "sizeInBytes")
        .first()
    )
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def _table(results: list[MaintenanceResult]) -> TextTable:
    rows = [
        (t.table, str(t.files_before), str(t.files_after), f"{t.size / 1024 / 1024:,.1f} MB", t.note or "")
        for t in results
    ]
    return TextTable(("table", "files before", "after", "size", "note"), rows)
