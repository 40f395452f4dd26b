"""Notes beside a stream's checkpoint, which reveal a lost checkpoint so that nothing lands twice."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.source import Feed
from framework.contracts.seed import FROM_A_DUMP
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.checkpoint_files import check_files
from framework.lakehouse.lakehouse import Lakehouse, table_properties
from framework.lakehouse.older_copies import is_older, newest_mark
from framework.lakehouse.owner import TABLE_ID, check_owner, landing_note, owner_properties
from framework.lakehouse.small_files import is_local, is_there, read_note, remove, write_note

_PROPERTIES = {
    "delta.appendOnly": "true",
    "delta.dataSkippingStatsColumns": "`source`,`topic`,`partition`,`offset`,`file`,`ingested_at`",
}

_TABLE = "the table "

SourcesWithMessages = Callable[[], frozenset[str]]

_CREATING = threading.Lock()  # sources run in parallel and write to one table: the first of them creates it


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a source's stream.

    Attributes:
        generation: Part of each transaction id, because a new checkpoint counts its batches from 0 again.
        is_reset: Whether an earlier checkpoint of the source has landed messages, or may have passed some.
    """

    generation: str
    is_reset: bool


def sources_with_messages(spark: SparkSession, feeds: Sequence[Feed]) -> frozenset[str]:
    """The sources without a checkpoint that have messages in `bronze/messages`.

    Rows of dumps do not count.
    """
    names = [feed.name for feed in feeds if not has_checkpoint(spark, feed)]
    if not names or not feeds[0].lake.exists(spark, MESSAGES_TABLE):
        return frozenset()
    messages = (
        feeds[0].lake.read(spark, MESSAGES_TABLE).where(F.col("source").isin(names) & ~F.expr(FROM_A_DUMP))
    )
    return frozenset(row["source"] for row in messages.select("source").distinct().collect())


def open_checkpoint(spark: SparkSession, feed: Feed, landed_sources: SourcesWithMessages) -> Checkpoint:
    """The source's checkpoint, or a new one where it has none.

    Creates `bronze/messages` where it is missing, unless the source has landed messages in it before. A lost
    checkpoint begins again only where the file `<checkpoint>.reset` allows it.

    Args:
        spark: The session.
        feed: The source.
        landed_sources: Gives the sources that had messages and no checkpoint when the run began.

    Raises:
        MainstemError: CHECKPOINT_LOST or CHECKPOINT_DAMAGED; SOURCE_CHANGED where it is one of another kind
            of source; BRONZE_REPLACED where it belongs to another `bronze/messages`; OLDER_COPY where that
            lacks what the stream has landed.
    """
    note = _generation(spark, feed)
    has_begun = has_checkpoint(spark, feed)
    if has_begun and note and not feed.lake.exists(spark, MESSAGES_TABLE):
        raise _bronze_replaced(feed)
    with _CREATING:
        create_messages(spark, feed.lake, feed.pipeline)
    table = messages_table(spark, feed.lake) or ""
    try:
        if not has_begun:
            has_messages = feed.name in landed_sources()
            _check_beginning(spark, feed, has_messages)
            return _begin(spark, feed, table, has_messages)
        _check_begun(spark, feed, note, table)
    except MainstemError as error:
        if error.condition in ("CHECKPOINT_LOST", "BRONZE_REPLACED"):
            clear_state(spark, feed)
        raise
    end_reset(spark, feed)
    return Checkpoint(note["generation"], note["is_reset"])


def create_messages(spark: SparkSession, lake: Lakehouse, pipeline: str) -> None:
    """Create `bronze/messages`, as a table of the pipeline, unless it exists.

    Raises:
        MainstemError: LAKEHOUSE_TAKEN, where another pipeline has created it at the same moment.
    """
    if not lake.exists(spark, MESSAGES_TABLE):
        own = {TABLE_ID: uuid.uuid4().hex, **owner_properties(spark, lake)}
        lake.create(spark, MESSAGES_TABLE, MESSAGES, {**_PROPERTIES, **own})
        check_owner(spark, lake, pipeline)


def check_checkpoint(spark: SparkSession, feed: Feed) -> Checkpoint:
    """Raises what `open_checkpoint` raises, and changes nothing.

    Returns its checkpoint; one that has not begun has no generation.
    """
    note, table = _generation(spark, feed), messages_table(spark, feed.lake)
    if has_checkpoint(spark, feed):
        _check_begun(spark, feed, note, table)
        return Checkpoint(note["generation"], note["is_reset"])
    has_messages = bool(sources_with_messages(spark, [feed]))
    _check_beginning(spark, feed, has_messages)
    return Checkpoint("", has_messages or _begins_again(spark, feed, table))


