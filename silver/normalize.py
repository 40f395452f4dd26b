"""The one adapter around the decoders: Arrow batches of bronze rows in, Arrow batches of fates out.

It decodes each message once, merges halves that meet inside an Arrow batch, gives every change its sequence and its
id, and turns whatever a decoder raises into a quarantined row. It keeps no state between Arrow batches, so memory is
bounded by one batch and a task that is run again gives the same rows.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from framework.contracts.actions import actions_text, has_no_effect
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange, Token
from framework.contracts.raw import TOO_LONG, RawMessage
from framework.contracts.reasons import Malformed, Reason
from framework.contracts.seed import seed_in
from silver.format import Context, Format
from silver.identity import digest, image_parts, key_values
from silver.rows import STAGED, Row, excluded, forgotten, quarantined, staged_batch
from silver.seeded import seeded_row
from silver.sequence import sequence_of
from silver.statements import statement_events

BAD_COORDINATES = "mainstem.bad_coordinates"
_BLANK: Row = dict.fromkeys(STAGED.names)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What the adapter knows of one source: its format, the decoder's context, its newest epoch, and which tables to leave out.

    `seeds` has, by their places, what the feed says of the columns of tables whose dumps are rows of the batch.
    """

    format: Format
    context: Context
    epoch: int
    is_excluded: Callable[[str | None, str | None, str], bool]
    max_bytes: int
    seeds: Mapping[tuple[object, ...], Mapping[str, Column]] = field(default_factory=dict)


def normalizer(plans: Mapping[str, SourcePlan]) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function for `mapInArrow` over rows of `bronze/messages`."""

    def normalize(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            yield normalize_batch(batch, plans)

    return normalize


def normalize_batch(batch: pa.RecordBatch, plans: Mapping[str, SourcePlan]) -> pa.RecordBatch:
    """All fates of one Arrow batch of messages."""
    desk = _Desk(plans)
    is_collecting = gc.isenabled()
    gc.disable()  # rows are no cycles, and looking for some among so many takes longer than reading a message
    try:
        for message, epoch in zip(_messages(batch), _epochs(batch), strict=True):
            desk.take(message, epoch)
        return desk.finish()
    finally:
        if is_collecting:
            gc.enable()


def _epochs(batch: pa.RecordBatch) -> Sequence[int | None]:
    """The epoch of each message; None where that of its source's plan holds."""
    place = batch.schema.get_field_index("epoch")
    return [None] * batch.num_rows if place < 0 else batch.column(place).to_pylist()


def _messages(batch: pa.RecordBatch) -> Iterator[RawMessage]:
    names = ("source", "topic", "partition", "offset", "key", "value", "headers")
    columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in names]
    stamps = batch.column(batch.schema.get_field_index("timestamp")).cast(pa.int64()).to_pylist()
    for (source, topic, partition, offset, key, value, headers), stamp in zip(zip(*columns, strict=True), stamps, strict=True):
        pairs = tuple((h["key"], h["value"]) for h in headers) if headers else ()
        yield RawMessage(source, topic, partition, offset, stamp, key, value, pairs)


