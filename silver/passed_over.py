"""Messages that the stream has passed over, of sources that stood still or were not configured: taken up when they may be."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config import Source
from framework.contracts.tables import CHANGES, MESSAGE_AT
from framework.crash import crash_point
from framework.errors import MainstemError
from silver import derived, epochs, resets
from silver.batch import MESSAGES_TABLE, decoded, normalize_batch
from silver.desk import STRIDE, Desk


def go_on(spark: SparkSession, desk: Desk) -> dict[str, epochs.Halt]:
    """Begin the epochs that the configuration asks for, and take up what was passed over.

    Returns the sources that still stand still. A run that died at any moment is repeated: an epoch is recorded before a
    message is decoded in it, and a source counts as taken up only afterwards.
    """
    history = epochs.read_history(spark, desk.lake)
    sources = desk.config.sources
    epochs.check_not_lowered(history, {name: source.epoch for name, source in sources.items()})
    for source in sources.values():
        _begin(spark, desk, source, history)
    history = epochs.read_history(spark, desk.lake)
    for name in history.passed_over(sources):
        normalize_batch(unread(_messages(spark, desk, name), desk), extra_batch(spark, desk), desk)
        crash_point("silver.before_resumed")
        if name not in epochs.read_history(spark, desk.lake).halts():
            last = max(last_batch(spark, desk), history.last_batch(name))
            epochs.append_rows(spark, desk.lake, [epochs.resumed(name, sources[name].epoch, last)])
    return epochs.read_history(spark, desk.lake).halts()


def _begin(spark: SparkSession, desk: Desk, source: Source, history: epochs.History) -> None:
    """Record where a source's epoch begins, unless it has begun."""
    known = history.epochs(source.name)
    halt = history.halts().get(source.name)
    if (known or [1])[-1] == source.epoch:
        return
    before = known[-1] if known else halt.epoch if halt else _shown_epoch(spark, desk, source.name)
    if before == source.epoch:
        before = None  # begun by a release that did not record it
    places = [] if before is None else _places(spark, desk, source.name, halt)
    beginning = epochs.Beginning(source.name, source.epoch, before, places)
    epochs.append_rows(spark, desk.lake, epochs.begun(beginning, history))
    crash_point("silver.after_begun")


def _shown_epoch(spark: SparkSession, desk: Desk, name: str) -> int | None:
    shown = desk.shown_sources(spark).get(name)
    return None if shown is None or shown.sequence is None else int(shown.sequence.partition(".")[0][2:])


def _places(spark: SparkSession, desk: Desk, name: str, halt: epochs.Halt | None) -> list[epochs.Place]:
    """The first message of the new epoch in each partition of bronze: of those unread, or else behind the last."""
    messages = _messages(spark, desk, name)
    at = ["topic", "partition"]
    ends = messages.groupBy(*at).agg((F.max("offset") + 1).alias("end"))
    new = unread(messages, desk)
    if halt is None:
        first = new.groupBy(*at).agg(F.min("offset").alias("first"))
    else:
        first = spark.createDataFrame(_starts(new, desk, halt), "topic string, `partition` int, first bigint")
    return [(r[0], r[1], r[2]) for r in ends.join(first, at, "left").select(*at, F.coalesce("first", "end")).collect()]


def _starts(new: DataFrame, desk: Desk, halt: epochs.Halt) -> list[epochs.Place]:
    """Where unread messages show the new epoch: at the stops, at later signs of it, and where it is later than those."""
    staged = decoded(new, desk, {halt.source: halt.epoch}).where("kind <> 'quarantined'")
    waits = {halt.source: desk.config.sources[halt.source].pairing_timeout}
    extents = desk.extents(new.sparkSession, [halt.source], resets.EXTENTS)
    more = resets.found(staged.where("half is null"), extents, waits)
    return [(stop.topic, stop.partition, stop.offset) for stop in resets.spread(staged, [*halt.stops, *more])]


def _messages(spark: SparkSession, desk: Desk, name: str) -> DataFrame:
    return desk.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == name)


def unread(messages: DataFrame, desk: Desk) -> DataFrame:
    """The messages that have no fate yet."""
    changes = desk.lake.rows(messages.sparkSession, derived.CHANGES_TABLE, CHANGES)
    met = changes.where("paired_with IS NOT NULL").select("source", "paired_with.*")
    return messages.join(changes.select(*MESSAGE_AT).unionByName(met).distinct(), list(MESSAGE_AT), "left_anti").select(*messages.columns)


def last_batch(spark: SparkSession, desk: Desk) -> int:
    """The highest batch that silver holds, -1 where there is none."""
    row = desk.lake.rows(spark, derived.CHANGES_TABLE, CHANGES).agg(F.max("batch")).first()
    return -1 if row is None or row[0] is None else int(row[0])


def extra_batch(spark: SparkSession, desk: Desk) -> int:
    """A number for messages that are taken up again: between the last batch and the stream's next."""
    batch = max(last_batch(spark, desk), 0) + 1
    if batch % STRIDE == 0:
        raise MainstemError(
            "TOO_MANY_REPLAYS",
            found=f"{STRIDE - 1} batches were taken up again since the last new message",
            where="silver",
            action="land a message, run, and replay again",
        )
    return batch
