"""The command `maintain`: small files into larger ones, and files that nothing reads any more away. No value changes."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from framework.commands import opened, print_json, read_config
from framework.errors import ConfigurationError
from framework.layer import Kept, Run, installed_layers
from framework.tables import Lakehouse, sql_name
from framework.text_tables import aligned

SHORTEST_DAYS = 7
SMALL_BYTES = 32 * 1024 * 1024
FEW_FILES = 8


@dataclass(frozen=True, slots=True)
class Tended:
    """What was done with one table: its files and bytes before and after, and why old files stay, if they do."""

    table: str
    files_before: int
    files_after: int
    size: int
    is_compacted: bool
    note: str | None = None


def maintain(options: argparse.Namespace) -> int:
    """Compact and clean the tables of the pipeline; exit code 1 when one of them could not be."""
    if options.days < SHORTEST_DAYS:
        raise ConfigurationError(
            "RETENTION_TOO_SHORT",
            found=f"{options.days} days",
            where="--days",
            action=f"name {SHORTEST_DAYS} or more: readers and rebuilds may stand on files that are younger",
        )
    config = read_config(options)
    with opened(config, is_exclusive=True) as (lake, spark):
        run = Run(spark, lake, config, "maintain", options.table)
        kept = [kept for layer in installed_layers() if layer.kept is not None for kept in layer.kept(run)]
        tended = [tend(spark, lake, each, options.days) for each in kept]
        _remove_staging(lake)
    if options.json:
        print_json({"tables": [asdict(each) for each in tended]})
    else:
        print("\n".join(_lines(tended)))
    return 1 if any(each.note and each.note.startswith("failed") for each in tended) else 0


def tend(spark: SparkSession, lake: Lakehouse, kept: Kept, days: int) -> Tended:
    """Compact one table where that pays, and remove what it has not used for so many days; a failure is that table's alone."""
    before, size = _files(spark, lake, kept.name)
    is_ragged = before >= FEW_FILES and size < before * SMALL_BYTES
    try:
        table = sql_name(lake.place(kept.name))
        if is_ragged:
            spark.sql(f"OPTIMIZE {table}")
        if kept.in_use is None:
            spark.sql(f"VACUUM {table} RETAIN {24 * days} HOURS")
    except Exception as error:
        return Tended(kept.name, before, before, size, False, f"failed: {str(error).partition(chr(10))[0][:300]}")
    after, size = _files(spark, lake, kept.name) if is_ragged else (before, size)  # VACUUM takes no file that the table has
    return Tended(kept.name, before, after, size, after < before, kept.in_use)


def _files(spark: SparkSession, lake: Lakehouse, name: str) -> tuple[int, int]:
    row = spark.sql(f"DESCRIBE DETAIL {sql_name(lake.place(name))}").select("numFiles", "sizeInBytes").first()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def _remove_staging(lake: Lakehouse) -> None:
    """Remove what a killed run has left half-written; nothing reads it."""
    if lake.local_root is not None:
        shutil.rmtree(f"{lake.checkpoints}/staging", ignore_errors=True)


def _lines(tended: list[Tended]) -> Iterator[str]:
    rows = [(t.table, str(t.files_before), str(t.files_after), f"{t.size / 1024 / 1024:,.1f} MB", t.note or "") for t in tended]
    yield from aligned(("table", "files before", "after", "size", "note"), rows)
