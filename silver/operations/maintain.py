"""The tables that silver reads and writes, for `maintain`."""

from __future__ import annotations

from collections.abc import Iterator

from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    ENCODINGS_TABLE,
    EPOCHS_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    REPAIRS_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
)
from framework.lakehouse.checkpoint_files import is_read_to_end
from framework.pipeline.layer import MaintainedTable, Run

_TABLES = (
    CHANGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
    BATCHES_TABLE,
    EPOCHS_TABLE,
    REPAIRS_TABLE,
    ENCODINGS_TABLE,
    PARTITIONS_TABLE,
)


def tables_to_maintain(run: Run) -> Iterator[MaintainedTable]:
    """Bronze's messages, whose old files stay until the stream has read them, and silver's own tables."""
    if run.table is not None:
        return
    is_read = is_read_to_end(run.spark, run.lake, MESSAGES_TABLE, f"{run.lake.checkpoints}/silver")
    note = None if is_read else "old files stay: silver has not read them all; run first"
    yield MaintainedTable(MESSAGES_TABLE, note)
    for name in _TABLES:
        yield MaintainedTable(name)
