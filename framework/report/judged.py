"""Leaves out the quality results on what is not judged any more: they would stand as they are for ever."""

from __future__ import annotations

from collections.abc import Iterable

from framework.config.model import Config
from framework.contracts.quality import QualityResult
from framework.report.model import Table, TableKey


def standing(
    checks: Iterable[QualityResult], tables: Iterable[Table], config: Config
) -> tuple[QualityResult, ...]:
    """The newest results that the next run would judge again, or keep as they are.

    Args:
        checks: The newest results of each table and source.
        tables: The tables, with their states.
        config: The configuration.
    """
    if not config.is_judged:
        return ()
    judged = {table.table_key for table in tables if table.state != "dropped"}
    return tuple(check for check in checks if _is_judged(check, judged, config))


def _is_judged(check: QualityResult, judged: set[TableKey], config: Config) -> bool:
    if check.source is None:  # messages and changes of all sources
        return True
    if check.source not in config.sources:
        return False
    if check.table is None:
        return config.quality.defaults or check.source in config.quality.sources
    settings = config.settings(check.source, check.database, check.schema, check.table)
    key = TableKey(check.source, check.database, check.schema, check.table)
    return key in judged and not settings.exclude
