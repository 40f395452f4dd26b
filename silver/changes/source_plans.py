"""What the configuration says about decoding the messages of each source. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar, cast

from framework.config.model import Config
from framework.config.sources import Order
from framework.config.tables import TableRules
from silver.changes.decode import SourcePlan
from silver.changes.readings import Columns, Former
from silver.decoding.format import ColumnHint, Context, Format, Options

MAX_MESSAGE_BYTES = 512 * 1024 * 1024
_Given = TypeVar("_Given")


def source_plans(
    config: Config,
    formats: Mapping[str, Format],
    former: Former | None = None,
) -> dict[str, SourcePlan]:
    """The plan of each source by its name: what decoding its messages needs.

    Args:
        config: The configuration.
        formats: The registry.
        former: The settings of columns by which tables are read that are not read as configured.
    """
    plans: dict[str, SourcePlan] = {}
    rules = config.rules
    for name, source in config.sources.items():
        context = Context(
            source=name,
            options=cast(Options, source.options),
            timezone=source.timezone,
            keys_for=functools.partial(_keys_of, rules, name),
            codecs_for=functools.partial(_codecs_of, rules, name),
            hints_for=functools.partial(_given_of, rules, name),
            needs_no_position=source.order is Order.PARTITION,
        )
        is_excluded = functools.partial(_is_excluded, rules, name)
        plan = SourcePlan(formats[source.format], context, source.epoch, is_excluded, MAX_MESSAGE_BYTES)
        plans[name] = replace(plan, by_partition=source.is_ordered_by_partition)
    return plans if former is None else _as_before(plans, former)


def _keys_of(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> tuple[str, ...] | None:
    return rules.settings(source, database, schema, table).keys


@functools.lru_cache(maxsize=4096)  # asked for each message
def _codecs_of(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> Mapping[str, str]:
    return _codecs_in(rules.settings(source, database, schema, table).columns)


@functools.lru_cache(maxsize=4096)
def _given_of(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> Mapping[str, ColumnHint]:
    return _hints_in(rules.settings(source, database, schema, table).columns)


def _codecs_in(columns: Columns) -> Mapping[str, str]:
    return {name: column.decode for name, column in columns.items() if column.decode}


def _hints_in(columns: Columns) -> Mapping[str, ColumnHint]:
    return {
        name: ColumnHint(c.type, c.encoding, bool(c.unsigned)) for name, c in columns.items() if not c.decode
    }


def _as_before(plans: Mapping[str, SourcePlan], former: Former) -> dict[str, SourcePlan]:
    """The plans, but tables are read by these settings of their columns where there are some."""
    found = dict(plans)
    for source in former.sources.intersection(plans):
        context = plans[source].context
        context = replace(
            context,
            codecs_for=_FormerOr(former, source, _codecs_in, context.codecs_for),
            hints_for=_FormerOr(former, source, _hints_in, context.hints_for),
        )
        found[source] = replace(plans[source], context=context)
    return found


class _FormerOr(Generic[_Given]):
    """What the former settings of a table say of its columns, or the configured ones; asked for each message.

    It can be sent to another process.
    """

    __slots__ = ("_former", "_known", "_of", "_others", "_source")

    def __init__(
        self,
        former: Former,
        source: str,
        of: Callable[[Columns], _Given],
        others: Callable[[str | None, str | None, str], _Given],
    ) -> None:
        self._former, self._source, self._of, self._others = former, source, of, others
        self._known: dict[tuple[str | None, str | None, str], _Given] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return _FormerOr, (self._former, self._source, self._of, self._others)

    def __call__(self, database: str | None, schema: str | None, table: str) -> _Given:
        at = (database, schema, table)
        found = self._known.get(at)
        if found is None:
            columns = self._former.columns((self._source, *at))
            found = self._known[at] = self._others(*at) if columns is None else self._of(columns)
        return found


def _is_excluded(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> bool:
    return rules.settings(source, database, schema, table).exclude
