"""The note beside the checkpoint of silver's stream: what its batches are counted from."""

from __future__ import annotations

import json

from framework.contracts.batch_ids import BATCH_ID_STEP
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.table_reader import TableReader


def note_path(lake: Lakehouse) -> str:
    """Where the note is."""
    return f"{lake.checkpoints}/silver.generation"


def first_counted(tables: TableReader, lake: Lakehouse) -> int:
    """The first batch that `silver/changes` holds.

    Of earlier batches, lost with the table, only the counts remain.
    """
    note = json.loads(tables.note(note_path(lake)) or "{}")
    return int(note.get("counted_from", 0)) * BATCH_ID_STEP
