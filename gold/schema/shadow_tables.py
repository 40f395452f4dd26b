"""The tables of tools that change a table's schema in a copy: gh-ost and pt-online-schema-change.

They fill a shadow table, `_orders_gho` or `_orders_new`, with the rows of `orders`, and swap the two names;
the former table is then `_orders_del` or `_orders_old`, of gh-ost also with a time before the last part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from framework.contracts.ddl_actions import TableName


class ShadowRows:
    """The lowest sequence of a row in each shadow table, to be found by the table."""

    def __init__(self, first_rows: Mapping[TableName, str]) -> None:
        self._near: dict[tuple[str | None, str | None, str], list[tuple[TableName, str]]] = {}
        for name, first in first_rows.items():
            if name.table.startswith("_") and name.table.endswith(("_gho", "_new")):
                self._near.setdefault(_place(name, name.table[:-4]), []).append((name, first))

    def came_before(self, table: TableName, until: str) -> bool:
        """Whether rows of a shadow table of this table came before a position."""
        near = self._near.get(_place(table, table.table), ())
        return any(is_shadow(name, table) and first < until for name, first in near)


def _place(name: TableName, text: str) -> tuple[str | None, str | None, str]:
    return name.database, name.schema, text.lstrip("_")


def is_shadow(name: TableName, table: TableName) -> bool:
    """Whether a name is that of a shadow table with the same rows."""
    return _is_of_tool(name, table, r"_(gho|new)")


def is_former(name: TableName, table: TableName) -> bool:
    """Whether a name is the one that a table gets when its shadow takes its place."""
    return _is_of_tool(name, table, r"(_\d{14})?_(del|old)")


def _is_of_tool(name: TableName, table: TableName, ending: str) -> bool:
    is_beside = (name.database, name.schema) == (table.database, table.schema)
    return is_beside and re.fullmatch(f"_+{re.escape(table.table)}{ending}", name.table) is not None
