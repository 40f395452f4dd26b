"""Where a dump belongs: source, table, key, the sequence of its position, and the feed's column types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.events import Column, Token
from framework.contracts.full_loads import epoch_part
from framework.contracts.seed import FROM_A_DUMP, NOTE, SEED, SEEDED, Seed, seed_of_header
from framework.contracts.table_names import CHANGES_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import CHANGES, SCHEMAS
from framework.errors import ConfigurationError, nearest
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.small_files import is_there
from framework.naming import dotted_name
from framework.pipeline.layer import ResolvedSeed, Run, SeedRequest
from framework.pipeline.named_table import parts_of, read_name, refuse_several, with_name
from framework.text.formatting import quantity
from framework.text.positions import position_text
from silver.batches import changes_table
from silver.batches.run_state import RunState
from silver.changes.decode import SourcePlan
from silver.changes.source_plans import source_plans
from silver.epochs.history import read_history
from silver.formats import FORMATS
from silver.values.sequence import after_position, is_sequence, number_part, sequence_of

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)
_FILED = re.compile(r"\S*[^0-9\s:]([0-9]+)((?::[0-9]+)+)", re.ASCII)
_BINLOG = re.compile(r"\bbinlog [0-9]+:[0-9]+\Z")
_LARGE = re.compile(r"\bposition ([0-9]{7,10}):([0-9]+)(?::[0-9]+)*\Z")
"""Two numbers that may be those of a binlog whose files have more than six digits, or an SCN's."""
_NUMBERS = re.compile(r"[0-9]{1,99}(?::[0-9]{1,99})*", re.ASCII)
_Table = tuple[str, str | None, str | None, str]


def resolve_seed(run: Run, request: SeedRequest) -> ResolvedSeed:
    """Resolve a seed request, with notes on what the feed has shown of the table.

    Raises:
        ConfigurationError: The table is excluded, unknown or without a key, or the position is not one.
    """
    state = RunState(run.lake, run.config, source_plans(run.config, FORMATS))
    table = _table(state, run.spark, request)
    source, *name, last = table
    if run.config.settings(source, name[0], name[1], last).exclude:
        raise _error(
            "TABLE_EXCLUDED",
            "the configuration excludes the table",
            request.table,
            "take `exclude` off, or leave the table out",
        )
    stopped = read_history(run.spark, run.lake).stopped_sources().get(source)
    if stopped is not None:
        raise stopped.error()
    settings = run.config.sources[source]
    progress = state.source_progress(run.spark).get(source)
    if progress is not None and progress.sequence is not None:
        refuse_other_shape(request.position, position_text(progress.sequence, settings.format))
    sequence = sequence_at(request.position, settings.epoch)
    changes = run.lake.rows(run.spark, CHANGES_TABLE, CHANGES)
    rows = changes.where(
        changes_table.is_of(source, TableName(name[0], name[1], last)) & (F.col("kind") == "row")
    )
    keys, before, after, seeded = _feed_summary(rows, sequence)
    key = tuple(keys or run.config.settings(source, name[0], name[1], last).keys or ())
    if not key:
        action = (
            "write `keys: […]` for it under `tables:`: without a key,"
            " silver cannot tell which changes belong to a seeded row"
        )
        raise _error("SEED_NEEDS_KEY", "no key of the table is known", request.table, action)
    seed = Seed(source, name[0], name[1], last, sequence, key)
    schemas = run.lake.rows(run.spark, SCHEMAS_TABLE, SCHEMAS)
    columns = tuple(declared_columns(changes, schemas, seed)) if before or after else ()
    return ResolvedSeed(seed, columns, tuple(_notes(before, after, seeded)))


def _notes(before: int, after: int, seeded: int) -> list[str]:
    if not before and not after and not seeded:
        return [
            "no change of this table has been read yet:"
            " types are those of the dump until the feed declares its own"
        ]
    if not before and not after:
        return []
    return [
        f"{quantity(before, 'earlier change')} of the table at or below the position: rows of the dump"
        f" replace what they say of their keys; {quantity(after, 'earlier change')} after it: no effect on"
        " them"
    ]


def _table(state: RunState, spark: SparkSession, request: SeedRequest) -> _Table:
    sources = state.config.sources
    if request.source is not None and request.source not in sources:
        raise _error(
            "UNKNOWN_SOURCE",
            f"no source {request.source!r}",
            "--source",
            f"use one of: {', '.join(sorted(sources))}",
        )
    wanted = sources if request.source is None else (request.source,)
    shown = [
        (p[0], p[1], p[2], p[3]) for p in state.table_progress(spark) if p[3] is not None and p[0] in wanted
    ]
    found = with_name(request.table, shown, lambda p: parts_of(TableName(p[1], p[2], p[3])))
    refuse_several(request.table, (TableName(p[1], p[2], p[3]) for p in found))
    if len(found) == 1:
        return found[0]
    if found or len(wanted) > 1:
        names = ", ".join(sorted({p[0] for p in found} or wanted))
        close = nearest(request.table, [dotted_name(*p[1:]) for p in shown])
        hint = f" (did you mean {close}?)" if close and not found else ""
        raise _error(
            "SOURCE_NEEDED",
            f"the table {request.table!r}{hint}",
            "TABLE",
            f"name its source with --source, one of: {names}",
        )
    parts = read_name(request.table) or ()
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise _error(
            "BAD_TABLE", f"{request.table!r}", "TABLE", "write database.table or database.schema.table"
        )
    return (
        next(iter(wanted)),
        parts[0] if len(parts) > 1 else None,
        parts[1] if len(parts) > 2 else None,
        parts[-1],
    )