def _check_begun(spark: SparkSession, feed: Feed, note: Mapping[str, Any], table: str | None) -> None:
    if not note:
        raise checkpoint_lost(feed, f"the checkpoint {feed.checkpoint} without its generation")
    if "reads" in note and _kind_of(note["reads"]) != _kind_of(_reads(feed)):  # earlier releases lack it
        raise _other_kind(feed, note["reads"])
    check_files(feed.checkpoint, f"source {feed.name}")
    if note["table"] != table:
        raise _bronze_replaced(feed)
    _check_messages(spark, feed, _saved(spark, feed, note))


def _check_beginning(spark: SparkSession, feed: Feed, has_messages: bool) -> None:
    if has_messages and not is_there(spark, _reset_path(feed)):
        raise checkpoint_lost(
            feed, f"{MESSAGES_TABLE} has messages of source '{feed.name}', but its checkpoint is gone"
        )


def end_reset(spark: SparkSession, feed: Feed) -> None:
    """Removes the file that allows a lost checkpoint to begin again, once it has.

    A run that ends before its stream has started a batch leaves the file to the next run.
    """
    if has_checkpoint(spark, feed):
        remove(spark, _reset_path(feed))


def has_checkpoint(spark: SparkSession, feed: Feed) -> bool:
    """Whether the source's stream has started a batch."""
    offsets = f"{feed.checkpoint}/offsets"
    if is_local(offsets):
        return os.path.isdir(offsets) and any(name.isdigit() for name in os.listdir(offsets))
    return is_there(spark, offsets)


def messages_table(spark: SparkSession, lake: Lakehouse) -> str | None:
    """The id that `bronze/messages` was created with; None where there is no table."""
    if not lake.exists(spark, MESSAGES_TABLE):
        return None
    return table_properties(spark, lake.location(MESSAGES_TABLE)).get(TABLE_ID, "")


def load_state(spark: SparkSession, feed: Feed, table: str | None) -> str:
    """The state that the last `discover` saved.

    Empty unless everything it found has landed and is still there: `table` is the present `bronze/messages`
    (`messages_table`), and the checkpoint belongs to it. Raises OLDER_COPY as `open_checkpoint` does, so that
    also a source with nothing new notices it.
    """
    note = _generation(spark, feed)
    saved = _saved(spark, feed, note)
    if not saved or table is None or note.get("table") != table or not has_checkpoint(spark, feed):
        return ""
    if feed.lake.local_root is not None:  # elsewhere the question costs a query: `open_checkpoint` asks it
        _check_messages(spark, feed, saved)
    return str(saved["memory"])


def save_state(spark: SparkSession, feed: Feed, state: str) -> None:
    """Save what the next `discover` needs; it may only tell of what has landed."""
    if state:
        add_facts(spark, feed, memory=state)


def facts_of(spark: SparkSession, feed: Feed) -> Mapping[str, Any]:
    """What is noted of the source's checkpoint."""
    return _saved(spark, feed, _generation(spark, feed))


def add_facts(spark: SparkSession, feed: Feed, **facts: object) -> None:
    """Change what is noted of the source's checkpoint, if it has one."""
    generation = _generation(spark, feed)
    _write(spark, feed, generation, _saved(spark, feed, generation), **facts)


def note_landed(spark: SparkSession, feed: Feed) -> None:
    """Note the newest commit of `bronze/messages`: a copy of the table without it lacks what has landed."""
    add_facts(spark, feed, messages=newest_mark(spark, feed.lake.location(MESSAGES_TABLE)))


