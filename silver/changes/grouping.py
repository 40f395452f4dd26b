"""Decisions about groups of rows, one group at a time, so that memory holds only one group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import pyarrow as pa

from framework.contracts.quarantine_reasons import Reason
from silver.changes.staged_rows import Row, as_refused, plain_rows, staged_batches

Batches = Iterable[pa.RecordBatch]
Decide = Callable[[list[Row]], Iterable[Row]]


def decide_groups(batches: Batches, settle: Decide, undecided: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Calls `settle` for each group of rows, and returns the outcomes as batches.

    Args:
        batches: Rows (STAGED, `_group`, `origin`), sorted by `_group`.
        settle: Decides the outcomes of the rows of one group.
        undecided: The origins of rows that have no outcome yet. If `settle` raises, these rows of the group
            are quarantined.
    """
    here: list[Row] = []
    for batch in batches:
        outcomes: list[Row] = []
        for row in plain_rows(pa.Table.from_batches([batch])):
            if here and here[0]["_group"] != row["_group"]:
                outcomes.extend(decide_group(here, settle, undecided))
                here = []
            here.append(row)
        if outcomes:
            yield from staged_batches(outcomes)
    if here:
        yield from staged_batches(decide_group(here, settle, undecided))


def decide_group(rows: list[Row], settle: Decide, undecided: Collection[str]) -> list[Row]:
    """The outcomes of one group; if `settle` raises, its rows of these origins are quarantined."""
    try:
        return list(settle(rows))
    except Exception as error:
        return [
            as_refused(row, Reason.DECODER_ERROR, type(error).__name__)
            for row in rows
            if row["origin"] in undecided
        ]