def sequence_at(position: str, epoch: int) -> str:
    """The sequence of rows as they were at a position: after all changes at or below it, before all others.

    `epoch` is the newest of the source. Raises ConfigurationError SEED_POSITION if the text is not a
    position, or is one of a later epoch.
    """
    text = position.strip()
    if is_sequence(text) and epoch_part(text) <= number_part(epoch):
        return after_position(text)
    lsn, filed = _LSN.fullmatch(text), _FILED.fullmatch(text)
    if lsn is not None:
        text = str(int(lsn[1], 16) << 32 | int(lsn[2], 16))
    elif filed is not None:
        text = filed[1] + filed[2]
    if _NUMBERS.fullmatch(text) is None:
        raise _error(
            "SEED_POSITION",
            f"{position!r}",
            "--position",
            "write the position's numbers, the most significant first"
            " (4711, binlog.000003:1547, 16/B374D848), or a `sequence` of `status`",
        )
    return after_position(sequence_of(epoch, tuple(map(int, text.split(":"))), None))


def refuse_other_shape(position: str, newest: str) -> None:
    """Raise SEED_POSITION if a position cannot be one of the feed whose newest one is `newest`, as text.

    A number alone would be read as that of a binlog file: all changes would be before it.
    """
    text = position.strip()
    if is_sequence(text):
        return
    is_filed, has_file = _BINLOG.search(newest) is not None, ":" in text
    filed = _FILED.fullmatch(text)
    if is_filed != has_file and (is_filed or (filed is not None and not _is_near(filed[1], newest))):
        raise _error(
            "SEED_POSITION",
            f"{position!r}, where the newest position of the feed is {newest}",
            "--position",
            "write a position as the feed has them"
            + (": the binlog file and the offset in it, as in binlog.000003:1547" if is_filed else ""),
        )


def _is_near(file: str, newest: str) -> bool:
    """Whether a binlog file can be one of a feed whose numbers are large: a dump is not half as old."""
    large = _LARGE.search(newest)
    return large is not None and int(large[2]) > 0 and int(file) * 2 > int(large[1])


def _feed_summary(rows: DataFrame, sequence: str) -> tuple[list[str] | None, int, int, int]:
    """The feed's newest key, its changes up to a sequence and after it, and rows of other seeds."""
    is_fed = ~F.col("reason").eqNullSafe(SEEDED)
    found = rows.agg(
        F.max_by("keys", F.when(F.size("keys") > 0, F.col("sequence"))),
        F.count_if(is_fed & (F.col("sequence") <= sequence)),
        F.count_if(is_fed & (F.col("sequence") > sequence)),
        F.count_if(~is_fed),
    ).first()
    return (None, 0, 0, 0) if found is None else (found[0], found[1], found[2], found[3])


def declared_columns(changes: DataFrame, schemas: DataFrame, seed: Seed) -> dict[str, Column]:
    """The columns as the feed declares them at the seed's position, else after it; seeds do not count.

    Args:
        changes: The changes of the feed.
        schemas: Their schemas, with `schema_id` and `columns`.
        seed: The seed.
    """
    is_its = changes_table.is_of(seed.source, TableName(seed.database, seed.schema, seed.table))
    rows = changes.where(
        is_its
        & (F.col("kind") == "row")
        & F.col("schema_id").isNotNull()
        & ~F.col("reason").eqNullSafe(SEEDED)
    )
    is_before = F.col("sequence") <= seed.sequence
    before = F.max_by("schema_id", F.when(is_before, F.col("sequence")))
    found = rows.agg(F.coalesce(before, F.min_by("schema_id", F.when(~is_before, F.col("sequence"))))).first()
    if found is None or found[0] is None:
        return {}
    columns = schemas.where(F.col("schema_id") == found[0]).select("columns").first()
    return {} if columns is None else {c["name"]: _column(c["type"], c["declared"]) for c in columns[0]}


def _column(kind: str | None, text: str | None) -> Column:
    return Column(type=kind, declared=text) if kind else Column(token=Token.NULL)


def plans_with_seeds(messages: DataFrame, state: RunState) -> Mapping[str, SourcePlan]:
    """The plans for the messages, with the feed's column types for tables whose dumps are among them."""
    plans, found = state.plans_for(messages), state.seed_types
    if found is None:
        found = _seed_types(messages, state.lake)
    return {name: replace(plan, seeds=found) for name, plan in plans.items()} if found else plans


def _seed_types(messages: DataFrame, lake: Lakehouse) -> dict[tuple[object, ...], Mapping[str, Column]]:
    """The feed's column types of the tables whose dumps are among the messages; mostly there are none."""
    spark, seeds = messages.sparkSession, seeds_among(messages, lake)
    if not seeds:
        return {}
    changes, schemas = (
        lake.rows(spark, CHANGES_TABLE, CHANGES),
        lake.rows(spark, SCHEMAS_TABLE, SCHEMAS),
    )
    return {seed.identity: declared_columns(changes, schemas, seed) for seed in seeds}


def seeds_among(messages: DataFrame, lake: Lakehouse) -> list[Seed]:
    """The seeds that have rows among the messages."""
    if not is_there(messages.sparkSession, f"{lake.checkpoints}/{NOTE}"):
        return []
    header = F.filter("headers", lambda h: h["key"] == SEED)[0]["value"]
    headers = (
        messages.where(FROM_A_DUMP)
        .select(header.alias("seed"))
        .where("seed IS NOT NULL")
        .distinct()
        .collect()
    )
    found: list[Seed] = []
    for row in headers:
        with suppress(ValueError):  # the decoder quarantines such a message
            found.append(seed_of_header(bytes(row["seed"])))
    return found


def _error(condition: str, found: str, where: str, action: str) -> ConfigurationError:
    return ConfigurationError(condition, found=found, where=where, action=action)
