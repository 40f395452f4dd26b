"""What must hold in bronze at any time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F

from bronze.source import MESSAGES_TABLE
from framework.checks import Check
from framework.contracts.tables import MESSAGE_AT
from framework.layer import Run


def verify(run: Run) -> Sequence[Check]:
    """Whether each message is there once: dumps may overlap, and a topic that began anew numbers its messages again."""
    if not run.lake.exists(run.spark, MESSAGES_TABLE):
        return ()
    messages = run.lake.read(run.spark, MESSAGES_TABLE)
    anew = [name for name, source in run.config.sources.items() if source.epoch > 1 and source.files is None]
    doubled = messages.where(~F.col("source").isin(anew)).groupBy(*MESSAGE_AT, "file", "line").count().where("count > 1").count()
    action = "stop loading and report this; readers of silver are not affected: repeats are told there"
    return (Check("messages_once", "each message has landed once", doubled, MESSAGES_TABLE, action),)
