"""From decoded rows to outcomes: which rows are duplicates, and which halves form one update.

All functions take and return DataFrames; none reads or writes tables. `silver/batches/decisions.py` decides
from a summary which of these steps a batch needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.quarantine_reasons import Reason
from framework.spark.columns import by_source
from silver.batches.duplicate_groups import IS_NEW, TABLE, DuplicateGroups, split_groups, table_key
from silver.batches.known_runs import (
    EarlierOutcomes,
    messages_of,
    with_images_of_repeated,
    with_own_positions,
    with_runs,
)
from silver.changes.batch_summary import IDENTIFIED
from silver.changes.deduplication import deduplicate_groups
from silver.changes.grouping import Batches
from silver.changes.pairing import KNOWN, NEW, PENDING, REFUSED, REPEATED, pair_groups
from silver.changes.staged_rows import STAGED, STAGED_DDL

FEW = 100_000
"""Up to this number, the ids of duplicates are broadcast; for more, the rows are shuffled."""
FEW_HALVES = 1_000
"""Up to this number of halves that found no partner while decoding, a query names their positions."""
UNPAIRED = f"kind = 'quarantined' AND reason = '{Reason.UNPAIRED_BEFORE_IMAGE}'"
"""BEFORE halves that were refused because their other half did not come in time; it may still come."""


def coordinates() -> Column:
    """A change's coordinates as one sortable value; messages after a restart of the offsets come last."""
    return F.struct(F.coalesce("restart", F.lit(0)), "topic", "partition", "offset", "ordinal")


def staged_columns(frame: DataFrame) -> DataFrame:
    """The columns of STAGED from rows of `silver/changes` or `silver/pending`; missing ones are null."""
    have = set(frame.columns)
    texts = dict.fromkeys(("position", "columns", "evidence", "committed", "earliest"), "string")
    numbers = dict.fromkeys(("block", "run", "run_end"), "bigint")
    types = {**texts, **numbers, "restart": "int", "epoch": "int"}
    blank = {name: F.lit(None).cast(kind) for name, kind in types.items()}
    return frame.select(
        *(F.col(f"`{name}`") if name in have else blank[name].alias(name) for name in STAGED.names)
    )


def duplicate_ids(staged: DataFrame, known: DataFrame | None) -> DataFrame:
    """The ids of changes that occur more than once.

    Args:
        staged: Decoded rows.
        known: Earlier changes that may have the same ids, or None. A released half is not a whole change yet.

    Returns:
        `change_id` and `first`, the first coordinates in this batch. `first` is null where an earlier batch
        has the change: then every row of this batch with the id is a duplicate.
    """
    mine = staged.where(F.col("half").isNull() & F.col("kind").isin(*IDENTIFIED)).select(
        "change_id", coordinates().alias("at")
    )
    counted = mine.groupBy("change_id").agg(F.min("at").alias("first"), F.count("*").alias("n"))
    if known is None:
        return counted.where("n > 1").select("change_id", "first")
    earlier = (
        known.where(F.col("half").isNull()).select("change_id").distinct().withColumn("is_known", F.lit(True))
    )
    marked = counted.join(earlier, "change_id", "left").where(F.col("n").__gt__(1) | F.col("is_known"))
    return marked.select("change_id", F.when(F.col("is_known").isNull(), F.col("first")).alias("first"))


def mark_duplicates(staged: DataFrame, repeats: DataFrame) -> DataFrame:
    """Give rows that duplicate an earlier change the kind `duplicate`, without images."""
    marks = repeats.select("change_id", "first", F.lit(True).alias("is_repeated"))
    joined = staged.join(marks, "change_id", "left")
    is_candidate = (
        F.coalesce(F.col("is_repeated"), F.lit(False))
        & F.col("half").isNull()
        & F.col("kind").isin(*IDENTIFIED)
    )
    rest = joined.where(~is_candidate).select(*(F.col(f"`{n}`") for n in STAGED.names))
    nth = F.row_number().over(Window.partitionBy("change_id").orderBy(coordinates()))
    numbered = joined.where(is_candidate).withColumn("_is_duplicate", F.col("first").isNull() | (nth > 1))
    changed = {
        "kind": F.when(F.col("_is_duplicate"), F.lit("duplicate")).otherwise(F.col("kind")),
        "before": F.when(~F.col("_is_duplicate"), F.col("before")),
        "after": F.when(~F.col("_is_duplicate"), F.col("after")),
    }
    return rest.unionByName(
        numbered.select(*(changed[n].alias(n) if n in changed else F.col(f"`{n}`") for n in STAGED.names))
    )


def forgotten_ids(changes: DataFrame) -> DataFrame:
    """The ids of the changes that `forget` has emptied; `changes` are all of `silver/changes`."""
    return changes.where((F.col("kind") == "excluded") & (F.col("reason") == FORGOTTEN)).select("change_id")


