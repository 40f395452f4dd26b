"""Silver's runs: the stream over bronze, the replay of quarantine, and rebuilds of tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts import dismissals
from framework.contracts.batch_ids import BATCH_ID_STEP
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    QUARANTINE_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID, MESSAGES
from framework.errors import MainstemError, as_raised, located
from framework.lakehouse.expired_logs import begin_again
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.scanned_files import scanned_files
from framework.lakehouse.session_size import tune_for_lakehouse
from framework.pipeline.failed_tries import FailedTries
from framework.pipeline.progress import Progress
from framework.spark.session import is_connect
from framework.text.formatting import quantity
from silver.batches import batch_counts
from silver.batches.landings import (
    HOLDS_COORDINATES,
    before_halves_of,
    identify_all,
    outcomes_in_epochs,
)
from silver.batches.process import messages_at_work
from silver.batches.run_state import RunState
from silver.operations.late_definitions import decode_redefined
from silver.operations.other_readings import (
    note_on_lost,
    note_readings,
    read_as_noted,
    redecode_as_configured,
)
from silver.operations.redecode import RedecodeResult
from silver.operations.table_names import tables_named
from silver.stream.ambiguous_values import retry_ambiguous
from silver.stream.bronze_rewrites import past_erasures, rewrite_in
from silver.stream.checkpoint import (
    Checkpoint,
    bronze_replaced,
    copy_refused,
    end_reset,
    open_checkpoint,
)
from silver.stream.failures import is_of_gone_files, stream_failed
from silver.stream.gaps import decoded_outside, may_have_outcomes, only_without_outcome
from silver.stream.known_progress import has_read, mark_repaired, older_copy, remember, stream_end
from silver.stream.lost_tables import (
    complete_epochs,
    note_tables,
    read_noted_tables,
    restore_epochs,
    restore_markers,
)
from silver.stream.opened_state import check_copies, open_repair, open_state
from silver.stream.remote_batches import batches_since, follow
from silver.stream.resume import (
    last_batch_id,
    process_in_portions,
    resume_sources,
)
from silver.stream.source_isolation import errors_of, process_with_isolation

_WAIT_FOR_PARTNERS = (str(Reason.UNPAIRED_BEFORE_IMAGE),)


@dataclass(frozen=True, slots=True)
class SilverResult:
    """What a run of silver did: messages read, counts of its batches (`ops/batches`), errors of sources.

    `left_out` are sources in bronze that the configuration does not name. `again` says how many
    messages a rebuild has decoded again. `restored` has notes on tables that were gone and
    have been restored, `redefined` on tables that were decoded again because their definitions came late.
    `has_waiting` says whether halves wait, None if it is unknown. `remaining` is a note on what a replay left
    in quarantine.
    """

    messages: int
    counts: Sequence[Row] = ()
    errors: tuple[MainstemError, ...] = ()
    left_out: tuple[str, ...] = ()
    again: RedecodeResult | None = None
    restored: tuple[str, ...] = ()
    redefined: tuple[str, ...] = ()
    has_waiting: bool | None = None
    remaining: str | None = None


def run_silver(
    spark: SparkSession,
    lake: Lakehouse,
    config: Config,
    progress: Progress | None = None,
    tries: FailedTries | None = None,
) -> SilverResult:
    """Decode all messages that bronze holds and silver has not read yet, and report each batch.

    Where bronze has lost the commits of some from its log, all messages are read again. The rounds of one
    command share `tries`; without it every source is tried.
    """
    run = partial(_run, spark, lake, config, progress, tries or FailedTries())
    try:
        return run()
    except MainstemError as error:
        if not begin_again(error, f"{lake.checkpoints}/silver"):
            raise
        result = run()
        return replace(result, restored=(f"all messages were read again: {error.found}", *result.restored))


def _run(
    spark: SparkSession, lake: Lakehouse, config: Config, progress: Progress | None, tries: FailedTries
) -> SilverResult:
    if not lake.exists(spark, MESSAGES_TABLE):
        is_lost = lake.exists(spark, CHANGES_TABLE)
        return SilverResult(0, errors=(bronze_replaced(spark, lake),) if is_lost else ())
    noted = read_noted_tables(spark, lake)
    begun = restore_epochs(spark, lake, noted, config.sources)
    restore_markers(spark, lake, noted)
    checkpoint = open_checkpoint(spark, lake, () if noted is None else noted.tables)
    older = older_copy(spark, lake, checkpoint)
    if older is not None:
        raise copy_refused(spark, lake, older)
    history, completed = complete_epochs(spark, lake, noted)
    state, restored = open_state(spark, lake, config, noted, history)
    state.tries = tries
    restored = (*begun, *completed, *restored, *note_on_lost(spark, state, noted))
    is_unnoted = noted is None or "readings" not in noted.facts  # as earlier releases leave it
    if is_unnoted or not lake.exists(
        spark, CHANGES_TABLE
    ):  # tables that a killed run began are not tables that are lost
        note_tables(spark, state, noted)
    end = stream_end(spark, state, checkpoint)
    try:
        again, refused = read_as_noted(spark, state)
        if not checkpoint.is_new and has_read(spark, state, end):
            _resume(spark, state)
            result = _result(spark, state)
        else:
            result = _read_stream(spark, state, checkpoint, progress or Progress())
    except Exception:
        with suppress(Exception):  # the first error is the one to report
            note_tables(spark, state, noted)
        raise
    if lake.local_root is not None or result.messages:
        remember(spark, state, end, checkpoint)
    is_idle = noted is not None and not result.messages and not restored
    if lake.local_root is not None or not is_idle:  # listing all tables of an object store takes a second
        note_tables(spark, state, noted)
    return replace(
        result, restored=restored, redefined=(*again, *result.redefined), errors=(*refused, *result.errors)
    )


def _resume(spark: SparkSession, state: RunState) -> dict[str, int]:
    """Go on with sources that may. Returns those that still stand, each with the batch since which."""
    stopped = {name: source.batch for name, source in resume_sources(spark, state).items()}
    return stopped | dict.fromkeys(state.epoch_history(spark).passed_over(state.config.sources), -1)


def _read_stream(
    spark: SparkSession, state: RunState, checkpoint: Checkpoint, progress: Progress
) -> SilverResult:
    """Read what the stream has not read yet, batch by batch."""
    lake = state.lake
    # the batches of Spark Connect run in another process, to which this run's progress cannot go
    told = None if is_connect(spark) else progress
    if told is not None:
        told.watch("messages", lambda: (messages_at_work(state), 0))
    stopped = _resume(spark, state)
    newest = last_batch_id(spark, state) if is_connect(spark) else -1
    until = decoded_outside(checkpoint, state.epoch_history(spark))
    failures: list[Exception] = []

    def process(messages: DataFrame, stream_batch: int) -> None:
        if is_connect(messages.sparkSession):
            state.history = None  # the state of this process may be a copy from before earlier batches
        try:
            batch, before = (checkpoint.first_batch + stream_batch) * BATCH_ID_STEP, state.messages
            fresh = _without_stopped(messages, [name for name, since in stopped.items() if since < batch])
            is_checked = may_have_outcomes(messages, until, time.time_ns() // 1_000)
            state.raw = None
            only_new = only_without_outcome(messages, fresh, state) if is_checked else nullcontext(fresh)
            are_all = fresh is messages and not is_checked
            state.files = scanned_files(lake, MESSAGES_TABLE, messages) if are_all else None
            step = (told or Progress()).step("batch", str(batch))
            with step as facts, only_new as new, located(f"batch {batch} ({_names_of(state.plans)})"):
                stopped.update(dict.fromkeys(process_with_isolation(new, batch, state), batch))
                facts["messages"] = state.messages - before
            stopped.update(
                {
                    name: source.batch
                    for name, source in state.epoch_history(messages.sparkSession).stopped_sources().items()
                }
            )
            if told is not None:
                told.advance("messages", state.messages - before)
                told.advance("batches")
        except Exception as error:
            failures.append(error)
            raise

    query = (
        lake.read_stream(
            spark,
            MESSAGES_TABLE,
            {"maxBytesPerTrigger": "512m", **past_erasures(spark, lake, MESSAGES_TABLE)},
        )
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", checkpoint.path)
        .foreachBatch(process)
        .start()
    )
    try:
        if is_connect(spark):
            done = follow(query, partial(batches_since, spark, lake, newest), progress)
            state.note(_counts_since(spark, lake, newest), done.messages)
        else:
            query.awaitTermination()
    except Exception as error:
        first = failures[0] if failures else as_raised(error) or error
        if isinstance(first, MainstemError) or (failures and not is_of_gone_files(first)):
            raise first from None
        raise rewrite_in(first, lake, MESSAGES_TABLE) or stream_failed(
            spark, first, lake, checkpoint.path
        ) from None
    finally:
        state.files = None
        if is_connect(spark):
            state.history = None
    end_reset(spark, lake)
    return _result(spark, state)


def _names_of(sources: Iterable[str]) -> str:
    """The sources of a batch, for the place of an error."""
    names = sorted(sources)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{'source' if len(names) == 1 else 'sources'} {', '.join(names[:5])}{more}"


def _counts_since(spark: SparkSession, lake: Lakehouse, batch: int) -> list[Row]:
    counts = lake.rows(spark, BATCHES_TABLE, batch_counts.COUNTS_SCHEMA)
    return counts.where(F.col("batch") > batch).collect()


def replay_silver(
    spark: SparkSession, lake: Lakehouse, config: Config, *, with_dismissed: bool = False
) -> SilverResult:
    """Decode the quarantined messages again, but not halves that wait there for their other half.

    Dismissed messages are left alone unless they are asked for.
    """
    if not lake.exists(spark, CHANGES_TABLE):
        return SilverResult(0)
    check_copies(spark, lake)
    state, restored = open_repair(spark, lake, config)
    again, refused = read_as_noted(spark, state)
    resume_sources(spark, state)
    tune_for_lakehouse(spark, lake)
    is_wanted = "NOT is_resolved" if with_dismissed else dismissals.IS_OPEN
    open_rows = (
        lake.read(spark, QUARANTINE_TABLE).where(is_wanted).where(~F.col("reason").isin(*_WAIT_FOR_PARTNERS))
    )
    wanted = open_rows.where(F.col("source").isin(*state.plans)).select(*MESSAGE_ID)
    wanted = wanted.unionByName(_partners(spark, state, wanted)).distinct()
    near = lake.read(spark, MESSAGES_TABLE).join(
        wanted.select(*MESSAGE_AT).distinct(), list(MESSAGE_AT), "left_semi"
    )
    known = identify_all(near, lake, state.source_epochs(spark)).where(HOLDS_COORDINATES)
    process_in_portions(
        known.join(wanted, list(MESSAGE_ID), "left_semi").select(*MESSAGES.names), state, is_replay=True
    )
    result = _result(spark, state)
    mark_repaired(spark, lake)
    return replace(
        result,
        restored=restored,
        redefined=(*again, *result.redefined),
        errors=(*refused, *result.errors),
        remaining=_remaining(spark, lake, state),
    )


def _remaining(spark: SparkSession, lake: Lakehouse, state: RunState) -> str:
    """What a replay left in quarantine, for people."""
    rows = (
        lake.read(spark, QUARANTINE_TABLE).where(dismissals.IS_OPEN).where(F.col("source").isin(*state.plans))
    )
    counts = sorted((row["reason"], row["count"]) for row in rows.groupBy("reason").count().collect())
    if not counts:
        return "nothing is in quarantine any more" if state.messages else "nothing is in quarantine"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in counts)
    return f"{quantity(sum(count for _, count in counts), 'row')} still in quarantine: {reasons}"


def rebuild_silver(spark: SparkSession, lake: Lakehouse, config: Config, table: str) -> SilverResult:
    """Decode the messages of one table again, in place of what silver holds of it."""
    if not lake.exists(spark, CHANGES_TABLE):
        return SilverResult(0)
    check_copies(spark, lake)
    state, restored = open_repair(spark, lake, config)
    note_readings(spark, state)
    resume_sources(spark, state)
    found = redecode_as_configured(spark, state, tables_named(spark, state, table))
    result = _result(spark, state)
    mark_repaired(spark, lake)
    return replace(result, messages=found.decoded, again=found, restored=restored)


def _result(spark: SparkSession, state: RunState) -> SilverResult:
    redefined, refused = decode_redefined(spark, state)
    waiting = retry_ambiguous(spark, state)
    history = state.epoch_history(spark)
    stopped_sources = (
        source.error() for name, source in history.stopped_sources().items() if name in state.config.sources
    )
    errors = (*stopped_sources, *refused, *waiting, *errors_of(history, state))
    left_out = tuple(history.left_out(state.config.sources))
    return SilverResult(
        state.messages, state.counts, errors, left_out, redefined=redefined, has_waiting=state.has_waiting
    )


def _partners(spark: SparkSession, state: RunState, wanted: DataFrame) -> DataFrame:
    """The other halves of updates that were complete when a rule quarantined them."""
    is_held = (
        (F.col("kind") == "quarantined")
        & (F.col("reason") == str(Reason.RULE_BROKEN))
        & F.col("paired_with").isNotNull()
    )
    changes = state.lake.rows(spark, CHANGES_TABLE, CHANGES)
    held = outcomes_in_epochs(changes, state.source_epochs(spark)).where(is_held)
    return before_halves_of(held.join(wanted, list(MESSAGE_ID), "left_semi")).select(*MESSAGE_ID)


def _without_stopped(messages: DataFrame, stopped: Sequence[str]) -> DataFrame:
    """The messages of sources that go on.

    A stop in this very batch is found again when the batch is repeated.
    """
    return messages.where(~F.col("source").isin(*stopped)) if stopped else messages