def next_landing(spark: SparkSession, feed: Feed, checkpoint: Checkpoint, *, is_first: bool) -> int:
    """When the messages of the next batch land, in microseconds; `is_first` says that it is batch 0.

    Epochs depend on the order of landing, so it is later than all that has landed of the source, also where
    the clock was set back. It is noted before anything lands.
    """
    generation = _generation(spark, feed)
    saved = _saved(spark, feed, generation)
    landed = saved.get("landed_at")
    if landed is None and (checkpoint.is_reset or not is_first):  # a release before this one did not note it
        messages = feed.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == feed.name)
        row = messages.agg(F.max(F.unix_micros("ingested_at"))).first()
        landed = None if row is None else row[0]
    landing = max(time.time_ns() // 1_000, (landed or 0) + 1)
    _write(spark, feed, generation, saved, landed_at=landing)
    return landing


def clear_state(spark: SparkSession, feed: Feed) -> None:
    """Make the next `discover` start without a state."""
    if facts_of(spark, feed):
        add_facts(spark, feed, memory="")


def _check_messages(spark: SparkSession, feed: Feed, saved: Mapping[str, Any]) -> None:
    if is_older(spark, feed.lake.location(MESSAGES_TABLE), saved.get("messages")):
        raise older_copy(feed, MESSAGES_TABLE)


def _saved(spark: SparkSession, feed: Feed, note: Mapping[str, Any]) -> dict[str, Any]:
    """What is noted of the source's checkpoint; empty where the note is that of another checkpoint."""
    saved: dict[str, Any] = json.loads(read_note(spark, _state_path(feed)) or "{}")
    return saved if saved.get("generation") == note.get("generation") else {}


def _write(
    spark: SparkSession, feed: Feed, generation: Mapping[str, Any], saved: Mapping[str, Any], **facts: object
) -> None:
    note = {"generation": generation.get("generation"), "memory": "", **saved, **facts}
    if generation and note != saved:
        write_note(spark, _state_path(feed), json.dumps(note))


def _generation(spark: SparkSession, feed: Feed) -> dict[str, Any]:
    note: dict[str, Any] = json.loads(read_note(spark, _generation_path(feed)) or "{}")
    return note


def checkpoint_lost(feed: Feed, found: str) -> MainstemError:
    """The error of a source that can no longer tell what has landed, except by reading bronze itself."""
    return MainstemError(
        "CHECKPOINT_LOST",
        found=found,
        where=f"source {feed.name}, {feed.checkpoint}",
        action=f"restore the newest state of what is missing from a backup; or delete {feed.checkpoint},"
        f" create the empty file {_reset_path(feed)} and run again,"
        " which leaves out what has landed",
    )


def older_copy(feed: Feed, table: str) -> MainstemError:
    """The error of a source whose table, `bronze/messages` or its log of files, was put back from a copy."""
    return MainstemError(
        "OLDER_COPY",
        found=f"{table} is an older copy: it lacks what source '{feed.name}' has written to it since",
        where=feed.lake.location(table),
        action=f"put its newest state back; or, where there is none, delete {feed.checkpoint},"
        f" create the empty file {_reset_path(feed)} and run again: what is missing lands again, as far as"
        " the source still has it, and what has landed is left out",
    )


def _begin(spark: SparkSession, feed: Feed, table: str, has_messages: bool) -> Checkpoint:
    checkpoint = Checkpoint(uuid.uuid4().hex[:12], has_messages or _begins_again(spark, feed, table))
    if is_local(feed.checkpoint):
        shutil.rmtree(feed.checkpoint, ignore_errors=True)
    known = {"generation": checkpoint.generation, "is_reset": checkpoint.is_reset, "table": table}
    write_note(spark, _generation_path(feed), json.dumps({**known, "reads": _reads(feed)}))
    return checkpoint


def _begins_again(spark: SparkSession, feed: Feed, table: str | None) -> bool:
    """Whether a checkpoint that begins follows another one, whose messages may not be in bronze."""
    before = _generation(spark, feed)
    # what a `bronze/messages` had that was replaced is read again
    is_again = before.get("is_reset", False) or before.get("table", table) != table
    return bool(is_again) or is_there(spark, _reset_path(feed))


def _bronze_replaced(feed: Feed) -> MainstemError:
    log = feed.lake.location(f"ops/files/{feed.name}")
    return MainstemError(
        "BRONZE_REPLACED",
        found=f"{MESSAGES_TABLE} is not the table that the checkpoint of source '{feed.name}' belongs to",
        where=feed.lake.location(MESSAGES_TABLE),
        action="restore the newest state of the table;"
        f" or delete {feed.checkpoint} and {log} to read again what is there",
    )


def _reads(feed: Feed) -> str:
    """What the source reads."""
    if feed.source.table is not None:
        return f"{_TABLE}{feed.source.table}"
    return "files" if feed.source.kafka is None else "Kafka"


def _kind_of(reads: str) -> str:
    """The kind of what is read. A table may have moved; Delta notices another one."""
    return _TABLE if reads.startswith(_TABLE) else reads


def _other_kind(feed: Feed, before: str) -> MainstemError:
    found = (
        f"the checkpoint of source '{feed.name}' is one of {before}, and the source reads {_reads(feed)} now"
    )
    return source_changed(feed, found)


def source_changed(feed: Feed, found: str) -> MainstemError:
    """The error of a source that reads another place than its checkpoint is about."""
    return MainstemError(
        "SOURCE_CHANGED",
        found=found,
        where=f"source {feed.name}, {feed.checkpoint}",
        action=f"give the source another name; or, where it is the same feed, delete {feed.checkpoint},"
        f" create the empty file {_reset_path(feed)} and run again: what has landed stays",
    )


def _generation_path(feed: Feed) -> str:
    return landing_note(feed.lake, feed.name)


def _state_path(feed: Feed) -> str:
    return f"{feed.checkpoint}.landed"


def _reset_path(feed: Feed) -> str:
    return f"{feed.checkpoint}.reset"
