"""The outcomes of a few rows, decided in this process: Spark's jobs cost more than they do.

The steps are those of `silver/batches/outcomes.py`, and the same functions of `silver/changes` decide. Where
they would need more of the earlier changes than this process should hold, Spark takes the steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import PENDING_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.recent_rows import rows_above
from framework.spark.local_frame import arrow_frame
from silver.batches.outcomes import UNPAIRED, staged_columns
from silver.changes.batch_summary import IDENTIFIED
from silver.changes.grouping import decide_group
from silver.changes.pairing import KNOWN, NEW, PENDING, REFUSED, own_key, pair
from silver.changes.staged_rows import (
    STAGED,
    Row,
    as_duplicate,
    column_values,
    plain_rows,
    staged_batches,
    staged_table,
)

MOST_ROWS, MOST_BYTES = 20_000, 16 * 1024 * 1024
"""Up to so many rows, and bytes in them, are few."""
MOST_EARLIER = 1_000
"""Up to so many waiting halves, and changes at the positions of open halves, are read into this process."""
IS_UNPAIRED = (pc.field("kind") == "quarantined") & (pc.field("reason") == str(Reason.UNPAIRED_BEFORE_IMAGE))
"""BEFORE halves that were refused (`outcomes.UNPAIRED`), for Arrow."""
_PLACE = ("source", "database", "schema", "table", "sequence")
_ORDER = ("topic", "partition", "offset", "ordinal")
_Place = tuple[str | None, ...]


def are_few(rows: pa.Table) -> bool:
    """Whether decoded rows are few."""
    return rows.num_rows <= MOST_ROWS and rows.nbytes <= MOST_BYTES


def mark_duplicates(whole: pa.Table, history: pa.Table | DataFrame | None) -> pa.Table | None:
    """Give rows that duplicate an earlier change the kind `duplicate`, without images.

    Args:
        whole: Decoded rows (STAGED) that are not halves.
        history: Earlier changes that may have the same ids (CHANGES), of this process or Spark, or None.

    Returns:
        All of the rows; None where a row has a double and a position that does not identify its change.
    """
    named = ("change_id", "kind", "restart", *_ORDER)
    places: dict[str, list[tuple[Any, ...]]] = {}
    for at, (change_id, kind, restart, *order) in enumerate(column_values(whole, *named)):
        if kind in IDENTIFIED:
            first_nulls = tuple((value is not None, value) for value in order)
            places.setdefault(change_id, []).append((restart or 0, first_nulls, at))
    known = _known_ids(history, places) if history is not None else frozenset()
    doubles = {
        change_id: [at for *_, at in sorted(found)]
        for change_id, found in places.items()
        if len(found) > 1 or change_id in known
    }
    members = [at for found in doubles.values() for at in found]
    rows = dict(zip(members, _rows_at(whole, members), strict=True))
    if any(map(_is_ambiguous, rows.values())):
        return None
    again = [at for change_id, found in doubles.items() for at in found[change_id not in known :]]
    if not again:
        return whole
    is_again = pc.is_in(pa.array(range(whole.num_rows)), value_set=pa.array(again))
    duplicates = staged_table(as_duplicate(rows[at]) for at in again)
    return pa.concat_tables([whole.filter(pc.invert(is_again)), duplicates])


def _known_ids(history: pa.Table | DataFrame, ids: Iterable[str]) -> frozenset[str]:
    """Those of the ids that earlier whole changes have."""
    if isinstance(history, pa.Table):
        of_whole = history.filter(pc.is_null(history.column("half"))).column("change_id")
        return frozenset(ids).intersection(of_whole.to_pylist())
    wanted = arrow_frame(
        history.sparkSession, pa.table({"change_id": pa.array(ids, pa.string())}), "change_id string"
    )
    whole = history.where(F.col("half").isNull())
    found = whole.join(F.broadcast(wanted), "change_id", "left_semi").select("change_id").collect()
    return frozenset(row[0] for row in found)


def _is_ambiguous(row: Row) -> bool:
    """Whether the row's position does not identify its change (`outcomes.has_ambiguous_position`)."""
    return row["kind"] == "row" and row["sequence"] != row["position"] and row["earliest"] is None


def waiting_halves(spark: SparkSession, lake: Lakehouse) -> pa.Table | None:
    """The halves that wait (CHANGES); None if they are many."""
    few = rows_above(lake, PENDING_TABLE, ("batch", -1), CHANGES, (MOST_EARLIER, MOST_BYTES))
    if few is None:
        few = lake.rows(spark, PENDING_TABLE, CHANGES).limit(MOST_EARLIER + 1).toArrow()
    return few if few.num_rows <= MOST_EARLIER else None


