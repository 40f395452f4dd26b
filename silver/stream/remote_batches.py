"""What the batches of silver have done, by the notes of their commits.

On Spark Connect they run in another process, which cannot report to the run that started them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import takewhile
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from framework.contracts.table_names import CHANGES_TABLE
from framework.lakehouse.commits import newest_commits
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.progress import Progress

_SECONDS = 10
"""How often a run looks; each look reads the newest commits of `silver/changes`."""


class Batches(NamedTuple):
    """How many batches have ended, and how many messages they had."""

    batches: int
    messages: int


def batches_since(spark: SparkSession, lake: Lakehouse, batch: int) -> Batches:
    """The batches after this one that have been committed."""
    if not lake.exists(spark, CHANGES_TABLE):
        return Batches(0, 0)
    commits = newest_commits(spark, lake.location(CHANGES_TABLE))
    notes = (json.loads(commit.get("userMetadata") or "{}") for commit in commits)
    batches = (note for note in notes if "batch" in note)  # others are repairs, and the upkeep of the table
    found = list(takewhile(lambda note: note["batch"] > batch, batches))
    return Batches(len({note["batch"] for note in found}), sum(note["messages"] for note in found))


def follow(
    query: StreamingQuery, look: Callable[[], Batches], progress: Progress, every: int = _SECONDS
) -> Batches:
    """Wait for the end of a stream, and tell meanwhile which of its batches have ended.

    Args:
        query: The stream.
        look: Returns what its batches have done until now.
        progress: Receives the batches and messages.
        every: Seconds between two looks.

    Returns:
        What the stream has done. An error of the stream is raised as `awaitTermination` raises it.
    """
    told = Batches(0, 0)
    while True:
        has_ended = query.awaitTermination(every)
        found = look()
        progress.advance("messages", found.messages - told.messages)
        progress.advance("batches", found.batches - told.batches)
        told = found
        if has_ended:
            return found
