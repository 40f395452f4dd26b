"""The state that the batches of one run share: configuration, progress of sources and tables, and counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.batch_ids import BATCH_ID_STEP as BATCH_ID_STEP
from framework.contracts.epochs import EpochRow
from framework.contracts.events import Column
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.seed import SEEDED
from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import CHANGES, SCHEMAS
from framework.lakehouse.lakehouse import Lakehouse, Transaction
from framework.pipeline.failed_tries import FailedTries
from framework.spark.columns import with_one_of
from framework.spark.local_frame import local_frame
from silver.batches import batch_counts, changes_table, pending
from silver.batches.encodings import (
    EncodingRow,
    Encodings,
    append_rows,
    defined_row,
    read_encodings,
    redefined_row,
)
from silver.batches.partition_progress import (
    NO_PROGRESS,
    Partition,
    PartitionProgress,
    append_progress,
    progress_in,
    read_progress,
)
from silver.batches.source_epochs import SourceEpochs, unrecorded_epochs
from silver.batches.source_tops import SourceTops
from silver.batches.table_definitions import known_definitions, plans_with_definitions
from silver.changes.decode import SourcePlan
from silver.changes.readings import Readings
from silver.decoding.table_definitions import EpochPosition, TableDefinition, TableDefinitions, TableKey
from silver.epochs import history as epochs
from silver.epochs import resets
from silver.values.sequence import epoch_position_of

MOST_REMEMBERED = 100_000
"""How many partitions, and how many schemas, a run remembers; it looks others up again."""
_Moment = TypeVar("_Moment", str, datetime)
_Table = tuple[str, str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a source or a table has come: highest sequence, newest event time, newest server.

    `has_unpaired` says that a half was refused because its other half did not come. `streamed` is the highest
    sequence that is not a seed's: the position of a seed is the user's claim, and the feed may be behind it.
    `servers` are those that have written.
    """

    sequence: str | None = None
    event_time: datetime | None = None
    server: str | None = None
    has_unpaired: bool = False
    streamed: str | None = None
    servers: frozenset[str] = frozenset()

    def __or__(self, other: Progress) -> Progress:
        """The progress of both; `other` is the newer one."""
        return Progress(
            later(self.sequence, other.sequence),
            later(self.event_time, other.event_time),
            other.server or self.server,
            self.has_unpaired or other.has_unpaired,
            later(self.streamed, other.streamed),
            self.servers | other.servers,
        )


def later(one: _Moment | None, other: _Moment | None) -> _Moment | None:
    """The greater of two values; None is less than any value."""
    return max((value for value in (one, other) if value is not None), default=None)