def pair_halves(
    rows: pa.Table,
    waiting: pa.Table | None,
    history: pa.Table | DataFrame | None,
    deadlines: Mapping[str, datetime | None],
    shared: Collection[str],
) -> pa.Table | None:
    """The outcomes (STAGED) of halves, and of waiting halves that have a partner now or are overdue.

    Args:
        rows: Decoded rows (STAGED).
        waiting: The halves that wait (CHANGES); None if they are many.
        history: Earlier changes that may have their positions (CHANGES), of this process or Spark, or None.
        deadlines: By source, the time before which halves are overdue.
        shared: Sources whose earlier batches have shown that several updates can have one position.

    Returns:
        The outcomes; None where many halves wait, or many earlier changes have the positions of open halves.
    """
    if waiting is None:
        return None
    to_micros = TimestampType().toInternal
    overdue = {source: to_micros(moment) for source, moment in deadlines.items() if moment is not None}
    halves = rows.filter(pc.is_valid(rows.column("half")))
    is_update = pc.and_(
        pc.equal(rows.column("kind"), pa.scalar("row")), pc.equal(rows.column("op"), pa.scalar("update"))
    )
    updates = rows.filter(pc.and_(pc.is_null(rows.column("half")), is_update))
    touched = {*column_values(halves, *_PLACE), *column_values(updates, *_PLACE)}
    met = [
        row
        for row in _plain(waiting)
        if _place(row) in touched or _is_before(row["event_time"], overdue.get(row["source"]))
    ]
    members = [*_with_origin(plain_rows(halves), NEW), *_with_origin(met, PENDING)]
    places = {_place(row) for row in members}
    here = [at for at, place in enumerate(column_values(updates, *_PLACE)) if place in places]
    members += _with_origin(_rows_at(updates, here), KNOWN)
    ids = [*_ids(halves), *_ids(updates), *_ids(waiting)]
    if history is not None:
        earlier = _at_positions(history, {place[-1] for place in places})
        if earlier is None:
            return None
        found = [row for row in _plain(earlier) if _place(row) in places]
        members += _with_origin([row for row in found if row["kind"] == "row"], KNOWN)
        members += _with_origin([row for row in found if row["kind"] != "row"], REFUSED)
        ids += [
            (_place(row), row["half"], row["change_id"])
            for row in found
            if (row["kind"], row["op"]) == ("row", "update")
        ]
    several = {*shared, *_sources_with_shared_positions(ids)}
    groups: dict[_Place, list[Row]] = {}
    for row in members:
        row |= {"deadline": overdue.get(row["source"]), "is_shared": row["source"] in several}
        groups.setdefault(_place(row), []).append(row)
    outcomes = [row for group in groups.values() for row in decide_group(group, pair, {NEW, PENDING})]
    return pa.Table.from_batches(staged_batches(outcomes), schema=STAGED)


def have_two_keys(found: Iterable[pa.Table], shared: Collection[str]) -> bool:
    """Whether halves of one position have different keys, in tables (STAGED or CHANGES) together.

    Those of the sources in `shared` do not count.
    """
    keys: dict[_Place, set[tuple[str | None, ...] | None]] = {}
    for rows in found:
        halves = rows.filter(pc.is_valid(rows.column("half")))
        for row in plain_rows(halves.select([*_PLACE, "keys", "before", "after"])):
            if row["source"] not in shared:
                keys.setdefault(_place(row), set()).add(own_key(row))
    return any(len(mine) > 1 for mine in keys.values())


def _at_positions(history: pa.Table | DataFrame, sequences: Collection[str | None]) -> pa.Table | None:
    """The row changes, and the BEFORE halves that came alone, with these sequences; None if they are many."""
    if isinstance(history, pa.Table):
        named = pa.array(sequences, pa.string()).drop_null()
        here = history.filter(((pc.field("kind") == "row") | IS_UNPAIRED) & pc.field("sequence").isin(named))
        return here if here.num_rows <= MOST_EARLIER else None
    wanted = pa.table({"sequence": pa.array(sequences, pa.string())})
    near = history.where(f"kind = 'row' OR ({UNPAIRED})").join(
        F.broadcast(arrow_frame(history.sparkSession, wanted, "sequence string")), "sequence", "left_semi"
    )
    found = staged_columns(near).limit(MOST_EARLIER + 1).toArrow()
    return found if found.num_rows <= MOST_EARLIER else None


def _sources_with_shared_positions(updates: Iterable[tuple[_Place, str | None, str]]) -> set[str | None]:
    """The sources of which several updates of a table share a position.

    Args:
        updates: The place, side (null for a whole update) and change of each half and update.
    """
    ids: dict[tuple[_Place, bool], set[str]] = {}
    for place, half, change_id in updates:
        ids.setdefault((place, half == "before"), set()).add(change_id)
    return {place[0] for (place, _), found in ids.items() if len(found) > 1}


def _ids(rows: pa.Table) -> Iterator[tuple[_Place, str | None, str]]:
    for *place, half, change_id in column_values(rows, *_PLACE, "half", "change_id"):
        yield tuple(place), half, change_id


def _is_before(moment: int | None, deadline: int | None) -> bool:
    return moment is not None and deadline is not None and moment < deadline


def _with_origin(rows: Iterable[Row], origin: str) -> list[Row]:
    return [{**row, "origin": origin} for row in rows]


def _place(row: Row) -> _Place:
    return tuple([row[name] for name in _PLACE])


def _plain(rows: pa.Table) -> list[Row]:
    """Rows as dictionaries; columns of STAGED that they lack are null."""
    blank: Row = dict.fromkeys(STAGED.names)
    return [{**blank, **row} for row in plain_rows(rows)]


def _rows_at(rows: pa.Table, places: Collection[int]) -> list[Row]:
    return plain_rows(rows.take(pa.array(places, pa.int64())))