def exclude_forgotten(rows: DataFrame, emptied: DataFrame) -> DataFrame:
    """Exclude new deliveries of changes that `forget` has emptied, from `forgotten_ids`."""
    emptied = emptied.distinct().withColumn("_is_emptied", F.lit(True))
    joined = rows.join(emptied, "change_id", "left")
    is_again = F.coalesce(F.col("_is_emptied"), F.lit(False)) & (F.col("kind") == "row")
    changed = {
        "kind": F.lit("excluded"),
        "reason": F.lit(FORGOTTEN),
        "before": F.lit(None),
        "after": F.lit(None),
    }
    return joined.select(
        *(
            F.when(is_again, changed[n]).otherwise(F.col(n)).alias(n) if n in changed else F.col(f"`{n}`")
            for n in rows.columns
        )
    )


def has_ambiguous_position() -> Column:
    """Whether a position does not identify its change: it is only a time, or a snapshot row has none.

    Nor does the feed identify the change in another way (`earliest`).
    """
    is_place = F.col("sequence").eqNullSafe(F.col("position")) | F.col("earliest").isNotNull()
    return (F.col("kind") == "row") & F.col("half").isNull() & ~is_place


def deduplicate_ambiguous(
    whole: DataFrame,
    repeats: DataFrame,
    history: EarlierOutcomes,
    *,
    are_few: bool,
    in_partitions: bool = False,
) -> tuple[DataFrame, DataFrame]:
    """Resolve duplicates among the rows that are `has_ambiguous_position`.

    The other ones show which messages are of one record.

    Returns:
        Of these rows, those of groups without duplicates, unchanged, and the outcomes of the others.
    """
    every = whole.where(has_ambiguous_position()).withColumn("origin", F.lit(NEW))
    messages = messages_of(whole)
    if history.changes is not None:
        known = staged_columns(with_own_positions(history.changes.where("kind = 'row'")))
        every = every.unionByName(known.withColumn("origin", F.lit(KNOWN)))
    groups = DuplicateGroups(every, repeats.select("change_id"), are_few, in_partitions)
    members = groups.members()
    if history.outcomes is not None:
        outcomes = with_own_positions(history.outcomes)
        messages = messages.unionByName(messages_of(outcomes))
        repeated = staged_columns(outcomes.where("kind = 'duplicate' AND NOT is_replaced"))
        repeated = with_images_of_repeated(repeated, members.where(IS_NEW), are_few=are_few)
        repeated = groups.among(repeated.withColumn("origin", F.lit(REPEATED)))
        members = members.unionByName(repeated.select(members.columns))
    members = with_runs(members, messages, are_few=are_few)
    return groups.rest(), _apply_to_groups(split_groups(members), deduplicate_groups)


def pair_halves(
    staged: DataFrame,
    pending: DataFrame,
    known: DataFrame | None,
    deadlines: Mapping[str, datetime | None],
    shared: Collection[str] = (),
) -> DataFrame:
    """The outcomes of this batch's halves, and of waiting halves that have a partner now or are overdue.

    `shared` are sources whose earlier batches have shown that several updates can have one position.

    Most halves are paired while they are decoded. Where few are left, a small job looks for their positions,
    so that the updates of all other positions are neither grouped nor shuffled.
    """
    halves = staged.where("half is not null")
    updates = staged.where("half is null and kind = 'row' and op = 'update'")
    waiting = staged_columns(pending)
    few = _few_open_halves(halves.unionByName(waiting))
    grouped = (rows.withColumn("_group", table_key("sequence")) for rows in (halves, updates, waiting))
    halves, updates, waiting = grouped
    all_updates = updates
    if few is not None:
        updates = updates.where(F.col("sequence").isin(list(few.sequences)))
    halves = halves.withColumn("origin", F.lit(NEW))
    updates = updates.withColumn("origin", F.lit(KNOWN))
    waiting = waiting.withColumn("origin", F.lit(PENDING))
    touched = halves.select("_group").unionByName(updates.select("_group")).distinct()
    overdue = F.col("event_time") < deadline_of(deadlines)
    met = waiting.join(touched.withColumn("is_touched", F.lit(True)), "_group", "left").where(
        F.col("is_touched") | overdue
    )
    open_halves = halves.unionByName(met.select(halves.columns))
    places = open_halves.select("_group").distinct()
    members = open_halves.unionByName(updates.join(places, "_group", "left_semi").select(halves.columns))
    if known is not None:
        earlier = (
            staged_columns(known.where("kind = 'row'"))
            .withColumn("_group", table_key("sequence"))
            .withColumn("origin", F.lit(KNOWN))
        )
        earlier = earlier.join(places, "_group", "left_semi").select(halves.columns)
        members = members.unionByName(earlier)
        refused = (
            staged_columns(known.where(UNPAIRED))
            .withColumn("_group", table_key("sequence"))
            .withColumn("origin", F.lit(REFUSED))
        )
        members = members.unionByName(refused.join(places, "_group", "left_semi").select(halves.columns))
    every = halves.unionByName(all_updates.withColumn("origin", F.lit(KNOWN))).unionByName(waiting)
    if few is not None and known is None:
        every = every.where(F.col("source").isin(sorted(few.sources_with_two_keys)))
    if known is not None:
        every = every.unionByName(earlier.where("op = 'update'"))
    members = members.join(F.broadcast(_sources_with_shared_positions(every)), "source", "left")
    is_shared = F.coalesce("is_shared", F.col("source").isin(sorted(shared)))
    members = members.withColumn("is_shared", is_shared)
    return _apply_to_groups(members.withColumn("deadline", deadline_of(deadlines)), pair_groups)


