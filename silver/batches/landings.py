"""Which message a row of bronze is: its coordinates in an epoch, and whether that message landed before.

Coordinates identify a message only within an epoch, because a topic that is created again starts at offset 0.
Dumps of one topic may overlap, so a message may land several times. The first landing in the order of time,
file and line is the message; a later landing with the same bytes is a duplicate of it, in the same epoch. A
different message at coordinates that are taken shows that the topic was created again.

Only partitions whose offsets repeat or fall need this check (`overlapping_ranges`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from framework.config.model import Config, Layout
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.seed import TOPIC
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID, MESSAGES, QUARANTINE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merge
from framework.lakehouse.recent_rows import few_rows
from framework.spark.local_frame import local_frame
from silver.batches.source_epochs import SourceEpochs, read_source_epochs
from silver.changes.staged_rows import LANDED_AGAIN, OF_FIRST_LANDING
from silver.epochs.assignment import landing_order, with_epochs, with_recorded_epochs
from silver.epochs.stop_points import OFFSETS_RESTARTED, OLDER_TOPIC, StopPoint
from silver.epochs.unknown_topics import find_unknown_topics

LANDING_ID = (*MESSAGE_ID, "relanding")
"""The columns that identify a row of bronze: its message, and how it landed again (empty at first)."""
SAME_MESSAGE = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in MESSAGE_ID)
"""The condition of a MERGE that compares messages (MESSAGE_ID) of `t` and `s`."""
HOLDS_COORDINATES = "relanding IS NULL AND NOT is_reused"
"""Whether a message from `identify` is the one that outcomes at its coordinates in its epoch are of.

A message that has reused coordinates has no outcome: its source stops there.
"""
_PARTITION = ("source", "topic", "partition")
_IS_PLACED = "topic IS NOT NULL AND `partition` IS NOT NULL AND offset IS NOT NULL"
_OUTCOMES = {CHANGES_TABLE: CHANGES, PENDING_TABLE: CHANGES, QUARANTINE_TABLE: QUARANTINE}
Partition = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The lowest and highest offset of a partition; `is_plain` if the offsets rise and none repeats."""

    source: str
    topic: str
    partition: int
    low: int
    high: int
    is_plain: bool

    @property
    def place(self) -> Partition:
        """Source, topic and partition of the range."""
        return self.source, self.topic, self.partition


def repeatable_sources(config: Config) -> list[str]:
    """The sources whose coordinates may repeat.

    A line of a file lands once, with the file's name as its topic.
    """
    return [
        name
        for name, source in config.sources.items()
        if source.files is None or source.layout is Layout.KCAT
    ]


def has_broker_coordinates(config: Config) -> Column:
    """Whether a message is of such a source and not of a dump, whose rows have coordinates of their own."""
    return F.col("source").isin(*repeatable_sources(config)) & ~F.col("topic").startswith(TOPIC)


def range_columns() -> list[Column]:
    """The last three fields of an `OffsetRange`, as aggregates over the messages of a partition.

    Messages without an offset do not count; the fields are null where no message has one.
    """
    by_landing = F.when(F.col("offset").isNotNull(), F.struct(landing_order(), F.col("offset")))
    low, high = F.min("offset"), F.max("offset")
    is_rising = (F.min_by("offset", by_landing) == low) & (F.max_by("offset", by_landing) == high)
    return [
        low.alias("low"),
        high.alias("high"),
        (is_rising & (F.count_distinct("offset") == F.count("offset"))).alias("is_plain"),
    ]


def offset_ranges(messages: DataFrame, config: Config) -> list[OffsetRange]:
    """The offset ranges of these messages; runs no job if no source can repeat a coordinate.

    A message without coordinates, as earlier releases have taken from tables, is in none.
    """
    if not repeatable_sources(config):
        return []
    counted = messages.where(has_broker_coordinates(config)).where(_IS_PLACED).groupBy(*_PARTITION)
    return [OffsetRange(*row) for row in counted.agg(*range_columns()).collect()]


def overlapping_ranges(found: Iterable[OffsetRange], reached: Mapping[Partition, int]) -> list[OffsetRange]:
    """The ranges to check. `reached` are the highest offsets of earlier messages."""
    return [span for span in found if not span.is_plain or span.low <= reached.get(span.place, -1)]


