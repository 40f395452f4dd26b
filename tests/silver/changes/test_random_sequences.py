"""Whatever is repeated, and wherever batches are cut: the changes of every format make the source's tables.

    MAINSTEM_SIZE=large .venv/bin/pytest tests/silver/changes/test_random_sequences.py

draws more feeds. `MAINSTEM_SEED` sets the first one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from silver.changes.decode import SourcePlan
from silver.formats import FORMATS
from tests.amounts import IS_LARGE
from tests.silver.changes.silver_in_memory import Silver
from tests.silver.changes.small_source import KEYED, Database
from tests.silver.changes.source_writers import BEATS, WRITERS
from tests.silver.changes.test_decode import MESSAGES, plan
from tests.silver.changes.written_messages import Sent, Writer

SEED = int(os.environ.get("MAINSTEM_SEED") or 1)
FEEDS = 200 if IS_LARGE else 2
Message = tuple[int, Sent]
"""A partition and what is appended to it."""


def plan_of(writer: Writer) -> SourcePlan:
    fmt = FORMATS[writer.format]
    own = plan(fmt)
    context = replace(
        own.context,
        options=fmt.options(**writer.options),
        keys_for=lambda database, schema, table: ("id",) if table == KEYED else None,
        needs_no_position=writer.needs_no_position,
    )
    return replace(own, context=context, by_partition=True)


def delivered(writer: Writer, database: Database, draw: Random) -> list[Message]:
    """The messages in the order in which the broker gets them, with what is repeated."""
    partitions = draw.choice((1, 2, 3))

    def placed(one: Sent) -> Message:
        route = one.route.partition(" ")[0] if writer.in_partition else one.route
        return crc32(route.encode()) % partitions, one

    def written(receipt: int) -> list[list[Message]]:
        parts = [writer.write(changes, receipt) for changes in database.transactions]
        whole = [[placed(one) for one in part] for part in parts]
        return whole if writer.pause else [[message] for part in whole for message in part]

    def pause() -> list[Message]:
        """What is between a message and its repeat, where equal rows may follow each other."""
        return [(partition, writer.pause) for partition in range(partitions) if writer.pause]

    parts, found, at = written(0), list[Message](), 0
    restarts = draw.choice((0, 1, 1, 2))
    while at < len(parts):
        found += parts[at]
        at += 1
        if writer.format in BEATS and draw.random() < 0.15:
            found.append((draw.randrange(partitions), draw.choice(BEATS[writer.format])))
        if restarts and draw.random() < 2 / len(parts):
            restarts, at = restarts - 1, draw.randrange(at + 1)
            parts = written(draw.choice((0, 50, 90)))
            found += pause()
        elif draw.random() < 0.1 and not writer.in_partition:
            found += [*pause(), *draw.choice(parts[:at]), *pause()]  # a producer that tries again
    return found


def batches_of(messages: Sequence[Message], draw: Random) -> list[list[pa.RecordBatch]]:
    """Batches of silver, each of some Arrow batches; partitions are read at their own pace."""
    queues: dict[int, list[tuple[int, Sent]]] = {}
    for partition, sent in messages:
        queue = queues.setdefault(partition, [])
        queue.append((len(queue), sent))
    size, found = draw.choice((1, 3, 8, 100)), list[list[pa.RecordBatch]]()
    while any(queues.values()):
        taken: list[tuple[int, int, Sent]] = []
        for partition, queue in queues.items():
            count = draw.randint(0, size)
            taken += [(partition, offset, sent) for offset, sent in queue[:count]]
            del queue[:count]
        if taken:
            found.append(arrow_batches(taken, draw))
    return found


def arrow_batches(messages: Sequence[tuple[int, int, Sent]], draw: Random) -> list[pa.RecordBatch]:
    found, at = [], 0
    while at < len(messages):
        end = at + draw.choice((1, 2, 5, 100))
        rows: list[Any] = [
            ("feed", "shop", partition, offset, None, sent.key, sent.value,
             [{"key": key, "value": value} for key, value in sent.headers] or None, None, None)
            for partition, offset, sent in messages[at:end]
        ]  # fmt: skip
        arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), MESSAGES, strict=True)]
        found.append(pa.RecordBatch.from_arrays(arrays, schema=MESSAGES))
        at = end
    return found


@dataclass
class Feed:
    """A feed drawn from a seed, and what silver makes of it."""

    name: str
    seed: int
    silver: Silver = field(init=False)
    database: Database = field(init=False)
    messages: list[Message] = field(init=False)

    def __post_init__(self) -> None:
        draw, writer = Random(f"{self.name} {self.seed}"), WRITERS[self.name]
        self.database = Database(draw, writer.limits)
        self.database.run(draw.choice((2, 4, 8)))
        self.messages = delivered(writer, self.database, draw)
        self.silver = Silver(plan_of(writer), timedelta(seconds=draw.choice((30, 100_000))))
        for batch in batches_of(self.messages, draw):
            self.silver.take(batch)


@pytest.mark.parametrize("name", WRITERS)
def test_the_changes_make_the_tables_of_the_source(name: str) -> None:
    for seed in range(SEED, SEED + FEEDS):
        feed = Feed(name, seed)
        assert feed.silver.replica() == feed.database.truth, f"MAINSTEM_SEED={seed}"
        assert not feed.silver.waits(), f"MAINSTEM_SEED={seed}"
        refused = {row["reason"] for row in feed.silver.rows if row["kind"] == "quarantined"}
        assert refused <= {"unpaired_before_image"}, f"MAINSTEM_SEED={seed}"


def test_every_format_takes_part() -> None:
    assert {writer.format for writer in WRITERS.values()} == set(FORMATS)