@dataclass(frozen=True, slots=True)
class _OpenHalves:
    """The positions of open halves, and the sources in which halves of one position have different keys."""

    sequences: frozenset[str]
    sources_with_two_keys: frozenset[str]


def _few_open_halves(halves: DataFrame) -> _OpenHalves | None:
    """What is known of the halves (STAGED); None if there are more than FEW_HALVES."""
    image = F.when(F.col("after").isNull(), F.col("before")).otherwise(F.col("after"))
    key = F.transform("keys", lambda name: F.try_element_at(image, name))
    rows = halves.select(*TABLE, "sequence", key.alias("key")).limit(FEW_HALVES + 1).collect()
    if len(rows) > FEW_HALVES:
        return None
    keys_by_position: dict[tuple[str | None, ...], set[tuple[str | None, ...]]] = {}
    for *position, key_of_half in rows:
        keys_by_position.setdefault(tuple(position), set()).add(tuple(key_of_half or ()))
    two_keys = (position[0] for position, keys in keys_by_position.items() if len(keys) > 1)
    return _OpenHalves(
        frozenset(row["sequence"] for row in rows),
        frozenset(source for source in two_keys if source is not None),
    )


def _sources_with_shared_positions(rows: DataFrame) -> DataFrame:
    """The sources of which several updates of a table share a position: `source`, `is_shared` (true).

    Args:
        rows: Halves and whole updates (STAGED) with `_group`, a position of a table.
    """
    is_before = F.col("half").eqNullSafe(F.lit("before"))
    sides = {"before": is_before, "after": ~is_before}
    ends = [
        end(F.when(side, F.col("change_id"))).alias(f"{name}_{end.__name__}")
        for name, side in sides.items()
        for end in (F.min, F.max)
    ]
    several = (
        rows.groupBy("source", "_group")
        .agg(*ends)
        .where("before_min <> before_max or after_min <> after_max")
    )
    return several.select("source").distinct().withColumn("is_shared", F.lit(True))


def deadline_of(deadlines: Mapping[str, datetime | None]) -> Column:
    """The deadline of a row's source; null if it has none."""
    moments = {source: F.lit(end) for source, end in deadlines.items() if end is not None}
    return by_source(moments, F.lit(None).cast("timestamp"))


def resolve_duplicates(
    whole: DataFrame,
    repeats: DataFrame,
    history: EarlierOutcomes,
    open_rows: int,
    *,
    in_partitions: bool = False,
) -> DataFrame:
    """Mark the rows that duplicate others.

    Args:
        whole: Decoded rows that are not halves.
        repeats: The result of `duplicate_ids`.
        history: What is known of earlier messages.
        open_rows: How many of the rows are `has_ambiguous_position`.
        in_partitions: Whether rows are ordered by their partition.
    """
    number = repeats.count()
    if not number:
        return whole
    are_few = number <= FEW
    repeats = F.broadcast(repeats) if are_few else repeats
    if not open_rows:
        return mark_duplicates(whole, repeats)
    rest, settled = deduplicate_ambiguous(
        whole, repeats, history, are_few=are_few, in_partitions=in_partitions
    )
    certain = whole.where(~has_ambiguous_position())
    return mark_duplicates(certain, repeats).unionByName(rest).unionByName(settled)


def is_from(lowest: Mapping[str, str]) -> Column:
    """Whether a row has one of these sources, and no sequence below that of its source.

    The conditions on plain columns let Delta skip files.
    """
    own = by_source(
        {source: F.lit(sequence) for source, sequence in lowest.items()}, F.lit(None).cast("string")
    )
    is_near = F.col("source").isin(*lowest) & (F.col("sequence") >= min(lowest.values()))
    return is_near & (F.col("sequence") >= own)


def _apply_to_groups(members: DataFrame, places: Callable[[Batches], Iterator[pa.RecordBatch]]) -> DataFrame:
    """The outcomes of the members (STAGED, `_group` and more), group by group, by a `mapInArrow` function."""
    return members.repartition("_group").sortWithinPartitions("_group").mapInArrow(places, STAGED_DDL)
