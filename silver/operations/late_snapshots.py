"""Snapshot rows that came after changes of their table: they apply only to keys without a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.table_reader import Query, Row, TableReader
from framework.naming import dotted_name
from framework.text.formatting import noun_for, quantity
from silver.values.sequence import epoch_of, is_snapshot_mark, parts_sql

_TABLE = ("source", "database", "schema", "table")
_PARTS = (
    "(SELECT `source`, `database`, `schema`, `table`, `batch`, `snapshots`, "  # noqa: S608 - texts of this code
    f"{parts_sql('max_sequence')} FROM {{rows}} WHERE `kind` = 'row' AND `batch` >= {{first}}) AS counted"
)
_SNAPSHOTS = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `epoch`, `batch`, sum(`snapshots`) AS `rows` "  # noqa: S608
    f"FROM {_PARTS} WHERE `snapshots` > 0 AND `mark` <> '' "
    "GROUP BY `source`, `database`, `schema`, `table`, `epoch`, `batch`",
    {"snapshots": "bigint"},
)
_FIRST_BATCHES = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `epoch`, `mark`, min(`batch`) AS `batch` "  # noqa: S608
    f"FROM {_PARTS} WHERE `mark` <> '' GROUP BY `source`, `database`, `schema`, `table`, `epoch`, `mark`",
    {"snapshots": "bigint"},
)


def late_snapshots(tables: TableReader, first: int) -> Sequence[dict[str, Any]]:
    """For each table, how many snapshot rows came after its first changes of the epoch, by `ops/batches`.

    Args:
        tables: Reads the table.
        first: The first batch that counts.
    """
    snapshots = tables.rows(_SNAPSHOTS, first=first)
    if not snapshots:
        return ()
    began: dict[tuple[Any, ...], int] = {}
    for row in tables.rows(_FIRST_BATCHES, first=first):
        if not is_snapshot_mark(row["mark"]):
            began[_place(row)] = min(row["batch"], began.get(_place(row), row["batch"]))
    late: Counter[tuple[Any, ...]] = Counter()
    for row in snapshots:
        if row["batch"] > began.get(_place(row), row["batch"]):
            late[_place(row)] += row["rows"]
    return [_with_note(place, rows) for place, rows in sorted(late.items(), key=repr)]


def _place(row: Row) -> tuple[Any, ...]:
    return (*(row[name] for name in _TABLE), row["epoch"])


def _with_note(place: tuple[Any, ...], count: int) -> dict[str, Any]:
    late = dict(zip((*_TABLE, "epoch"), (*place[:-1], epoch_of(place[-1])), strict=True))
    name = dotted_name(late["database"], late["schema"], late["table"])
    rows, were = quantity(count, "row"), noun_for(count, "was", "were")
    note = (
        f"source {late['source']}, {name}: {rows} of a snapshot came after changes, and"
        f" {were} applied as older than all of them; to take a snapshot whole,"
        f" set `epoch: {late['epoch'] + 1}` for the source and take it again"
    )
    return {**late, "rows": count, "note": note}
