"""The tables of tools that change a table's schema in a copy: gh-ost and pt-online-schema-change.

They fill a shadow table, `_orders_gho` or `_orders_new`, with the rows of `orders`, and swap the two names;
the former table is then `_orders_del` or `_orders_old`, of gh-ost also with a time before the last part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from framework.contracts.ddl_actions import TableName


def has_shadow_rows(table: TableName, first_rows: Mapping[TableName, str], until: str) -> bool:
    """Whether rows of a shadow table of this table came before a position.

    Args:
        table: The table.
        first_rows: The lowest sequence of a row under each name.
        until: The position.
    """
    return any(is_shadow(name, table) and first < until for name, first in first_rows.items())


def is_shadow(name: TableName, table: TableName) -> bool:
    """Whether a name is that of a shadow table with the same rows."""
    return _is_of_tool(name, table, r"_(gho|new)")


def is_former(name: TableName, table: TableName) -> bool:
    """Whether a name is the one that a table gets when its shadow takes its place."""
    return _is_of_tool(name, table, r"(_\d{14})?_(del|old)")


def _is_of_tool(name: TableName, table: TableName, ending: str) -> bool:
    is_beside = (name.database, name.schema) == (table.database, table.schema)
    return is_beside and re.fullmatch(f"_+{re.escape(table.table)}{ending}", name.table) is not None
