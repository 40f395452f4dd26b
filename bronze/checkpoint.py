"""What is kept beside a stream's checkpoint, so that its loss is noticed and lands nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.source import MESSAGES_TABLE, Feed
from framework.contracts.seed import TOPIC
from framework.contracts.tables import MESSAGES
from framework.errors import MainstemError
from framework.notes import is_local, is_there, read_note, write_note
from framework.stream_files import check_files
from framework.tables import table_properties

TABLE_ID = "mainstem.table"
PROPERTIES = {
    "delta.appendOnly": "true",
    "delta.dataSkippingStatsColumns": "`source`,`topic`,`partition`,`offset`,`file`,`ingested_at`",
}

Held = Callable[[], frozenset[str]]

_CREATING = threading.Lock()  # the first of a run's sources creates what all of them write to


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A stream's checkpoint. `generation` is part of each transaction id, since batches of a new one count from 0 again.

    `is_reset` says that it began when bronze had messages of the source already.
    """

    generation: str
    is_reset: bool


def held_sources(spark: SparkSession, feeds: Sequence[Feed]) -> frozenset[str]:
    """Those of the sources without a checkpoint of which `bronze/messages` has messages; dumps are no part of a stream."""
    names = [feed.name for feed in feeds if not has_checkpoint(spark, feed)]
    if not names or not feeds[0].lake.exists(spark, MESSAGES_TABLE):
        return frozenset()
    messages = feeds[0].lake.read(spark, MESSAGES_TABLE).where(F.col("source").isin(names) & ~F.col("topic").startswith(TOPIC))
    return frozenset(row["source"] for row in messages.select("source").distinct().collect())


def open_checkpoint(spark: SparkSession, feed: Feed, held: Held) -> Checkpoint:
    """The checkpoint to go on with, or a new one where the source has none; raises MainstemError when it was lost.

    `held` tells which of the sources without one had landed messages when the run began.

    A lost one is begun anew only when the file `<checkpoint>.reset` says so. `bronze/messages` is created where it is
    missing, unless the source has landed in it before.
    """
    note = json.loads(read_note(spark, _generation(feed)) or "{}")
    has_begun = has_checkpoint(spark, feed)
    if has_begun and note and not feed.lake.exists(spark, MESSAGES_TABLE):
        raise _replaced(feed)
    with _CREATING:
        feed.lake.create(spark, MESSAGES_TABLE, MESSAGES, {**PROPERTIES, TABLE_ID: uuid.uuid4().hex})
    table = _table_id(spark, feed)
    if not has_begun:
        return _begin(spark, feed, table, feed.name in held())
    if not note:
        raise lost(feed, f"the checkpoint {feed.checkpoint} without its generation")
    check_files(feed.checkpoint, f"source {feed.name}")
    if note["table"] != table:
        forget(spark, feed)
        raise _replaced(feed)
    return Checkpoint(note["generation"], note["is_reset"])


def has_checkpoint(spark: SparkSession, feed: Feed) -> bool:
    """Whether the source's stream has begun a batch."""
    offsets = f"{feed.checkpoint}/offsets"
    if is_local(offsets):
        return os.path.isdir(offsets) and any(name.isdigit() for name in os.listdir(offsets))
    return is_there(spark, offsets)


def recall(spark: SparkSession, feed: Feed) -> str:
    """What the last look has left to remember; empty unless everything from it has landed and is still there."""
    memory = json.loads(read_note(spark, _landed(feed)) or "{}")
    if not memory or not feed.lake.exists(spark, MESSAGES_TABLE) or not has_checkpoint(spark, feed):
        return ""
    note = json.loads(read_note(spark, _generation(feed)) or "{}")
    return str(memory["memory"]) if memory["generation"] == note.get("generation") else ""


def remember(spark: SparkSession, feed: Feed, memory: str) -> None:
    """Keep what the next look needs to know; call it only when everything from this look has landed."""
    note = json.loads(read_note(spark, _generation(feed)) or "{}")
    if memory and note:
        write_note(spark, _landed(feed), json.dumps({"generation": note["generation"], "memory": memory}))


def forget(spark: SparkSession, feed: Feed) -> None:
    """Have the next look begin from nothing."""
    if read_note(spark, _landed(feed)):
        write_note(spark, _landed(feed), "{}")


def lost(feed: Feed, found: str) -> MainstemError:
    """The error of a source that cannot tell what has landed but by looking into bronze itself."""
    return MainstemError(
        "CHECKPOINT_LOST",
        found=found,
        where=f"source {feed.name}, {feed.checkpoint}",
        action=f"put back from a backup what is gone; or delete {feed.checkpoint}, create the empty file {_reset(feed)}"
        " and run again: what has landed is then left out",
    )


def _begin(spark: SparkSession, feed: Feed, table: str, has_messages: bool) -> Checkpoint:
    if has_messages and not is_there(spark, _reset(feed)):
        forget(spark, feed)
        raise lost(feed, f"{MESSAGES_TABLE} has messages of source '{feed.name}', but its checkpoint is gone")
    checkpoint = Checkpoint(uuid.uuid4().hex[:12], has_messages)
    if is_local(feed.checkpoint):
        shutil.rmtree(feed.checkpoint, ignore_errors=True)
    note = {"generation": checkpoint.generation, "is_reset": checkpoint.is_reset, "table": table}
    write_note(spark, _generation(feed), json.dumps(note))
    if is_local(feed.checkpoint):
        Path(_reset(feed)).unlink(missing_ok=True)
    return checkpoint


def _replaced(feed: Feed) -> MainstemError:
    log = feed.lake.place(f"ops/files/{feed.name}")
    return MainstemError(
        "BRONZE_REPLACED",
        found=f"{MESSAGES_TABLE} is not the table that the checkpoint of source '{feed.name}' belongs to",
        where=feed.lake.place(MESSAGES_TABLE),
        action=f"restore the table; or delete {feed.checkpoint} and {log} to read again what is there",
    )


def _generation(feed: Feed) -> str:
    return f"{feed.checkpoint}.generation"


def _landed(feed: Feed) -> str:
    return f"{feed.checkpoint}.landed"


def _reset(feed: Feed) -> str:
    return f"{feed.checkpoint}.reset"


def _table_id(spark: SparkSession, feed: Feed) -> str:
    """The identity that the table was created with; its listing of properties is cheaper than its details."""
    return table_properties(spark, feed.lake.place(MESSAGES_TABLE)).get(TABLE_ID, "")