def identify(
    messages: DataFrame, lake: Lakehouse, known: SourceEpochs, looked_at: Sequence[OffsetRange] = ()
) -> DataFrame:
    """Add to each message its epoch, whether it landed before, and whether its topic was created again.

    Args:
        messages: Rows of `bronze/messages`.
        lake: The lakehouse.
        known: The epochs of the sources.
        looked_at: The ranges among the messages to compare with bronze, from `overlapping_ranges`.

    Returns:
        The messages with `epoch`; `relanding` (how the message landed again, null for its first landing);
        `is_reused` (another message of the epoch has its coordinates); and `restart` (how often the offsets
        of the partition had started again among these messages).
    """
    spark = messages.sparkSession
    history, newest = known.history, known.newest
    placed = with_epochs(messages, history, newest)
    plain = placed.withColumns(
        {
            "relanding": F.lit(None).cast("string"),
            "is_reused": F.lit(False),
            "restart": F.lit(None).cast("int"),
        }
    )
    if not looked_at:
        return plain
    rows = [(span.source, span.topic, span.partition, span.low, span.high) for span in looked_at]
    schema = "source string, topic string, `partition` int, low bigint, high bigint"
    ranges = F.broadcast(local_frame(spark, rows, schema))
    mine = placed.join(ranges, list(_PARTITION), "left_semi").where(_IS_PLACED)
    mine = mine.withColumn("is_mine", F.lit(True))
    bronze = (
        lake.read(spark, MESSAGES_TABLE)
        .select(*(F.col(f"`{n}`") for n in MESSAGES.names))
        .join(ranges, list(_PARTITION))
    )
    above = bronze.where(F.col("offset") >= F.col("low")).withColumn("landing", landing_order())
    bronze = above.where(F.col("offset") <= F.col("high")).drop("low", "high")
    several = bronze.groupBy(*MESSAGE_AT).agg(F.count("*").alias("n")).where("n > 1")
    here = mine.select(*MESSAGE_AT, landing_order().alias("landing"))
    others = (
        bronze.join(several, list(MESSAGE_AT), "left_semi")
        .join(here, [*MESSAGE_AT, "landing"], "left_anti")
        .drop("landing")
    )
    others = with_epochs(others, history, newest).withColumn("is_mine", F.lit(False))
    compared = _compare_landings(mine.unionByName(others)).where("is_mine")
    reached = _reached(with_epochs(above, history, newest), here)
    weighed = _with_restarts(compared, reached).select(*plain.columns)
    is_weighed = [plain[name] == ranges[name] for name in _PARTITION] + [plain["offset"].isNotNull()]
    return plain.join(ranges, is_weighed, "left_anti").select(*plain.columns).unionByName(weighed)


def identify_all(messages: DataFrame, lake: Lakehouse, known: SourceEpochs) -> DataFrame:
    """`identify` for messages among which each has all messages of its own coordinates."""
    ranges = overlapping_ranges(offset_ranges(messages, known.config), {})
    return identify(messages, lake, known, ranges)


def _compare_landings(messages: DataFrame) -> DataFrame:
    """Add `relanding` and `is_reused` to all landings of some coordinates; duplicates share one epoch.

    An erased message has no bytes to compare: its time is compared, or, where it has none, its epoch.
    `is_newer` says that a message is newer than the one whose coordinates it has reused.
    """
    at = [F.col(f"`{name}`") for name in MESSAGE_AT]
    order = F.struct(landing_order(), F.col("timestamp"), F.col("content"))
    is_erased = F.coalesce(F.exists("headers", lambda header: header["key"] == FORGOTTEN), F.lit(False))
    landing = F.struct("timestamp", "epoch", is_erased.alias("is_erased"))
    all_landings = F.collect_list(landing).over(Window.partitionBy(*at))
    content = F.sha2(F.to_json(F.struct("timestamp", "key", "value", "headers")), 256)
    has_time = F.col("timestamp").isNotNull()
    is_like_erased = F.exists(
        "landings",
        lambda one: (
            one["is_erased"]
            & one["timestamp"].eqNullSafe(F.col("timestamp"))
            & (has_time | one["epoch"].eqNullSafe(F.col("epoch")))
        ),
    )
    alike = F.coalesce(F.unix_micros("timestamp").cast("string"), F.concat(F.lit("epoch "), F.col("epoch")))
    rows = messages.withColumn("landings", all_landings).withColumn(
        "content", F.when(is_like_erased, alike).otherwise(content)
    )
    same = Window.partitionBy(*at, "content").orderBy(order)
    rows = rows.withColumn("nth", F.row_number().over(same)).withColumn("epoch", F.first("epoch").over(same))
    holder = Window.partitionBy(*at, "epoch").orderBy(order)
    first, held_time = F.first("content").over(holder), F.first("timestamp").over(holder)
    where = F.concat(
        F.coalesce("file", F.lit("")), F.lit(":"), F.coalesce(F.col("line").cast("string"), F.lit(""))
    )
    again = F.concat_ws(
        " ", F.lit(LANDED_AGAIN), where, F.unix_micros("ingested_at").cast("string"), _copy(at)
    )
    rows = rows.withColumn("is_reused", (F.col("nth") == 1) & (first != F.col("content")))
    # without a time, what lands together with a topic that was created again may be its own
    together = Window.partitionBy(*_PARTITION, "epoch", "ingested_at", "file")
    is_open = is_like_erased & ~has_time & ~is_erased & (F.col("nth") > 1)
    is_reused = F.col("is_reused") | (is_open & F.max("is_reused").over(together))
    rows = rows.withColumn("is_reused", is_reused)
    rows = rows.withColumn("is_newer", F.col("is_reused") & (F.col("timestamp") > held_time))
    return rows.withColumn("relanding", F.when((F.col("nth") > 1) & ~F.col("is_reused"), again))


