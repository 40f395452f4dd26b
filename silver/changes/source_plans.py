"""What the configuration says about decoding the messages of each source. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from framework.config.model import Config
from framework.config.sources import Order
from framework.config.tables import ColumnRule, TableRules
from silver.changes.decode import SourcePlan
from silver.changes.readings import Table
from silver.decoding.format import ColumnHint, Context, Format, Options

MAX_MESSAGE_BYTES = 512 * 1024 * 1024
_Given = TypeVar("_Given")


def source_plans(
    config: Config,
    formats: Mapping[str, Format],
    former: Mapping[Table, Mapping[str, ColumnRule]] | None = None,
) -> dict[str, SourcePlan]:
    """The plan of each source by its name: what decoding its messages needs.

    Args:
        config: The configuration.
        formats: The registry.
        former: Tables that are read by these settings of their columns, not by the configured ones.
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
    return _as_before(plans, former) if former else plans


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


def _codecs_in(columns: Mapping[str, ColumnRule]) -> Mapping[str, str]:
    return {name: column.decode for name, column in columns.items() if column.decode}


def _hints_in(columns: Mapping[str, ColumnRule]) -> Mapping[str, ColumnHint]:
    return {
        name: ColumnHint(c.type, c.encoding, bool(c.unsigned)) for name, c in columns.items() if not c.decode
    }


def _as_before(
    plans: Mapping[str, SourcePlan], kept: Mapping[Table, Mapping[str, ColumnRule]]
) -> dict[str, SourcePlan]:
    """The plans, but these tables are read by these settings of their columns, not by the configured ones."""
    found = dict(plans)
    for source in {table[0] for table in kept}.intersection(plans):
        plan = plans[source]
        mine = {table[1:]: columns for table, columns in kept.items() if table[0] == source}
        codecs = {table: _codecs_in(columns) for table, columns in mine.items()}
        hints = {table: _hints_in(columns) for table, columns in mine.items()}
        context = replace(
            plan.context,
            codecs_for=functools.partial(_kept_or, codecs, plan.context.codecs_for),
            hints_for=functools.partial(_kept_or, hints, plan.context.hints_for),
        )
        found[source] = replace(plan, context=context)
    return found


def _kept_or(
    kept: Mapping[tuple[str | None, str | None, str], _Given],
    others: Callable[[str | None, str | None, str], _Given],
    database: str | None,
    schema: str | None,
    table: str,
) -> _Given:
    found = kept.get((database, schema, table))
    return others(database, schema, table) if found is None else found


def _is_excluded(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> bool:
    return rules.settings(source, database, schema, table).exclude