class _Desk:
    """Takes the messages of one Arrow batch in order; lives no longer than that batch."""

    def __init__(self, plans: Mapping[str, SourcePlan]) -> None:
        self.plans = plans
        self.rows: list[Row | None] = []
        self.waiting: dict[tuple[Any, ...], list[int]] = {}
        self.exclusions: dict[tuple[str | None, ...], bool] = {}

    def take(self, message: RawMessage, epoch: int | None) -> None:
        plan = self.plans[message.source]
        if message.headers:
            if any(name == FORGOTTEN for name, _ in message.headers):
                self.rows.append(forgotten(message, plan.format.name))
                return
            seed = seed_in(message.headers)
            if seed is not None:
                self._take_seeded(message, seed, plan)
                return
        epoch = plan.epoch if epoch is None else epoch
        ids: set[str] = set()
        for ordinal, event in enumerate(_decoded(message, plan)):
            if isinstance(event, Malformed):
                self.rows.append(quarantined(message, plan.format.name, event))
                continue
            try:
                row = _row(message, ordinal, event, plan.format, epoch)
            except Exception as error:  # a position that no sequence has, or a decoder's bug
                self.rows.append(quarantined(message, plan.format.name, _refusal(error), ordinal))
                continue
            if row["change_id"] in ids:  # equal rows inside one message are rows of their own
                row["change_id"] = digest((row["change_id"], "again", str(ordinal)))
            ids.add(row["change_id"])
            if event.table is not None and self._is_excluded(row, plan):
                self.rows.append(excluded(row))
            elif isinstance(event, RowChange) and event.half is not None:
                self._take_half(row)
            else:
                self.rows.append(row)

    def _take_seeded(self, message: RawMessage, seed: bytes, plan: SourcePlan) -> None:
        try:
            row = seeded_row(message, seed, plan.format.name, plan.context, plan.seeds)
        except Exception as error:  # a header that nobody here has written
            self.rows.append(quarantined(message, plan.format.name, _refusal(error)))
            return
        self.rows.append(excluded(row) if self._is_excluded(row, plan) else row)

    def _is_excluded(self, row: Row, plan: SourcePlan) -> bool:
        place = (row["source"], row["database"], row["schema"], row["table"])
        known = self.exclusions.get(place)
        if known is None:
            known = self.exclusions[place] = plan.is_excluded(*place[1:])
        return known

    def _take_half(self, row: Row) -> None:
        key = (row["source"], row["database"], row["schema"], row["table"], row["sequence"])
        open_halves = self.waiting.setdefault(key, [])
        if len(open_halves) == 1:
            other = self.rows[open_halves[0]]
            if other is not None and other["half"] != row["half"] and keys_agree(other, row):
                self.rows[open_halves.pop()] = None
                before, after = (other, row) if row["half"] == Half.AFTER else (row, other)
                self.rows.append(merged(before, after))
                return
        open_halves.append(len(self.rows))
        self.rows.append(row)

    def finish(self) -> pa.RecordBatch:
        rows = [row for row in self.rows if row is not None]
        describe_shapes(rows)
        return staged_batch(rows)


def _decoded(message: RawMessage, plan: SourcePlan) -> Sequence[Event | Malformed]:
    for name, value in message.headers:
        if name == BAD_COORDINATES:
            return (Malformed(Reason.BAD_COORDINATES, (value or b"").decode("utf-8", "replace")[:200]),)
        if name == TOO_LONG:
            size = (value or b"?").decode("utf-8", "replace")[:20]
            return (Malformed(Reason.TOO_LARGE, f"a line of {size} bytes; they did not land, its file alone has them"),)
    length = len(message.value or b"")
    if length > plan.max_bytes:
        return (Malformed(Reason.TOO_LARGE, f"{length} bytes, at most {plan.max_bytes}"),)
    spread: list[Event] = []
    try:
        for event in plan.format.decode(message, plan.context):
            spread.extend(statement_events(event, plan.format) if isinstance(event, Control) else (event,))
    except Malformed as error:
        if error.reason is Reason.EMPTY and message.value is None and message.key is not None:
            return (Control(ControlKind.TOMBSTONE, "tombstone"),)
        return (error,)
    except Exception as error:  # whatever a decoder lets slip is that message's fate, never the batch's
        return (Malformed(Reason.DECODER_ERROR, type(error).__name__),)
    return spread or (Malformed(Reason.DECODER_ERROR, "no event"),)


def _row(message: RawMessage, ordinal: int, event: Event, fmt: Format, epoch: int) -> Row:
    position = None if event.position is None else sequence_of(epoch, event.position, None)
    sequence = position
    if isinstance(event, RowChange) or position is not None:
        if position is None or event.is_time or not fmt.positions_are_unique:
            sequence = sequence_of(epoch, event.position, (message.topic, message.partition, message.offset, ordinal))
    elif event.kind in (ControlKind.DDL, ControlKind.TRUNCATE) and not has_no_effect(event.actions or ()):
        raise Malformed(Reason.MISSING_POSITION, "a statement without a position has no place among the rows")
    row: Row = _BLANK.copy()
    row.update(
        source=message.source,
        format=fmt.name,
        kind="row" if isinstance(event, RowChange) else str(event.kind),
        op=str(event.op),
        database=event.database,
        schema=event.schema,
        table=event.table,
        sequence=sequence,
        event_time=event.event_time,
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        ordinal=ordinal,
        keys=list(event.keys) if event.keys is not None else None,
        transaction_id=event.transaction_id,
        server=event.server,
        shape=event.columns,
        position=position,
    )
    if isinstance(event, RowChange):
        row.update(before=event.before, after=event.after, partial=event.partial)
        row["half"] = None if event.half is None else str(event.half)
    else:
        row["statement"] = event.statement
        row["actions"] = None if event.actions is None else actions_text(event.actions)
    row["change_id"] = change_id(row)
    return row


