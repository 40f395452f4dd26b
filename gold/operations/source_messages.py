"""The messages in bronze from which changes were decoded.

Several messages may have the same coordinates: a change belongs to the one of its own epoch. A message that
has no outcome yet has no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import DML, actions_text
from framework.contracts.epochs import EpochRow, LandedMessage, epoch_finder, epochs_of, starts_of
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGE_AT
from framework.lakehouse.recorded_epochs import read_epochs
from framework.lakehouse.table_reader import Query, TableReader, in_utc, portions
from framework.spark.local_frame import local_frame
from framework.text.times import micros_of

Coordinates = tuple[str, int, int]
"""Topic, partition and offset."""
_CONTENT = ("timestamp", "key", "value", "headers")
_COORDINATES = "source string, topic string, `partition` int, offset bigint"
_MESSAGES = Query(
    MESSAGES_TABLE,
    "SELECT `source`, `topic`, `partition`, `offset`, `timestamp`, `key`, `value`, `headers`, `file`, "
    "`line`, `ingested_at` FROM {rows} WHERE `offset` IN ({offsets})",
)
_OUTCOMES = Query(
    CHANGES_TABLE,
    "SELECT DISTINCT `source`, `topic`, `partition`, `offset`, `epoch`, `paired_with` FROM {rows} "
    "WHERE `offset` IN ({offsets}) OR `paired_with`['offset'] IN ({offsets})",
    {"epoch": "int"},
)
_Cells = TypeVar("_Cells", Row, Mapping[str, Any])


def coordinates_of(change: Row | Mapping[str, Any]) -> list[Coordinates]:
    """The coordinates of a change's messages; for a merged update, those of its before half come first."""
    places = [place for place in (change["paired_with"], change) if place is not None]
    return [(place["topic"], place["partition"], place["offset"]) for place in places]


def epoch_of(change: Row | Mapping[str, Any]) -> int:
    """The epoch of a change; 0 for changes of releases that did not record it."""
    cells = change.asDict() if isinstance(change, Row) else change
    return cells.get("epoch") or 0


def row_statements(changes: DataFrame) -> DataFrame:
    """The changes of one source whose messages are only statements about rows, and duplicates of them."""
    is_of_rows = F.col("actions").eqNullSafe(actions_text([DML]))
    statements = changes.where("kind IN ('ddl', 'truncate')")
    at = [name for name in (*MESSAGE_AT, "epoch") if name in changes.columns]
    whole = statements.groupBy(*at).agg(F.min(is_of_rows).alias("is_whole")).where("is_whole")
    texts = whole.select(*(F.col(f"`{name}`").alias(f"its_{name}") for name in at))
    is_same = [F.col(f"`{name}`").eqNullSafe(F.col(f"its_{name}")) for name in at]
    own = statements.join(texts, is_same, "left_semi")
    duplicates = changes.where("kind = 'duplicate'").join(own.select("change_id"), "change_id", "left_semi")
    kept = [*at, "paired_with"]
    return own.select(*kept).unionByName(duplicates.select(*kept)).distinct()


def without_content(messages: DataFrame) -> DataFrame:
    """Messages with hashes instead of keys, values and headers: enough to distinguish them."""
    texts = {"key": F.col("key"), "value": F.col("value"), "headers": F.to_json("headers")}
    is_erased = F.coalesce(F.exists("headers", lambda header: header["key"] == FORGOTTEN), F.lit(False))
    hashes = {name: F.sha2(text, 256) for name, text in texts.items()}
    return messages.withColumns({**hashes, "is_erased": is_erased})


def landings(
    messages: DataFrame,
    changes: DataFrame,
    source: str,
    coordinates: Iterable[Coordinates],
    recorded: Sequence[EpochRow],
) -> Mapping[tuple[Coordinates, int], list[Row]]:
    """All landings of the messages with these coordinates, by coordinates and epoch, the first one first.

    A topic that is created again counts its offsets from 0, so several messages may have the same
    coordinates. Only those are found that changes were decoded from.

    Args:
        messages: Rows of `bronze/messages`, from `without_content`.
        changes: Rows of `silver/changes`.
        source: The source.
        coordinates: The coordinates to look up.
        recorded: The rows of `ops/epochs`.
    """
    wanted = local_frame(
        messages.sparkSession, [(source, *place) for place in sorted(set(coordinates))], _COORDINATES
    )
    at = list(MESSAGE_AT)
    found = messages.join(F.broadcast(wanted), at, "left_semi").collect()
    epoch = F.coalesce("epoch", F.lit(0)) if "epoch" in changes.columns else F.lit(0)
    own = changes.select(
        *at, epoch.alias("epoch")
    )  # halves that met while they were decoded have no outcome but their update's
    partners = changes.where("paired_with IS NOT NULL").select(
        "source", "paired_with.*", epoch.alias("epoch")
    )
    outcomes = (
        own.unionByName(partners)
        .join(F.broadcast(wanted), at, "left_semi")
        .select(*at[1:], "epoch")
        .distinct()
    )
    return _by_epoch(found, ((tuple(row[:3]), row[3]) for row in outcomes.collect()), source, recorded)


