"""Silver's run: the stream over bronze, batch by batch, and messages that are taken up again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.contracts.reasons import Reason
from framework.contracts.tables import CHANGES, MESSAGE_AT, MESSAGES, QUARANTINE
from framework.errors import MainstemError, as_raised, cause_of
from framework.session import is_connect
from framework.tables import Lakehouse
from silver import derived, epochs
from silver.again import decode_again
from silver.batch import MESSAGES_TABLE, derive, normalize_batch
from silver.checkpoint import open_checkpoint
from silver.desk import STRIDE, Desk, source_plans
from silver.passed_over import extra_batch, go_on, last_batch, unread
from silver.rewrites import past_erasures, rewrite_in

_WAIT_FOR_PARTNERS = (str(Reason.UNPAIRED_BEFORE_IMAGE),)


@dataclass(frozen=True, slots=True)
class SilverResult:
    """What a run of silver did: messages read, the counts of its batches (rows of `ops/batches`), sources that stand still.

    `left_out` are sources that bronze has messages of and the configuration does not name.
    """

    messages: int
    counts: Sequence[Row] = ()
    errors: tuple[MainstemError, ...] = ()
    left_out: tuple[str, ...] = ()


def run_silver(spark: SparkSession, lake: Lakehouse, config: Config) -> SilverResult:
    """Normalize all messages that bronze holds and silver has not read yet."""
    if not lake.exists(spark, MESSAGES_TABLE):
        return SilverResult(0)
    desk = _open_desk(spark, lake, config)
    checkpoint = open_checkpoint(spark, lake)
    _finish(spark, desk)
    stopped = {name: halt.batch for name, halt in go_on(spark, desk).items()}
    newest = last_batch(spark, desk) if is_connect(spark) else -1
    # messages that were taken up again on their own have their fate when the stream comes to them
    has_gaps = checkpoint.is_reset or epochs.read_history(spark, lake).has_gaps
    failures: list[Exception] = []

    def normalize(messages: DataFrame, stream_batch: int) -> None:
        try:
            batch = (checkpoint.first_batch + stream_batch) * STRIDE
            fresh = _without_stopped(messages, [name for name, since in stopped.items() if since < batch])
            if has_gaps:
                fresh = unread(fresh, desk)
            normalize_batch(fresh, batch, desk)
            stopped.update({name: halt.batch for name, halt in epochs.read_history(messages.sparkSession, lake).halts().items()})
        except Exception as error:
            failures.append(error)
            raise

    query = (
        lake.read_stream(spark, MESSAGES_TABLE, {"maxBytesPerTrigger": "512m", **past_erasures(spark, lake, MESSAGES_TABLE)})
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", checkpoint.path)
        .foreachBatch(normalize)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        first = failures[0] if failures else as_raised(error) or error
        if isinstance(first, MainstemError) or (failures and not _is_of_gone_files(first)):
            raise first from None
        raise rewrite_in(first, lake, MESSAGES_TABLE) or _stream_failed(first, checkpoint.path) from None
    if is_connect(spark):  # the batches ran in another process: what they did is told by the tables
        desk.note(_counts_since(spark, lake, newest), _messages_since(spark, lake, newest))
    return _result(spark, desk)


def _messages_since(spark: SparkSession, lake: Lakehouse, batch: int) -> int:
    """How many messages the batches after this one held, by the notes of their commits."""
    if not lake.exists(spark, derived.CHANGES_TABLE):
        return 0
    commits = lake.history(spark, derived.CHANGES_TABLE).select("userMetadata").collect()
    notes = [json.loads(row[0] or "{}") for row in commits]
    return sum(note["messages"] for note in notes if note.get("batch", -1) > batch)


def _counts_since(spark: SparkSession, lake: Lakehouse, batch: int) -> list[Row]:
    counts = lake.rows(spark, derived.COUNTS_TABLE, derived.COUNTS_SCHEMA)
    return counts.where(F.col("batch") > batch).collect()


def replay_silver(spark: SparkSession, lake: Lakehouse, config: Config) -> SilverResult:
    """Decode the messages in quarantine again. Halves that wait for a partner there go on waiting."""
    if not lake.exists(spark, derived.QUARANTINE_TABLE):
        return SilverResult(0)
    desk = _open_desk(spark, lake, config)
    _finish(spark, desk)
    go_on(spark, desk)
    open_rows = lake.read(spark, derived.QUARANTINE_TABLE).where(~F.col("is_resolved") & ~F.col("reason").isin(*_WAIT_FOR_PARTNERS))
    wanted = open_rows.where(F.col("source").isin(*desk.plans)).select(*MESSAGE_AT)
    wanted = wanted.unionByName(_partners(spark, desk, wanted)).distinct()
    messages = lake.read(spark, MESSAGES_TABLE).join(F.broadcast(wanted), list(MESSAGE_AT), "left_semi").select(*MESSAGES.names)
    normalize_batch(messages, extra_batch(spark, desk), desk, is_replay=True)
    return _result(spark, desk)


def rebuild_silver(spark: SparkSession, lake: Lakehouse, config: Config, table: str) -> SilverResult:
    """Decode the messages of one table again, in place of what silver holds of it."""
    if not lake.exists(spark, derived.COUNTS_TABLE):
        return SilverResult(0)
    desk = _open_desk(spark, lake, config)
    _finish(spark, desk)
    go_on(spark, desk)
    messages = decode_again(spark, desk, table)
    return replace(_result(spark, desk), messages=messages)


def _result(spark: SparkSession, desk: Desk) -> SilverResult:
    history = epochs.read_history(spark, desk.lake)
    errors = tuple(halt.error() for name, halt in history.halts().items() if name in desk.config.sources)
    return SilverResult(desk.messages, desk.counts, errors, tuple(history.left_out(desk.config.sources)))


def _partners(spark: SparkSession, desk: Desk, wanted: DataFrame) -> DataFrame:
    """The other halves of updates that were whole when a rule held them back."""
    is_held = (F.col("kind") == "quarantined") & (F.col("reason") == str(Reason.RULE_BROKEN)) & F.col("paired_with").isNotNull()
    held = desk.lake.rows(spark, derived.CHANGES_TABLE, CHANGES).where(is_held)
    return held.join(wanted, list(MESSAGE_AT), "left_semi").select("source", "paired_with.*").select(*MESSAGE_AT)


def _open_desk(spark: SparkSession, lake: Lakehouse, config: Config) -> Desk:
    lake.create(spark, derived.PENDING_TABLE, CHANGES)
    lake.create(spark, derived.QUARANTINE_TABLE, QUARANTINE)
    return Desk(lake, config, source_plans(config))


def _finish(spark: SparkSession, desk: Desk) -> None:
    """Derive what a crash has left underived of the last batch, before messages are taken up again or left out."""
    if not desk.lake.exists(spark, derived.CHANGES_TABLE):
        return
    last = last_batch(spark, desk)
    counts = desk.lake.rows(spark, derived.COUNTS_TABLE, derived.COUNTS_SCHEMA)
    if last >= 0 and counts.where(F.col("batch") == last).isEmpty():
        messages = desk.lake.read(spark, MESSAGES_TABLE)
        batch = desk.lake.read(spark, derived.CHANGES_TABLE).where(F.col("batch") == last).select(*MESSAGE_AT)
        landed_at = messages.join(batch, list(MESSAGE_AT), "left_semi").agg(F.max("ingested_at")).first()
        derive(messages, last, desk, None if landed_at is None else landed_at[0])


def _without_stopped(messages: DataFrame, stopped: Sequence[str]) -> DataFrame:
    """The messages of sources that go on. A stop of this very batch holds back what is behind it, when that is found again."""
    return messages.where(~F.col("source").isin(*stopped)) if stopped else messages


_GONE = ("FAILED_READ_FILE", "FileNotFoundException", "DELTA_FILE_NOT_FOUND", "DELTA_LOG_FILE_NOT_FOUND", "DELTA_VERSIONS_NOT_CONTIGUOUS")


def _is_of_gone_files(error: Exception) -> bool:
    return not isinstance(error, MainstemError) and any(sign in str(error) for sign in _GONE)


def _gone_file(text: str) -> str:
    found = re.search(r"\S+\.(?:parquet|json)\b", text)
    return found[0] if found else "which, the table's log tells"


def _stream_failed(error: Exception, checkpoint: str) -> MainstemError:
    if _is_of_gone_files(error):
        return MainstemError(
            "BRONZE_INCOMPLETE",
            found=f"files of {MESSAGES_TABLE} that silver has not read are gone: {_gone_file(str(error))}",
            where=f"the stream over {MESSAGES_TABLE}, checkpoint {checkpoint}",
            action="restore the files, or the table at an earlier version; nothing was passed over. Where they are lost: set aside"
            f" {MESSAGES_TABLE} and the checkpoints of bronze, and land the messages again",
        )
    return MainstemError(
        "SILVER_FAILED",
        found=cause_of(error),
        where=f"the stream over {MESSAGES_TABLE}, checkpoint {checkpoint}",
        action=f"run again; if files of the checkpoint are damaged, delete it and create the empty file {checkpoint}.reset",
    )
