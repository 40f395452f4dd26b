"""Reads the records of a report from the operational tables with small queries, a few at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from urllib.parse import urlsplit, urlunsplit

from framework.config.model import Config
from framework.contracts.table_names import MESSAGES_TABLE, QUALITY_RESULTS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.table_reader import Row, TableReader
from framework.pipeline.bad_cells import BAD_CELLS
from framework.pipeline.generation import first_counted
from framework.pipeline.layer import View
from framework.pipeline.message_counts import accounts, accounts_of_refused
from framework.report import queries, row_mapping
from framework.report.judged import standing
from framework.report.model import (
    BadValueCount,
    CheckCount,
    PartitionOffset,
    Report,
    Source,
    Table,
    TableKey,
)
from framework.report.summary import APPLIED_KINDS, unaccounted

_THREADS = 4


def collect(view: View) -> Report:
    """The report on a pipeline as it is now. It writes nothing, and reads no secret of the configuration."""
    lake, config, tables = view.lake, view.config, view.tables
    first = first_counted(tables, lake)
    found = _read_all(tables, first)
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
    formats = {name: source.format for name, source in config.sources.items()}
    tables_now = tuple(
        _counted(row_mapping.table(_placed(row, tables), formats.get(row["source"], "")), tables)
        for row in found["tables"]
    )
    checks = standing(map(row_mapping.check, found["checks"]), tables_now, config)
    more_checks = standing(_more_checks(found["checks"], tables), tables_now, config)
    report = Report(
        pipeline=config.pipeline,
        lakehouse=describe_lakehouse(lake),
        version=installed_version("mainstem"),
        generated_at=datetime.now(UTC),
        sources=tuple(_source(name, config) for name in sorted(config.sources)),
        messages=tables.logged_count(lake.location(MESSAGES_TABLE))
        if found["runs"] or found["outcomes"]
        else 0,
        runs=tuple(map(row_mapping.past_run, found["runs"])),
        outcomes=row_mapping.outcomes(found["outcomes"], _batches_behind(found, tables, first)),
        tables=tables_now,
        waiting=tuple(map(row_mapping.waiting, found["waiting"])),
        stops=row_mapping.open_stops(found["epochs"]),
        refusals=tuple(map(row_mapping.refusal, found["refusals"])),
        refused=tuple(map(row_mapping.refused, found["refused"])),
        dismissed=tuple(map(row_mapping.dismissed, found["dismissed"])),
        schema_changes=tuple(changes[: queries.MAX_CHANGES]),
        bad_values=tuple(map(row_mapping.bad_values, found["bad_values"])),
        more_bad_values=tuple(_more_bad_values(found["bad_values"], tables)),
        batches=tuple(map(row_mapping.batch, found["batches"])),
        checks=checks if tables.exists(QUALITY_RESULTS_TABLE) else None,
        more_checks=more_checks,
        verdicts=tuple(map(row_mapping.verdict, found["verdicts"])),
    )
    report = replace(report, accounts=tuple(map(row_mapping.account, accounts_of_refused(tables))))
    if not unaccounted(report):
        return report
    return replace(report, accounts=tuple(map(row_mapping.account, accounts(tables))))


def partition_offsets(tables: TableReader) -> tuple[PartitionOffset, ...]:
    """How far each partition has come, of sources that the order in the partition orders."""
    return tuple(
        PartitionOffset(row["source"], row["topic"], row["partition"], row["last_offset"])
        for row in tables.rows(queries.PARTITIONS)
    )


def _read_all(tables: TableReader, first: int) -> dict[str, Sequence[Row]]:
    """The rows of each query; of batches those from the first one that counts."""

    def read(name: str) -> Sequence[Row]:
        query = queries.QUERIES[name]
        return tables.rows(query, first=first) if name in queries.COUNTED else tables.rows(query)

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return dict(zip(queries.QUERIES, pool.map(read, queries.QUERIES), strict=True))


def _batches_behind(found: dict[str, Sequence[Row]], tables: TableReader, first: int) -> Sequence[Row]:
    """The batches that a table may not have applied; nothing is asked where every table has applied all."""
    applied = {row_mapping.table_key(row): row["batch"] for row in found["tables"]}
    behind = [
        batch
        for row in found["outcomes"]
        if row["kind"] in APPLIED_KINDS
        and (batch := applied.get(row_mapping.table_key(row))) is not None
        and row["newest_batch"] > batch
    ]
    return tables.rows(queries.BATCHES_AFTER, first=max(min(behind), first - 1)) if behind else ()


def _more_checks(listed: Sequence[Row], tables: TableReader) -> Iterator[CheckCount]:
    """How many checks are not in the list, where it is cut."""
    if len(listed) < queries.MAX_CHECKS:
        return
    names = [field.name for field in fields(CheckCount)][:-1]
    shown = Counter(tuple(row[name] for name in names) for row in listed)
    for row in tables.rows(queries.CHECK_COUNTS):
        key = tuple(row[name] for name in names)
        if row["rows"] > shown[key]:
            yield CheckCount(**dict(zip(names, key, strict=True)), rows=row["rows"] - shown[key])


def _more_bad_values(listed: Sequence[Row], tables: TableReader) -> Iterator[BadValueCount]:
    """How many bad cells are not in the list, where it is cut."""
    if len(listed) < queries.MAX_BAD_VALUES:
        return
    shown: Counter[TableKey] = Counter()
    for row in listed:
        shown[row_mapping.table_key(row)] += row["rows"] or 0
    for row in tables.rows(BAD_CELLS):
        key = row_mapping.table_key(row)
        if (row["cells"] or 0) > shown[key]:
            yield BadValueCount(key, row["cells"] - shown[key])


def _source(name: str, config: Config) -> Source:
    source = config.sources[name]
    kind = "files" if source.files is not None else "kafka" if source.kafka is not None else "table"
    return Source(name, source.format, kind, source.epoch)


def _placed(row: Row, tables: TableReader) -> Row:
    """The state of a table with its locations in this lakehouse, which may have been moved since."""
    return {**row, **{name: tables.own_location(row[name]) for name in ("replica", "history")}}


def _counted(table: Table, tables: TableReader) -> Table:
    return table if table.replica is None else replace(table, rows=tables.logged_count(table.replica))


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
