"""What the configuration says about decoding the messages of each source. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from framework.config.model import Config
from framework.config.sources import Order
from framework.config.tables import TableRules
from silver.changes.decode import SourcePlan
from silver.decoding.format import ColumnHint, Context, Format, Options

MAX_MESSAGE_BYTES = 512 * 1024 * 1024


def source_plans(config: Config, formats: Mapping[str, Format]) -> dict[str, SourcePlan]:
    """The plan of each source by its name: what decoding its messages needs. `formats` is the registry."""
    plans, rules = {}, config.rules
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
    return plans


def _keys_of(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> tuple[str, ...] | None:
    return rules.settings(source, database, schema, table).keys


@functools.lru_cache(maxsize=4096)  # asked for each message
def _codecs_of(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> Mapping[str, str]:
    columns = rules.settings(source, database, schema, table).columns
    return {name: column.decode for name, column in columns.items() if column.decode}


@functools.lru_cache(maxsize=4096)
def _given_of(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> Mapping[str, ColumnHint]:
    columns = rules.settings(source, database, schema, table).columns
    return {
        name: ColumnHint(c.type, c.encoding, bool(c.unsigned)) for name, c in columns.items() if not c.decode
    }


def _is_excluded(
    rules: TableRules, source: str, database: str | None, schema: str | None, table: str
) -> bool:
    return rules.settings(source, database, schema, table).exclude