def _refusal(error: Exception) -> Malformed:
    if isinstance(error, Malformed):
        return error
    if isinstance(error, ValueError):
        return Malformed(Reason.BAD_POSITION, str(error))
    return Malformed(Reason.DECODER_ERROR, type(error).__name__)


def change_id(row: Row) -> str:
    """The id of a change: where its position identifies it, of position and key; else of everything that it says."""
    place = (row["source"], row["database"], row["schema"], row["table"], row["kind"], row["op"])
    if row["kind"] != "row":
        where = row["position"] or f"{row['topic']}/{row['partition']}/{row['offset']}/{row['ordinal']}"
        return digest((*place, where, row["statement"], str(row["ordinal"])))
    if row["position"] != row["sequence"]:  # tie-breakers follow a position that does not identify a change
        epoch = row["sequence"].partition(".")[0]
        return digest((*place, row["position"] or epoch, *image_parts(row["before"]), *image_parts(row["after"])))
    image = row["before"] if row["op"] == Op.DELETE or row["after"] is None else row["after"]
    identity = key_values(row["keys"], image)
    return digest((*place, row["position"], *(identity if identity is not None else image_parts(image))))


def keys_agree(one: Row, other: Row) -> bool:
    """Whether two halves speak of the same key; true for tables without a key."""
    first = key_values(one["keys"], one["before"] if one["after"] is None else one["after"])
    return first == key_values(other["keys"], other["before"] if other["after"] is None else other["after"])


def merged(before: Row, after: Row) -> Row:
    """One update of its two halves, at the coordinates of the AFTER half."""
    row = dict(after)
    row["half"] = None
    row["kind"] = "row"
    row["before"] = before["before"]
    row["paired_with"] = {name: before[name] for name in ("topic", "partition", "offset")}
    if not row.get("keys"):
        row["keys"] = before["keys"]
    return row


def describe_shapes(rows: list[Row]) -> None:
    """Give each row its `schema_id`, and the first row of each schema the schema's columns.

    Columns that the feed declares are as the message says. Of undeclared ones the tokens of all rows of a table up to
    its next DDL are joined, so that rows with and without nulls do not each make a schema of their own. A column that
    shows two kinds of values keeps them apart, row by row: they may be two columns, of which the second took the name
    of the first by a statement that comes late.
    """
    written: set[str] = set()
    start = 0
    for end in range(len(rows) + 1):
        if end == len(rows) or rows[end]["kind"] in ("ddl", "truncate"):
            _describe(rows[start : end + 1], written)
            start = end + 1


def _describe(rows: list[Row], written: set[str]) -> None:
    shapes: dict[tuple[Any, ...], Mapping[str, Column]] = {}  # one object is one shape: decoders share what messages share
    described: list[tuple[Row, tuple[Any, ...]]] = []
    for row in rows:
        shape = row["shape"]
        if shape:
            place = (id(shape), row["source"], row["database"], row["schema"], row["table"])
            shapes[place] = shape
            described.append((row, place))
    texts = _texts_of(shapes)
    for row, place in described:
        row["schema_id"], text = texts[place]
        row["columns"] = None if row["schema_id"] in written else text
        written.add(row["schema_id"])


def _texts_of(shapes: Mapping[tuple[Any, ...], Mapping[str, Column]]) -> dict[tuple[Any, ...], tuple[str, str]]:
    """The `schema_id` and the text of each shape."""
    tokens: dict[tuple[Any, ...], set[Token]] = {}
    for place, shape in shapes.items():
        for name, column in shape.items():
            if column.token is not None:
                tokens.setdefault((*place[1:], name), set()).add(column.token)
    joined = {column: ",".join(sorted(shown)) for column, shown in tokens.items() if len(shown - {Token.NULL}) < 2}
    known: dict[tuple[Any, ...], tuple[str, str]] = {}
    texts: dict[tuple[Any, ...], tuple[str, str]] = {}
    for place, shape in shapes.items():
        columns = tuple(
            (name, c.type, c.declared, None if c.token is None else joined.get((*place[1:], name), str(c.token)))
            for name, c in shape.items()
        )
        if columns not in known:
            text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
            known[columns] = (digest((text,)), text)
        texts[place] = known[columns]
    return texts