def _copy(at: Sequence[Column]) -> Column:
    """Which repeat a row is among those that landed with it, from the second one on; null for the first."""
    together = Window.partitionBy(*at, "content", landing_order()).orderBy("nth")
    number = F.row_number().over(together)
    repeat = F.when(F.first("nth").over(together) == 1, number - 1).otherwise(number)
    return F.when(repeat > 1, repeat.cast("string"))


def _reached(bronze: DataFrame, here: DataFrame) -> DataFrame:
    """How far bronze but these messages has come in each epoch of its partitions: `reached`, `newest`."""
    others = bronze.join(here, [*MESSAGE_AT, "landing"], "left_anti")
    return others.groupBy(*_PARTITION, "epoch").agg(
        F.max("offset").alias("reached"), F.max("timestamp").alias("newest")
    )


def _with_restarts(messages: DataFrame, reached: DataFrame) -> DataFrame:
    """Add `restart`: it rises where offsets fall and a message that follows has reused coordinates.

    In whatever order they land, messages of the partition that are not older than the first of these belong
    to the restart too, nor than any that has reused the coordinates of an older one. Older ones are a late
    dump of the topic before, unless their dump has newer messages than those before them, or they are newer
    than all of that topic at an offset that it had reached. If offsets fall and none is reused, dumps have
    only landed in another order.
    """
    order, in_epoch = F.struct(landing_order(), F.col("offset")), (*_PARTITION, "epoch")
    in_partition = Window.partitionBy(*in_epoch).orderBy(order)
    was_again = F.lag(F.col("relanding").isNotNull()).over(in_partition) & F.col("relanding").isNull()
    is_next_file = ~F.lag("file").over(in_partition).eqNullSafe(F.col("file"))
    falls = (F.col("offset") <= F.lag("offset").over(in_partition)) | was_again | is_next_file
    rows = messages.withColumn("falls", F.coalesce(falls, F.lit(True)))
    rows = rows.withColumn("run", F.sum(F.col("falls").cast("int")).over(in_partition))
    rows = rows.withColumn("is_anew", F.max("is_reused").over(Window.partitionBy(*in_epoch, "run")))
    rows = rows.withColumn(
        "restart", F.sum((F.col("falls") & F.col("is_anew")).cast("int")).over(in_partition).cast("int")
    )
    is_new = F.coalesce(F.max("is_newer").over(Window.partitionBy(*in_epoch, "run")), F.lit(False))
    is_first = (F.col("restart") == 1) & F.col("is_anew") & F.col("relanding").isNull()
    is_told = is_first | (F.col("is_newer") & F.col("relanding").isNull())
    since = F.min(F.when(is_told, F.col("timestamp"))).over(Window.partitionBy(*in_epoch))
    is_own = F.col("relanding").isNull()
    rows = rows.join(F.broadcast(reached), list(in_epoch), "left")
    is_former, of_epoch = F.col("restart") == 0, Window.partitionBy(*in_epoch)
    newest, highest = (
        F.greatest(F.col(known), F.max(F.when(is_former, F.col(name))).over(of_epoch))
        for known, name in (("newest", "timestamp"), ("reached", "offset"))
    )
    is_later = F.coalesce((F.col("timestamp") > newest) & (F.col("offset") <= highest), F.lit(False))
    is_late = ~F.col("is_reused") & ~is_new & ~is_later & (F.col("timestamp") < since)
    restart = (
        F.when(is_own & is_late, F.lit(0))
        .when(is_own & (F.col("timestamp") >= since), F.greatest("restart", F.lit(1)))
        .otherwise(F.col("restart"))
    )
    return rows.withColumn("restart", restart)


