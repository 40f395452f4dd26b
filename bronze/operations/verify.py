"""The checks of `status --verify` on bronze."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F

from bronze.checkpoint import has_checkpoint, sources_with_messages
from bronze.files.file_log import log_table
from bronze.source import Feed
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGE_AT
from framework.pipeline.checks import Check
from framework.pipeline.layer import Run


def verify(run: Run) -> Sequence[Check]:
    """Checks that bronze has each message once, and that each source still has its checkpoint.

    Files of one source may overlap, a table may hold a row several times, and a topic that was created again
    reuses its offsets: none of them is an error.
    """
    if not run.lake.exists(run.spark, MESSAGES_TABLE):
        return ()
    messages = run.lake.read(run.spark, MESSAGES_TABLE)
    exempt = [
        name
        for name, source in run.config.sources.items()
        if source.table is not None or (source.epoch > 1 and source.files is None)
    ]
    duplicates = (
        messages.where(~F.col("source").isin(exempt))
        .groupBy(*MESSAGE_AT, "file", "line")
        .count()
        .where("count > 1")
        .count()
    )
    action = "stop loading and report this; silver is not affected: it marks repeated messages as duplicates"
    return (
        Check("messages_once", "each message has landed once", duplicates, MESSAGES_TABLE, action),
        _checkpoints(run),
    )


def _checkpoints(run: Run) -> Check:
    """Checks that each source with messages has its checkpoint, and its log if it reads files."""
    feeds = [
        Feed(run.config.pipeline, run.lake, source, run.run_id) for source in run.config.sources.values()
    ]
    landed_sources = sources_with_messages(run.spark, feeds)
    without = [feed.name for feed in feeds if feed.name in landed_sources]
    unlogged = [
        feed.name
        for feed in feeds
        if feed.source.files and feed.name not in without and _has_lost_log(run, feed)
    ]
    at = ", ".join(sorted([*without, *unlogged])) or "bronze"
    action = "run `mainstem run`: it says for each source what to do"
    return Check(
        "checkpoints",
        "each source that has landed messages has its checkpoint",
        len(without) + len(unlogged),
        at,
        action,
    )


def _has_lost_log(run: Run, feed: Feed) -> bool:
    return has_checkpoint(run.spark, feed) and not run.lake.exists(run.spark, log_table(feed.name))
