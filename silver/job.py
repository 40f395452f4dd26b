"""Silver's run: the stream over bronze, batch by batch, and messages that are taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.reasons import Reason
from framework.contracts.tables import CHANGES, MESSAGES, QUARANTINE
from framework.errors import MainstemError
from framework.notes import is_there
from framework.tables import Lakehouse
from silver import derived, epochs
from silver.batch import MESSAGES_TABLE, derive, normalize_batch
from silver.checkpoint import open_checkpoint
from silver.desk import STRIDE, Desk, source_plans

_WAIT_FOR_PARTNERS = (str(Reason.UNPAIRED_BEFORE_IMAGE),)
_AT = ("source", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class SilverResult:
    """What a run of silver did: messages read, the counts of its batches (rows of `ops/batches`), sources that stand still."""

    messages: int
    counts: Sequence[Row] = ()
    errors: tuple[MainstemError, ...] = ()


def run_silver(spark: SparkSession, lake: Lakehouse, config: Config) -> SilverResult:
    """Normalize all messages that bronze holds and silver has not read yet."""
    if not lake.exists(spark, MESSAGES_TABLE):
        return SilverResult(0)
    desk = _open_desk(spark, lake, config)
    checkpoint = open_checkpoint(spark, lake)
    halts = _go_on(spark, desk)
    # messages that were taken up again on their own have their fate when the stream comes to them
    has_gaps = checkpoint.is_reset or lake.exists(spark, epochs.EPOCHS_TABLE)
    failures: list[Exception] = []

    def normalize(messages: DataFrame, stream_batch: int) -> None:
        try:
            batch = (checkpoint.first_batch + stream_batch) * STRIDE
            fresh = _without_stopped(messages, [name for name, halt in halts.items() if halt.batch < batch])
            if has_gaps:
                fresh = _unread(fresh, desk)
            normalize_batch(fresh, batch, desk)
            halts.update(epochs.halts(spark, lake))
        except Exception as error:
            failures.append(error)
            raise

    reader = spark.readStream.format("delta").option("maxBytesPerTrigger", "512m").options(**_past_erasures(spark, lake))
    query = (
        reader.load(lake.path(MESSAGES_TABLE))
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", checkpoint.path)
        .foreachBatch(normalize)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        raise (failures[0] if failures else _stream_failed(error, checkpoint.path)) from None
    return SilverResult(desk.messages, desk.counts, tuple(halt.error() for halt in halts.values()))


def _past_erasures(spark: SparkSession, lake: Lakehouse) -> dict[str, str]:
    """How the stream passes commits in which `forget` emptied messages; raises MainstemError where others rewrote any."""
    if not is_there(spark, f"{lake.checkpoints}/silver.forgotten"):
        return {}
    rewrites = lake.delta(spark, MESSAGES_TABLE).history().where(F.col("operation").isin("DELETE", "UPDATE", "MERGE"))
    foreign = rewrites.where(~F.coalesce(F.col("userMetadata").contains(FORGOTTEN), F.lit(False))).select("version").first()
    if foreign is not None:
        raise MainstemError(
            "BRONZE_REWRITTEN",
            found=f"version {foreign[0]} of {MESSAGES_TABLE} changed or deleted messages, and was not made by `forget`",
            where=lake.path(MESSAGES_TABLE),
            action=f"restore the version before it: RESTORE TABLE … TO VERSION AS OF {foreign[0] - 1}",
        )
    return {"skipChangeCommits": "true"}


def replay_silver(spark: SparkSession, lake: Lakehouse, config: Config) -> SilverResult:
    """Decode the messages in quarantine again. Halves that wait for a partner there go on waiting."""
    if not lake.exists(spark, derived.QUARANTINE_TABLE):
        return SilverResult(0)
    desk = _open_desk(spark, lake, config)
    _finish(spark, desk)
    open_rows = lake.read(spark, derived.QUARANTINE_TABLE).where(~F.col("is_resolved") & ~F.col("reason").isin(*_WAIT_FOR_PARTNERS))
    wanted = open_rows.where(F.col("source").isin(*desk.plans)).select(*_AT).distinct()
    messages = lake.read(spark, MESSAGES_TABLE).join(F.broadcast(wanted), list(_AT), "left_semi").select(*MESSAGES.names)
    normalize_batch(messages, _extra_batch(spark, desk), desk, is_replay=True)
    return SilverResult(desk.messages, desk.counts)


def _open_desk(spark: SparkSession, lake: Lakehouse, config: Config) -> Desk:
    lake.create(spark, derived.PENDING_TABLE, CHANGES)
    lake.create(spark, derived.QUARANTINE_TABLE, QUARANTINE)
    return Desk(lake, config, source_plans(config))


def _go_on(spark: SparkSession, desk: Desk) -> dict[str, epochs.Halt]:
    """Take up the messages of sources whose epoch was raised; returns the sources that still stand still."""
    halts = epochs.halts(spark, desk.lake)
    sources = desk.config.sources
    raised = [halt for name, halt in halts.items() if name in sources and sources[name].epoch > halt.epoch]
    _finish(spark, desk)
    for halt in raised:
        messages = desk.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == halt.source)
        batch = _extra_batch(spark, desk)
        normalize_batch(_unread(messages, desk), batch, desk)
        epochs.append_rows(spark, desk.lake, epochs.begun(halt, sources[halt.source].epoch, batch))
    return epochs.halts(spark, desk.lake) if raised else halts


def _finish(spark: SparkSession, desk: Desk) -> None:
    """Derive what a crash has left underived of the last batch, before messages are taken up again or left out."""
    if not desk.lake.exists(spark, derived.CHANGES_TABLE):
        return
    last = _last_batch(spark, desk)
    counts = desk.lake.rows(spark, derived.COUNTS_TABLE, derived.COUNTS_SCHEMA)
    if last >= 0 and counts.where(F.col("batch") == last).isEmpty():
        derive(desk.lake.read(spark, MESSAGES_TABLE), last, desk, None)


def _last_batch(spark: SparkSession, desk: Desk) -> int:
    row = desk.lake.rows(spark, derived.CHANGES_TABLE, CHANGES).agg(F.max("batch")).first()
    return -1 if row is None or row[0] is None else int(row[0])


def _extra_batch(spark: SparkSession, desk: Desk) -> int:
    batch = max(_last_batch(spark, desk), 0) + 1
    if batch % STRIDE == 0:
        raise MainstemError(
            "TOO_MANY_REPLAYS",
            found=f"{STRIDE - 1} batches were taken up again since the last new message",
            where="silver",
            action="land a message, run, and replay again",
        )
    return batch


def _unread(messages: DataFrame, desk: Desk) -> DataFrame:
    """The messages that have no fate yet."""
    changes = desk.lake.rows(messages.sparkSession, derived.CHANGES_TABLE, CHANGES)
    met = changes.where("paired_with IS NOT NULL").select("source", "paired_with.*")
    return messages.join(changes.select(*_AT).unionByName(met).distinct(), list(_AT), "left_anti").select(*messages.columns)


def _without_stopped(messages: DataFrame, stopped: Sequence[str]) -> DataFrame:
    """The messages of sources that go on. A stop of this very batch holds back what is behind it, when that is found again."""
    return messages.where(~F.col("source").isin(*stopped)) if stopped else messages


def _stream_failed(error: Exception, checkpoint: str) -> MainstemError:
    lines = str(error).splitlines()
    return MainstemError(
        "SILVER_FAILED",
        found=lines[0][:500] if lines else type(error).__name__,
        where=f"the stream over {MESSAGES_TABLE}, checkpoint {checkpoint}",
        action=f"run again; if files of the checkpoint are damaged, delete it and create the empty file {checkpoint}.reset",
    )