def find_restarts(
    messages: DataFrame, lake: Lakehouse | None = None, known: SourceEpochs | None = None
) -> list[StopPoint]:
    """The stops where the topics of messages (from `identify`) were created again, one for each partition.

    A stop has the lowest offset of the first restart. With a lakehouse, the reason of a stop is OLDER_TOPIC
    where the messages of the restart are older than those that landed before with their offsets. With the
    epochs as well, there are stops at messages that may be of a topic or of the one before it.
    """
    restarts = messages.where("restart > 0").groupBy(*_PARTITION).agg(F.min("restart").alias("restart"))
    members = messages.where("relanding IS NULL").join(restarts, [*_PARTITION, "restart"])
    first = members.groupBy(*_PARTITION, "restart").agg(F.min("offset").alias("offset")).collect()
    older = _older_partitions(members.where("is_reused"), lake) if first and lake is not None else set()
    newer = "its offset, or one that follows, is that of another message that landed before"
    found = [
        StopPoint(
            row["source"],
            row["topic"],
            row["partition"],
            row["offset"],
            OLDER_TOPIC if is_older else OFFSETS_RESTARTED,
            f"{newer} and is newer" if is_older else newer,
            row["restart"],
        )
        for row in first
        for is_older in [(row["source"], row["topic"], row["partition"]) in older]
    ]
    if lake is None or known is None:
        return found
    bronze = lake.read(messages.sparkSession, MESSAGES_TABLE)
    return [*found, *find_unknown_topics(messages, bronze, known.history, known.newest)]


def _older_partitions(reused: DataFrame, lake: Lakehouse) -> set[Partition]:
    """The partitions in which a newer message landed before one of these messages, with its coordinates."""
    held = lake.read(reused.sparkSession, MESSAGES_TABLE).select(
        *MESSAGE_AT, F.col("timestamp").alias("held_time"), landing_order().alias("held")
    )
    own = reused.select(*MESSAGE_AT, "timestamp", landing_order().alias("landing"))
    found = held.join(own, list(MESSAGE_AT)).where("held < landing AND held_time > timestamp")
    return {(row[0], row[1], row[2]) for row in found.select(*_PARTITION).distinct().collect()}


def outcomes_in_epochs(changes: DataFrame, known: SourceEpochs) -> DataFrame:
    """Rows of `silver/changes` with their `epoch`; rows of older releases get it by their offsets."""
    return with_recorded_epochs(changes, known.history, known.newest)


def landings_of(outcomes: DataFrame) -> DataFrame:
    """The distinct landings (LANDING_ID) of these outcomes, including paired BEFORE halves."""
    own = outcomes.select(*MESSAGE_ID, relanding_of_outcome())
    return own.unionByName(before_halves_of(outcomes).withColumn("relanding", F.lit(""))).distinct()


def relanding_of_outcome() -> Column:
    """The `relanding` of the landing that an outcome belongs to, as in LANDING_ID."""
    return F.when(F.expr(OF_FIRST_LANDING), F.lit("")).otherwise(F.col("detail")).alias("relanding")


def with_landing_id(messages: DataFrame) -> DataFrame:
    """Messages from `identify` with `relanding` as in LANDING_ID."""
    return messages.withColumn("relanding", F.coalesce("relanding", F.lit("")))


def before_halves_of(outcomes: DataFrame) -> DataFrame:
    """The BEFORE halves (MESSAGE_ID) of the merged changes among these outcomes."""
    return outcomes.where("paired_with IS NOT NULL").select("source", "paired_with.*", "epoch")


def upgrade_tables(spark: SparkSession, lake: Lakehouse, config: Config) -> None:
    """Upgrade the tables of silver that exist, see `upgrade_table`."""
    for name in _OUTCOMES:
        if lake.exists(spark, name):
            upgrade_table(spark, lake, config, name)


def is_of_earlier_release(spark: SparkSession, lake: Lakehouse, name: str) -> bool:
    """Whether a table of silver lacks columns that it has today."""
    return not set(_OUTCOMES[name].names) <= set(lake.columns(spark, name))


def upgrade_table(spark: SparkSession, lake: Lakehouse, config: Config, name: str) -> None:
    """Add the columns that a table of an earlier release lacks, and fill `epoch` by the offsets of its rows.

    Other new columns are null in its rows.
    """
    lake.add_columns(spark, name, _OUTCOMES[name])
    few = few_rows(lake, name, _OUTCOMES[name])
    if few is not None and not few.column("epoch").null_count:
        return
    without = lake.read(spark, name).where("epoch IS NULL")
    if without.isEmpty():
        return
    known = read_source_epochs(spark, lake, config)
    places = outcomes_in_epochs(without, known).select(*MESSAGE_ID).distinct()
    is_it = " AND ".join(f"t.`{column}` <=> s.`{column}`" for column in MESSAGE_AT)
    Merge(lake.location(name), places, f"t.epoch IS NULL AND {is_it}").update({"epoch": "s.epoch"}).execute()