@dataclass(slots=True)
class RunState:
    """The state of one run of silver.

    `tables`, `definitions`, `encodings`, `history` and `unrecorded` are None until they are first read.
    `tops` are read with `tables`: how far each source has come, batch by batch. `redefined` are the tables,
    by source, that definitions of the present batch change, with the position from which on. `unrecorded` are
    the newest epochs of sources of which none is recorded. A plan records no epoch that begins (`is_plan`).
    `recorded` are definitions, by source, of which nothing is left to record (`append_definitions`).
    `servers` are those that wrote a source's changes, where they were looked up. `reached` is how far the
    present batch brings its partitions, None where only its commit can say that. `counted_from` is the
    first batch that `silver/changes` holds: rows that were counted before it are lost with an earlier table.
    `raw` are messages that contain those of the batch; a frame of messages without an outcome is empty once
    they have one. `in_order` are sources whose unread messages are known not to show a reset.
    `tries` are the sources that this command has tried to take up again, in vain. `readings` are the settings
    of columns by which rows were read. `seed_types` are the feed's column types of seeded tables, None where
    `silver/changes` has them.
    `files` are files of this machine of which the messages of the present batch are all rows, as URLs.
    """

    lake: Lakehouse
    config: Config
    plans: Mapping[str, SourcePlan]
    schemas: set[str] = field(default_factory=set)
    tables: dict[_Table, Progress] | None = None
    tops: dict[str, SourceTops] = field(default_factory=dict)
    definitions: dict[str, TableDefinitions] | None = None
    recorded: dict[str, TableDefinitions] = field(default_factory=dict)
    servers: dict[str, frozenset[str]] = field(default_factory=dict)
    redefined: dict[tuple[str, TableKey], EpochPosition] = field(default_factory=dict)
    encodings: Encodings | None = None
    has_waiting: bool | None = None
    partitions: dict[Partition, PartitionProgress] = field(default_factory=dict)
    reached: Mapping[Partition, PartitionProgress] | None = None
    newest: int | None = None
    high_offsets: dict[tuple[str, str, int], int] | None = None
    counted_from: int = 0
    raw: DataFrame | None = None
    history: epochs.History | None = None
    unrecorded: Mapping[str, int] | None = None
    is_plan: bool = False
    messages: int = 0
    counts: list[Row] = field(default_factory=list)
    in_order: set[str] = field(default_factory=set)
    files: Sequence[str] | None = None
    tries: FailedTries = field(default_factory=FailedTries)
    readings: Readings = field(default_factory=Readings)
    seed_types: Mapping[tuple[object, ...], Mapping[str, Column]] | None = None

    def transaction(self, step: str, batch: int) -> Transaction | None:
        """The transaction of a batch's write; None for batches between those of the stream."""
        return None if batch % BATCH_ID_STEP else Transaction(f"{self.config.pipeline}/silver/{step}", batch)

    def epoch_history(self, spark: SparkSession) -> epochs.History:
        """The rows of `ops/epochs`, read once until this run appends to them (`append_epochs`)."""
        if self.history is None:
            self.history = epochs.read_history(spark, self.lake)
        return self.history

    def source_epochs(self, spark: SparkSession) -> SourceEpochs:
        """The epochs of the sources that have begun."""
        history = self.epoch_history(spark)
        if self.unrecorded is None:
            self.unrecorded = unrecorded_epochs(spark, self.lake, self.config, history)
        return SourceEpochs(self.config, history, self.unrecorded)

    def append_epochs(self, spark: SparkSession, rows: Iterable[EpochRow]) -> None:
        """Append those of the rows to `ops/epochs` that it does not hold.

        A batch that is repeated appends nothing, unless its rows differ: the configuration may have changed.
        """
        known = set(self.epoch_history(spark).rows)
        new = [row for row in dict.fromkeys(rows) if row not in known]
        if new and self.is_plan:
            self.history = epochs.History((*self.epoch_history(spark).rows, *new))
        elif new:
            self.history = None  # before the write: an error may come after its commit
            epochs.append_rows(spark, self.lake, new)

    def new_schemas(self, spark: SparkSession, ids: Collection[str]) -> set[str]:
        """Those of the ids that `silver/schemas` does not hold."""
        unknown = set(ids) - self.schemas
        if unknown:
            stored = self.lake.rows(spark, SCHEMAS_TABLE, SCHEMAS).select("schema_id")
            known = {row[0] for row in with_one_of(stored, "schema_id", unknown).collect()}
            self._remember(known)
            unknown -= known
        return unknown

    def append_schemas(self, staged: DataFrame, ids: Collection[str], batch: int) -> None:
        """Add those schemas of decoded rows to `silver/schemas` that it does not hold."""
        new = self.new_schemas(staged.sparkSession, ids)
        changes_table.append_schemas(self.lake, staged, new, batch)
        self._remember(new)

    def _remember(self, schemas: set[str]) -> None:
        self.schemas = schemas | (self.schemas if len(self.schemas) < MOST_REMEMBERED else set())

    def has_pending(self, spark: SparkSession) -> bool:
        """Whether halves wait; read again where a batch may have changed it (`has_waiting` is None)."""
        if self.has_waiting is None:
            self.has_waiting = pending.has_pending(spark, self.lake)
        return self.has_waiting

    def plans_for(self, messages: DataFrame) -> Mapping[str, SourcePlan]:
        """The plans for decoding these messages, with table definitions from them and from earlier ones."""
        known = self.known_encodings(messages.sparkSession)
        if self.definitions is None:
            self.definitions = known_definitions(messages.sparkSession, self.lake, self.plans)
            for source, more in known.definitions().items():
                if source in self.plans:
                    self.definitions[source] = self.definitions.get(source, TableDefinitions()) | more
        plans = {name: known.plan(plan) for name, plan in self.plans.items()}
        return plans_with_definitions(messages, plans, self.definitions, self.redefined)

    def late_definitions(self, spark: SparkSession, batch: int) -> list[EncodingRow]:
        """The rows of `ops/encodings` on tables that this batch defines after rows of earlier batches."""
        changed, self.redefined = self.redefined, {}
        shown = self.table_progress(spark) if changed else {}
        return [
            redefined_row(source, table, since, batch)
            for (source, table), since in changed.items()
            if (top := shown.get((source, *table), Progress()).sequence) and since <= epoch_position_of(top)
        ]

    def forget_shown(self) -> None:
        """Forget what messages have shown of tables and encodings: what is recorded of it is read again.

        Messages that get no outcome now may belong to another epoch when they are decoded again.
        """
        self.definitions = self.encodings = None
        self.redefined = {}

    def append_definitions(self, spark: SparkSession, batch: int) -> None:
        """Record definitions of excluded tables, which no statement records."""
        known = self.known_encodings(spark)
        more = {
            source: definitions
            for source, definitions in (self.definitions or {}).items()
            if self.recorded.get(source) is not definitions
        }
        before = known.definitions() if more else {}
        new = [
            defined_row(source, definition, batch)
            for source, definitions in more.items()
            for table, every in definitions.tables.items()
            if self.plans[source].is_excluded(table[0], table[1], table[2] or "")
            for definition in _without(every, before.get(source, TableDefinitions()).tables.get(table, ()))
        ]
        if new:
            append_rows(spark, self.lake, new)
            self.encodings = Encodings((*known.rows, *new))
        self.recorded.update(more)

    def known_encodings(self, spark: SparkSession) -> Encodings:
        """What is known of how sources write values and halves; empty where no format leaves that open."""
        if self.encodings is None:
            is_open = any(plan.format.modes or plan.format.halves for plan in self.plans.values())
            self.encodings = read_encodings(spark, self.lake) if is_open else Encodings()
        return self.encodings

    def table_progress(self, spark: SparkSession) -> dict[_Table, Progress]:
        """How far each table has come in the earlier batches; messages without a table count under None."""
        if self.tables is None:
            counts = self.lake.rows(spark, BATCHES_TABLE, batch_counts.COUNTS_SCHEMA).where(
                F.col("batch") >= self.counted_from
            )
            is_unpaired = F.coalesce(F.col("reason") == str(Reason.UNPAIRED_BEFORE_IMAGE), F.lit(False))
            is_fed = ~F.col("reason").eqNullSafe(SEEDED)
            server = F.max_by("server", F.when(F.col("server").isNotNull(), F.col("batch")))
            found = counts.groupBy("source", "database", "schema", "table").agg(
                F.max("max_sequence"), F.max("max_event_time"), server, F.max(is_unpaired),
                F.max(F.when(is_fed, F.col("max_sequence"))),
                F.collect_set("server"),
            )  # fmt: skip
            rows = found.collect()
            self.tables = {
                (row[0], row[1], row[2], row[3]): Progress(
                    row[4], row[5], row[6], row[7], row[8], frozenset(row[9])
                )
                for row in rows
            }
            self.tops = tops_before(self.tables)
        return self.tables

    def source_progress(self, spark: SparkSession) -> dict[str, Progress]:
        """How far each source has come in the earlier batches."""
        found: dict[str, Progress] = {}
        for (source, *_), shown in self.table_progress(spark).items():
            found[source] = found.get(source, Progress()) | shown
        return found

    def partition_progress(
        self, spark: SparkSession, wanted: Collection[Partition]
    ) -> dict[Partition, PartitionProgress]:
        """How far partitions that are ordered by offsets have come, those in `wanted` among them.

        Only partitions that a batch has messages of are read.
        """
        unknown = [partition for partition in wanted if partition not in self.partitions]
        found = read_progress(spark, self.lake, CHANGES_TABLE, unknown)
        self.partitions.update(dict.fromkeys(unknown, NO_PROGRESS) | found)
        return self.partitions

    def save_partition_progress(self, spark: SparkSession, batch: int) -> None:
        """Save how far a committed batch has brought the partitions that are ordered by offsets."""
        reached, self.reached = self.reached, None
        changes = self.lake.rows(spark, CHANGES_TABLE, CHANGES)
        if reached is None:
            ordered = [name for name, plan in self.plans.items() if plan.by_partition]
            mine = changes.where((F.col("batch") == batch) & F.col("source").isin(*ordered))
            reached = progress_in(mine) if ordered else {}
        if not reached:
            return
        append_progress(self.lake, changes, batch, reached, self.transaction("partitions", batch))
        if len(self.partitions) > MOST_REMEMBERED:
            self.partitions.clear()
        for partition in reached.keys() & self.partitions.keys():
            self.partitions[partition] |= reached[partition]

    def first_batch_from(self, lowest: Mapping[str, str]) -> int:
        """The first batch that can have a change of these sources at or above their sequence."""
        found = [
            self.tops[name].first_from(low) if name in self.tops else None for name, low in lowest.items()
        ]
        return min((first or 0 for first in found), default=0)

    def extents(self, spark: SparkSession, sources: Collection[str]) -> DataFrame:
        """The progress of the tables of these sources (EXTENTS)."""
        return local_frame(spark, cast(Any, self.extent_rows(spark, sources)), resets.EXTENTS)

    def extent_rows(self, spark: SparkSession, sources: Collection[str]) -> list[tuple[Any, ...]]:
        """The rows of `extents`."""
        looked_up = {source: self.servers.get(source, frozenset()) for source in sources}
        return [
            (*table, s.streamed, s.event_time, s.server, sorted(s.servers | looked_up[table[0]]))
            for table, s in self.table_progress(spark).items()
            if table[0] in sources
        ]

    def stop_points(self, rows: DataFrame, waits: Mapping[str, timedelta]) -> list[resets.StopPoint]:
        """The stops in a batch of outcomes that are not halves.

        `ops/batches` has only the newest server of a table in each batch. So all servers of the source's
        earlier changes are looked up before a server stops it.
        """
        spark = rows.sparkSession
        found = resets.find_stop_points(rows, self.extents(spark, waits), waits)
        changed = {stop.source for stop in found if stop.reason == resets.SERVER_CHANGED}
        if changed <= self.servers.keys():
            return found
        self.servers = dict.fromkeys(changed, frozenset[str]()) | self.servers | self._servers(spark, changed)
        return resets.find_stop_points(rows, self.extents(spark, waits), waits)

    def _servers(self, spark: SparkSession, sources: Collection[str]) -> dict[str, frozenset[str]]:
        """All servers that have written the changes of these sources."""
        changes = self.lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("source").isin(*sources))
        found = changes.groupBy("source").agg(F.collect_set("server")).collect()
        return {source: frozenset(servers) for source, servers in found}

    def note(self, counts: Sequence[Row], messages: int) -> None:
        """Add the counts of a batch to the state."""
        self.messages += messages
        self.counts.extend(counts)
        if self.newest is not None:
            self.newest = max([self.newest, *(row["batch"] for row in counts)])
        if self.tables is None:
            return
        for row in counts:
            table = (row["source"], row["database"], row["schema"], row["table"])
            is_unpaired = row["reason"] == Reason.UNPAIRED_BEFORE_IMAGE
            streamed = None if row["reason"] == SEEDED else row["max_sequence"]
            server = row["server"]
            servers = frozenset({server} if server else ())
            new = Progress(row["max_sequence"], row["max_event_time"], server, is_unpaired, streamed, servers)
            self.tables[table] = self.tables.get(table, Progress()) | new
            if row["max_sequence"] is not None:
                self.tops.setdefault(row["source"], SourceTops()).note(row["batch"], row["max_sequence"])


def _without(
    definitions: Iterable[TableDefinition], known: Iterable[TableDefinition]
) -> list[TableDefinition]:
    """The definitions that are not among the known ones."""
    found = set(known)
    return [one for one in definitions if one not in found]


def tops_before(tables: Mapping[_Table, Progress]) -> dict[str, SourceTops]:
    """How far sources have come in batches that are not known one by one, by the progress of their tables."""
    found: dict[str, SourceTops] = {}
    for (source, *_), shown in tables.items():
        tops = found.setdefault(source, SourceTops())
        tops.before = max(tops.before, shown.sequence or "")
    return found
