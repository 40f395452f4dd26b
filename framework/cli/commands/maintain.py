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
from framework.spark.local_frame import local_frame
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
_IGNORE_DAYS = "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled"
"""Else VACUUM goes by the property of the table alone, and not by the time that it is told."""
_RETENTION = "delta.deletedFileRetentionDuration"
_USUAL_DAYS = 7
"""What Delta takes where a table does not have the property."""
_SECONDS = "unix_seconds(timestamp_seconds(0) + CAST(retention AS INTERVAL))"
_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """The maintenance of one table: files before and after, and bytes.

    `note` says why old files stay, or why the maintenance failed (`has_failed`); null if neither.
    `days` is how long files stay that the table does not use any more; null where none were looked for.
    """

    table: str
    files_before: int
    files_after: int
    size: int
    is_compacted: bool
    note: str | None = None
    has_failed: bool = False
    days: int | None = None


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
    """Maintain the tables of which something may be new since the last time; the others stay unread.

    Tables that do not exist have no result.
    """
    tended, progress = TendedTables(work.spark, work.lake), work.progress
    progress.expect("tables", len(tables))

    def one(spark: SparkSession, table: MaintainedTable) -> MaintenanceResult | None:
        try:
            known = tended.size_of(table.name) if table.in_use is None else None
            if known is not None:
                return MaintenanceResult(table.name, known[0], *known, is_compacted=False)
            if not work.lake.exists(spark, table.name):
                return None
            return visited(spark, table)
        except Exception as error:  # a damaged table does not stop the others
            return _failed(table.name, error)
        finally:
            progress.advance("tables")

    def visited(spark: SparkSession, table: MaintainedTable) -> MaintenanceResult:
        progress.start_table(table.name)
        result = maintain_table(spark, work.lake, table, days)
        if result.days is not None:
            tended.note(table.name, result.files_after, result.size, result.days)
        progress.end_table(table.name, "FAILED" if result.has_failed else "ok")
        return result

    try:
        return [result for result in in_threads(work.spark, tables, one) if result is not None]
    finally:
        tended.write([table.name for table in tables] if work.table is None else None)


def maintain_table(
    spark: SparkSession, lake: Lakehouse, table: MaintainedTable, days: int
) -> MaintenanceResult:
    """Compact one table where that pays, and remove what it has not used for so many days.

    Files stay longer where a property of the table says so. A failure is noted in the result and does not
    stop the other tables.
    """
    before, kept, note = _Files(), None, table.in_use
    try:
        location = lake.location(table.name)
        before = after = _files(spark, location)
        is_ragged = before.number >= FEW_FILES and before.size < before.number * SMALL_BYTES
        if is_ragged:
            spark.sql(f"OPTIMIZE {sql_name(location)}")
        is_purged = purge_marked_rows(spark, location)
        if table.in_use is None:
            own = _own_days(spark, before)
            kept = max(days, own)
            note = _remove_old_files(spark, location, kept, own)
        if is_ragged or is_purged:  # VACUUM removes no file that the table has
            after = _files(spark, location)
    except Exception as error:  # the JVM has many kinds, and each is a result of this table alone
        return _failed(table.name, error, before)
    return MaintenanceResult(
        table.name, before.number, after.number, after.size, after.number < before.number, note, days=kept
    )


@dataclass(frozen=True, slots=True)
class _Files:
    """The number of a table's files, their bytes, and the property that says how long unused ones stay."""

    number: int = 0
    size: int = 0
    retention: str | None = None


def _files(spark: SparkSession, location: str) -> _Files:
    row = spark.sql(f"DESCRIBE DETAIL {sql_name(location)}").first()
    if row is None:
        return _Files()
    retention = (row["properties"] or {}).get(_RETENTION)
    return _Files(int(row["numFiles"]), int(row["sizeInBytes"]), retention)


def _own_days(spark: SparkSession, files: _Files) -> int:
    """For how many days the table itself keeps files that it does not use any more, a begun day as a day."""
    if files.retention is None:
        return _USUAL_DAYS
    row = local_frame(spark, [(files.retention,)], "retention string").selectExpr(_SECONDS).first()
    assert row is not None
    return -(-int(row[0]) // _DAY)


def _remove_old_files(spark: SparkSession, location: str, days: int, own_days: int) -> str | None:
    """Remove the files that the table has not used for so many days; a note where it may be fewer."""
    with suppress(PySparkException):  # where the platform does not allow that, it goes on without
        spark.conf.set(_VACUUM_COMMITS, "false")
    note = None
    try:
        spark.conf.set(_IGNORE_DAYS, "false")
    except PySparkException:
        if days != own_days:
            note = (
                f"old files may go after {quantity(own_days, 'day')}, as the table's {_RETENTION} says: "
                "this platform does not let a session choose another time"
            )
    spark.sql(f"VACUUM {sql_name(location)} RETAIN {24 * days} HOURS")
    return note


def _failed(name: str, error: Exception, files: _Files | None = None) -> MaintenanceResult:
    files = files or _Files()
    note = f"failed: {str(error).partition(chr(10))[0][:300]}"
    return MaintenanceResult(name, files.number, files.number, files.size, False, note, has_failed=True)


def _table(results: list[MaintenanceResult]) -> TextTable:
    rows = [
        (t.table, str(t.files_before), str(t.files_after), f"{t.size / 1024 / 1024:,.1f} MB", t.note or "")
        for t in results
    ]
    return TextTable(("table", "files before", "after", "size", "note"), rows)
