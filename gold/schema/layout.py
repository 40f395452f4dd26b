"""The layout of a gold table: the source's columns under their gold names, and the system columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from framework.naming import gold_columns
from gold.schema.columns import TableColumn

SYSTEM_COLUMNS = {"_cdc_sequence": "string", "_cdc_event_time": "timestamp", "_cdc_change_id": "string"}
VALIDITY_COLUMNS = {
    "_cdc_valid_from": "timestamp",
    "_cdc_valid_to": "timestamp",
    "_cdc_is_current": "boolean",
    "_cdc_op": "string",
}
"""The further columns of a history."""
_RENAMED_ON_DROP = re.compile(r"_cdc_dropped_\d+_")


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a gold table: those of the source, under their gold names, then the system columns.

    Attributes:
        columns: The source's columns, in their order.
        keys: The key columns, by their source names; empty for a table without a key.
        system: The system columns (`_cdc_…`) and their types.
        comment: What the source says of the table; None where it says nothing.
    """

    columns: tuple[TableColumn, ...]
    keys: tuple[str, ...]
    system: Mapping[str, str]
    comment: str | None = None

    @property
    def gold_names(self) -> dict[str, str]:
        """The gold name of each source column. A column renamed by a drop keeps its `_cdc_dropped_…` name."""
        names = [c.name for c in self.columns if not _RENAMED_ON_DROP.match(c.name)]
        renamed = gold_columns(names)
        return {c.name: renamed.get(c.name, c.name) for c in self.columns}

    @property
    def key_columns(self) -> list[TableColumn]:
        """The key columns, in the key's order."""
        by_name = {c.name: c for c in self.columns}
        return [by_name[name] for name in self.keys]

    @property
    def cells(self) -> list[str]:
        """The names c0… of the typed source columns in frames."""
        return [f"c{i}" for i in range(len(self.columns))]
