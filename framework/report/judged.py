"""Leaves out the quality results on what is not judged any more: they would stand as they are for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from framework.config.model import Config
from framework.contracts.quality import QualityResult
from framework.report.model import CheckCount, Table, TableKey

_Check = TypeVar("_Check", QualityResult, CheckCount)


def standing(checks: Iterable[_Check], tables: Iterable[Table], config: Config) -> tuple[_Check, ...]:
    """The newest results, or numbers of them, that the next run would judge again, or keep as they are.

    Args:
        checks: The newest results of each table and source, or how many there are.
        tables: The tables, with their states.
        config: The configuration.
    """
    if not config.is_judged:
        return ()
    judged = {table.table_key for table in tables if table.state != "dropped"}
    return tuple(check for check in checks if _is_judged(check, judged, config))


def _is_judged(check: QualityResult | CheckCount, judged: set[TableKey], config: Config) -> bool:
    if check.source is None:  # messages and changes of all sources
        return True
    if check.source not in config.sources:
        return False
    if check.table is None:
        return config.quality.defaults or check.source in config.quality.sources
    settings = config.settings(check.source, check.database, check.schema, check.table)
    key = TableKey(check.source, check.database, check.schema, check.table)
    return key in judged and not settings.exclude
