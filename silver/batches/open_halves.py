"""The open halves of a large batch: where they are few, this process pairs them.

The tasks that decoded the batch have written its rows into files. What the halves need of them are the halves
themselves and the updates at their positions: to read these here costs less than Spark's jobs do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from silver.batches import few_outcomes
from silver.batches.contents import Contents
from silver.batches.few_outcomes import MOST_BYTES, MOST_ROWS, are_few
from silver.batches.staged_files import Bound, read_few_staged, staged_updates_at

MOST_HALVES = 1_000
"""Up to so many halves of a batch that found no partner while they were decoded are few."""
_BOUND = Bound(MOST_ROWS, MOST_BYTES)


@dataclass(frozen=True, slots=True)
class OpenHalves:
    """The open halves of a batch, and what they may meet in it and among those that wait.

    Attributes:
        rows: The halves, and the updates of the batch at their positions (STAGED).
        waiting: The halves that wait (CHANGES).
    """

    rows: pa.Table
    waiting: pa.Table

    def outcomes(
        self, history: pa.Table | None, deadlines: Mapping[str, datetime | None], shared: Collection[str]
    ) -> pa.Table | None:
        """What `few_outcomes.pair_halves` gives for the whole batch.

        None where halves of one position have different keys: whether they are one update depends on whether
        any updates of their source share positions, and only Spark looks at all of them.
        """
        found = (self.rows, self.waiting, *([] if history is None else [history]))
        if few_outcomes.have_two_keys(found, shared):
            return None
        return few_outcomes.pair_halves(self.rows, self.waiting, history, deadlines, shared)


def read_open_halves(spark: SparkSession, lake: Lakehouse, contents: Contents) -> OpenHalves | None:
    """The open halves of a decoded batch; None where Spark must pair them.

    It must where they, or those that wait, are many, or where the rows of the batch are in no files as they
    are: none were written, or the order of a partition gives rows other sequences.
    """
    is_filed = bool(contents.files or contents.half_files) and not contents.in_partitions
    if not is_filed or contents.halves > MOST_HALVES:
        return None
    waiting = few_outcomes.waiting_halves(spark, lake)
    if waiting is None:
        return None
    halves = read_few_staged(contents.half_files, _BOUND)
    if halves is None:  # Spark reads the files, or fails
        return None
    places: set[str] = set()
    for rows in (halves, waiting):
        column = rows.column("sequence")
        if column.null_count:
            return None
        places.update(map(str, column.to_pylist()))
    updates = staged_updates_at(contents.files, places, _BOUND)
    if updates is None:
        return None
    rows = pa.concat_tables([halves, updates])
    return OpenHalves(rows, waiting) if are_few(rows) else None
