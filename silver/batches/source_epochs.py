"""The epochs of the sources as far as they have begun.

An epoch that was set in the configuration begins in the next run. Until then every message that landed before
belongs to an earlier one, and the plan, the checks, `forget` and the repair of a crash must see it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from silver.epochs.history import History, read_history
from silver.values.sequence import epoch_sql


@dataclass(frozen=True, slots=True)
class SourceEpochs:
    """The epochs of the sources: where the recorded ones begin, and the newest one of each source.

    `unrecorded` are the newest epochs of sources of which none is recorded (`unrecorded_epochs`).
    """

    config: Config
    history: History
    unrecorded: Mapping[str, int] = field(default_factory=dict)

    @property
    def newest(self) -> dict[str, int]:
        """The newest epoch of each source that has begun, also of those that the configuration had once.

        A source of which nothing was decoded begins with the configured one.
        """
        configured = {name: source.epoch for name, source in self.config.sources.items()}
        return {**configured, **self.unrecorded, **self.history.newest_epochs()}


def read_source_epochs(spark: SparkSession, lake: Lakehouse, config: Config) -> SourceEpochs:
    """Read the epochs of the sources."""
    history = read_history(spark, lake)
    return SourceEpochs(config, history, unrecorded_epochs(spark, lake, config, history))


def unrecorded_epochs(
    spark: SparkSession, lake: Lakehouse, config: Config, history: History
) -> dict[str, int]:
    """The newest epoch of each source of which no epoch is recorded, by its stop or by its changes.

    The first epoch of a source is recorded when it is not 1, or when the next one begins. So only sources
    whose epoch was raised since the last run are looked up.
    """
    recorded = history.newest_epochs()
    raised = {name for name, source in config.sources.items() if source.epoch > 1} - recorded.keys()
    stopped = history.stopped_sources() if raised else {}
    found = {name: stopped[name].epoch for name in raised & stopped.keys()}
    others = sorted(raised - found.keys())
    if not others or not lake.exists(spark, CHANGES_TABLE):
        return found
    changes = lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("source").isin(*others))
    # changes of earlier releases have their epoch in the sequence alone
    epoch = F.coalesce(F.col("epoch"), F.expr(epoch_sql("sequence")))
    shown = changes.groupBy("source").agg(F.max(epoch).alias("epoch")).where("epoch IS NOT NULL")
    return {**found, **{row["source"]: int(row["epoch"]) for row in shown.collect()}}
