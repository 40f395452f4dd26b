"""What the batches of one run share: configuration, how far each source and table has come, what was counted."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.config_rules import TableRules
from framework.contracts.reasons import Reason
from framework.contracts.seed import SEEDED
from framework.contracts.tables import SCHEMAS
from framework.tables import Lakehouse, Transaction
from silver import derived
from silver.definitions import known_definitions, plans_with_definitions
from silver.format import Context, Given, Options
from silver.formats import FORMATS
from silver.normalize import SourcePlan
from silver.structures import Structures

STRIDE = 1_000
"""Batches of the stream are numbered in steps of this; between them is room for messages that are taken up again."""
MAX_MESSAGE_BYTES = 512 * 1024 * 1024
_Moment = TypeVar("_Moment", str, datetime)
_Table = tuple[str, str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Shown:
    """How far a source or a table has come: highest sequence, newest event time, newest server.

    `has_unpaired` tells that a half was refused for want of a partner; `streamed` is the highest sequence that is no
    seed's: a seed's position is a claim of the user, and the feed may well be behind it.
    """

    sequence: str | None = None
    event_time: datetime | None = None
    server: str | None = None
    has_unpaired: bool = False
    streamed: str | None = None

    def __or__(self, other: Shown) -> Shown:
        """Both together, `other` being the newer."""
        return Shown(
            later(self.sequence, other.sequence),
            later(self.event_time, other.event_time),
            other.server or self.server,
            self.has_unpaired or other.has_unpaired,
            later(self.streamed, other.streamed),
        )


def later(one: _Moment | None, other: _Moment | None) -> _Moment | None:
    """The greater of two, a null being less than anything."""
    return max((value for value in (one, other) if value is not None), default=None)


@dataclass(slots=True)
class Desk:
    """The state of one run of silver. `schemas`, `tables` and `definitions` are read when they are first asked for."""

    lake: Lakehouse
    config: Config
    plans: Mapping[str, SourcePlan]
    schemas: set[str] | None = None
    tables: dict[_Table, Shown] | None = None
    definitions: dict[str, Structures] | None = None
    has_waiting: bool | None = None
    messages: int = 0
    counts: list[Row] = field(default_factory=list)

    def transaction(self, step: str, batch: int) -> Transaction | None:
        """The mark of a write of one batch; none for a batch between those of the stream, whose number is taken when it succeeds."""
        return None if batch % STRIDE else Transaction(f"{self.config.pipeline}/silver/{step}", batch)

    def known_schemas(self, spark: SparkSession) -> set[str]:
        """The ids that `silver/schemas` holds."""
        if self.schemas is None:
            self.schemas = {row[0] for row in self.lake.rows(spark, derived.SCHEMAS_TABLE, SCHEMAS).select("schema_id").collect()}
        return self.schemas

    def has_pending(self, spark: SparkSession) -> bool:
        """Whether halves wait for their partners. Looked up again when a batch has changed it (`has_waiting` is None then)."""
        if self.has_waiting is None:
            self.has_waiting = derived.has_pending(spark, self.lake)
        return self.has_waiting

    def plans_for(self, messages: DataFrame) -> Mapping[str, SourcePlan]:
        """The plans for decoding these messages, with what they and earlier ones define of tables."""
        if self.definitions is None:
            self.definitions = known_definitions(messages.sparkSession, self.lake, self.plans)
        return plans_with_definitions(messages, self.plans, self.definitions)

    def shown_tables(self, spark: SparkSession) -> dict[_Table, Shown]:
        """How far each table has come in the batches before; messages without a table count under null."""
        if self.tables is None:
            counts = self.lake.rows(spark, derived.COUNTS_TABLE, derived.COUNTS_SCHEMA)
            is_unpaired = F.coalesce(F.col("reason") == str(Reason.UNPAIRED_BEFORE_IMAGE), F.lit(False))
            is_fed = ~F.col("reason").eqNullSafe(SEEDED)
            server = F.max_by("server", F.when(F.col("server").isNotNull(), F.col("batch")))
            found = counts.groupBy("source", "database", "schema", "table").agg(
                F.max("max_sequence"), F.max("max_event_time"), server, F.max(is_unpaired), F.max(F.when(is_fed, F.col("max_sequence")))
            )
            self.tables = {(row[0], row[1], row[2], row[3]): Shown(*row[4:]) for row in found.collect()}
        return self.tables

    def shown_sources(self, spark: SparkSession) -> dict[str, Shown]:
        """How far each source has come in the batches before."""
        found: dict[str, Shown] = {}
        for (source, *_), shown in self.shown_tables(spark).items():
            found[source] = found.get(source, Shown()) | shown
        return found

    def extents(self, spark: SparkSession, sources: Sequence[str], schema: str) -> DataFrame:
        """How far the tables of these sources have come, as rows."""
        rows = [(*table, s.streamed, s.event_time, s.server) for table, s in self.shown_tables(spark).items() if table[0] in sources]
        return spark.createDataFrame(cast(Any, rows), schema)

    def note(self, counts: Sequence[Row], messages: int) -> None:
        """Remember what a batch held."""
        self.messages += messages
        self.counts.extend(counts)
        if self.tables is None:
            return
        for row in counts:
            table = (row["source"], row["database"], row["schema"], row["table"])
            is_unpaired = row["reason"] == Reason.UNPAIRED_BEFORE_IMAGE
            streamed = None if row["reason"] == SEEDED else row["max_sequence"]
            new = Shown(row["max_sequence"], row["max_event_time"], row["server"], is_unpaired, streamed)
            self.tables[table] = self.tables.get(table, Shown()) | new


def source_plans(config: Config) -> dict[str, SourcePlan]:
    """What the decoding tasks know of each source."""
    plans, rules = {}, config.rules
    for name, source in config.sources.items():
        context = Context(
            source=name,
            options=cast(Options, source.options),
            timezone=source.timezone,
            keys_of=functools.partial(_keys_of, rules),
            codecs_of=functools.partial(_codecs_of, rules),
            given_of=functools.partial(_given_of, rules),
        )
        is_excluded = functools.partial(_is_excluded, rules)
        plans[name] = SourcePlan(FORMATS[source.format], context, source.epoch, is_excluded, MAX_MESSAGE_BYTES)
    return plans


def _keys_of(rules: TableRules, database: str | None, schema: str | None, table: str) -> tuple[str, ...] | None:
    return rules.settings(database, schema, table).keys


def _codecs_of(rules: TableRules, database: str | None, schema: str | None, table: str) -> dict[str, str]:
    columns = rules.settings(database, schema, table).columns
    return {name: column.decode for name, column in columns.items() if column.decode}


def _given_of(rules: TableRules, database: str | None, schema: str | None, table: str) -> dict[str, Given]:
    columns = rules.settings(database, schema, table).columns
    return {name: Given(c.type, c.encoding, bool(c.unsigned)) for name, c in columns.items() if not c.decode}


def _is_excluded(rules: TableRules, database: str | None, schema: str | None, table: str) -> bool:
    return rules.settings(database, schema, table).exclude