def landed_messages(
    tables: TableReader, source: str, coordinates: Iterable[Coordinates]
) -> Mapping[tuple[Coordinates, int], list[Mapping[str, Any]]]:
    """The same, where few messages are looked up: with the cells of their rows."""
    wanted = set(coordinates)
    offsets = sorted({offset for _, _, offset in wanted})
    messages: list[Mapping[str, Any]] = []
    epochs: set[tuple[Coordinates, int]] = set()
    for some in portions(offsets):
        for row in tables.rows(_MESSAGES, offsets=some):
            if row["source"] == source and _place(row) in wanted:
                is_erased = any(header["key"] == FORGOTTEN for header in row["headers"] or ())
                messages.append({**row, "is_erased": is_erased})
        for row in tables.rows(_OUTCOMES, offsets=some):
            places = {_place(row), _place(row["paired_with"] or row)}
            if row["source"] == source:
                epochs |= {(place, row["epoch"] or 0) for place in places & wanted}
    found = _by_epoch(messages, epochs, source, read_epochs(tables)[0])
    return {
        at: [{**row, "ingested_at": in_utc(row["ingested_at"])} for row in rows] for at, rows in found.items()
    }


def _place(row: Row | Mapping[str, Any]) -> Coordinates:
    return row["topic"], row["partition"], row["offset"]


def _by_epoch(
    messages: Iterable[_Cells],
    outcomes: Iterable[tuple[Coordinates, int]],
    source: str,
    recorded: Sequence[EpochRow],
) -> dict[tuple[Coordinates, int], list[_Cells]]:
    """The landings of the messages that outcomes are of, by the coordinates and epochs of the outcomes.

    Where `recorded` does not tell several epochs of the source, those of the outcomes are taken in the order
    in which the messages landed.
    """
    found: dict[Coordinates, list[_Cells]] = {}
    for row in messages:
        found.setdefault(_place(row), []).append(row)
    epochs: dict[Coordinates, list[int]] = {}
    for place, number in outcomes:
        epochs.setdefault(place, []).append(number)
    several = epochs_of(recorded, source)
    find = epoch_finder({source: several}, starts_of(recorded), {}) if len(several) > 1 else None

    def epoch_of_row(row: _Cells) -> int | None:
        return None if find is None else find(_landed(source, row))

    by_epoch: dict[tuple[Coordinates, int], list[_Cells]] = {}
    for place, landed in found.items():
        numbers, grouped = sorted(epochs.get(place, [0])), _by_message(landed, epoch_of_row)
        if find is None:
            by_epoch |= {(place, epoch): grouped[min(n, len(grouped) - 1)] for n, epoch in enumerate(numbers)}
            continue
        held: dict[int | None, list[_Cells]] = {}
        for rows in grouped:  # a later message of the same epoch has no outcome: the source stops there
            held.setdefault(epoch_of_row(rows[0]), rows)
        for epoch in numbers:  # releases that did not record it knew only epochs that offsets tell
            its = epoch or find(LandedMessage(source, *place))
            if its in held:
                by_epoch[place, epoch] = held[its]
    return by_epoch


def _landed(source: str, row: Row | Mapping[str, Any]) -> LandedMessage:
    sent = None if row["timestamp"] is None else micros_of(row["timestamp"])
    landing = (micros_of(row["ingested_at"]), row["file"] or "", row["line"] or 0)
    return LandedMessage(source, *_place(row), landing, sent)


def _by_message(landed: Sequence[_Cells], epoch_of_row: Callable[[_Cells], int | None]) -> list[list[_Cells]]:
    """The landings of each message, in the order of the first ones.

    A message that `forget` has emptied has no bytes to compare: its time is compared, or, where it has none,
    its epoch.
    """

    def mark(row: _Cells) -> tuple[Any, int | None]:
        time = row["timestamp"]
        return time, epoch_of_row(row) if time is None else None

    order = sorted(landed, key=lambda row: (row["ingested_at"], row["file"] or "", row["line"] or 0))
    emptied = {mark(row) for row in order if row["is_erased"]}
    messages: dict[Any, list[_Cells]] = {}
    for row in order:
        its = mark(row)
        content = its if its in emptied else repr([row[name] for name in _CONTENT])
        messages.setdefault(content, []).append(row)
    return list(messages.values())
