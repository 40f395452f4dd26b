"""The adapter around the decoders: Arrow batches of bronze rows in, Arrow batches of outcomes out.

It decodes each message once, merges halves that are adjacent in an Arrow batch, gives every change its
sequence and its id, and turns every error of a decoder into a quarantined row. It keeps no state between
Arrow batches: memory is bounded by one batch, and a task that is run again gives the same rows.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from msgspec import structs

from framework.contracts.ddl_actions import actions_text, has_no_effect
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange
from framework.contracts.messages import BAD_COORDINATES, TOO_LONG, RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.contracts.seed import seed_in
from silver.changes import output_limits
from silver.changes.adjacent_halves import merge_adjacent, with_id
from silver.changes.change_id import change_id, digest
from silver.changes.ddl_events import in_view, statement_events, with_texts_once
from silver.changes.headers import is_about_us, trusted
from silver.changes.partition_order import UNPLACED, raise_sequences
from silver.changes.record_runs import note_runs
from silver.changes.row_schemas import describe_schemas
from silver.changes.seed_rows import seeded_row
from silver.changes.setting_evidence import note_missing_settings
from silver.changes.staged_rows import (
    OPS,
    Row,
    as_excluded,
    as_forgotten,
    as_landed_again,
    as_quarantined,
    decoded_row,
    staged_batch,
)
from silver.ddl.row_values import without_row_values
from silver.decoding.format import Context, Format
from silver.decoding.table_definitions import DefinitionsInEpoch
from silver.values.canonical import event_time_or_none
from silver.values.sequence import sequence_of, tied

_COORDINATES = ("source", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What the adapter knows of a source: format, decoder's context, newest epoch, and excluded tables.

    `seeds` has the feed's column types of tables whose dumps are in the batch, by the tables' names.
    `by_partition` says that the messages of a partition are in the order of the source.
    """

    format: Format
    context: Context
    epoch: int
    is_excluded: Callable[[str | None, str | None, str], bool]
    max_bytes: int
    seeds: Mapping[tuple[object, ...], Mapping[str, Column]] = field(default_factory=dict)
    by_partition: bool = False

    def in_epoch(self, epoch: int) -> SourcePlan:
        """The plan for messages of an epoch: a definition holds in its own epoch."""
        definitions = self.context.definition_at
        if epoch == self.epoch or not isinstance(definitions, DefinitionsInEpoch):
            return self
        return replace(self, context=replace(self.context, definition_at=replace(definitions, epoch=epoch)))


def arrow_decoder(
    plans: Mapping[str, SourcePlan],
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function for `mapInArrow` over rows of `bronze/messages`."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            yield from decode_safely(batch, plans)

    return decode


def decode_safely(batch: pa.RecordBatch, plans: Mapping[str, SourcePlan]) -> Iterator[pa.RecordBatch]:
    """All outcomes of one Arrow batch of messages, whatever they contain.

    If the batch fails as a whole, it is split in two until the message that fails is alone; that message is
    quarantined. Halves of updates that are split apart are paired later.
    """
    try:
        found = [decode_batch(batch, plans)]
    except Exception as error:  # text that Arrow refuses, too many bytes for an array, no memory
        if batch.num_rows == 1:
            found = [staged_batch([_unreadable(batch, plans, error)])]
        else:
            middle = batch.num_rows // 2
            yield from decode_safely(batch.slice(0, middle), plans)
            yield from decode_safely(batch.slice(middle), plans)
            return
    yield from found


def _unreadable(batch: pa.RecordBatch, plans: Mapping[str, SourcePlan], error: Exception) -> Row:
    """The outcome of the only message of a batch that cannot be decoded."""
    source, topic, partition, offset = (_cell(batch, name, 0) for name in _COORDINATES)
    message = RawMessage(source, topic, partition, offset, None, None, None)
    plan, (epoch, restart, again) = plans[source], next(iter(_landings(batch)))
    reason = Malformed(Reason.DECODER_ERROR, type(error).__name__)
    row = as_quarantined(message, plan.format.name, reason, epoch=plan.epoch if epoch is None else epoch)
    row["restart"] = restart
    return row if again is None else as_landed_again(row, again)


def decode_batch(batch: pa.RecordBatch, plans: Mapping[str, SourcePlan]) -> pa.RecordBatch:
    """All outcomes of one Arrow batch of messages; raises if they do not fit into Arrow or the memory."""
    decoder = ArrowBatchDecoder(plans)
    is_collecting = gc.isenabled()
    gc.disable()  # rows form no cycles, and the search for cycles costs more than the decoding
    try:
        for message, landing in zip(_messages(batch), _landings(batch), strict=True):
            decoder.take(message, landing)
            if decoder.repeated > output_limits.LARGEST_BATCH and batch.num_rows > 1:
                raise OverflowError("the messages of one Arrow batch become too large")
        return decoder.finish()
    finally:
        if is_collecting:
            gc.enable()


_Landing = tuple[int | None, int | None, str | None]
"""Of a message: epoch (None: the plan's), restart, and how it landed again (None: it did not)."""


def _landings(batch: pa.RecordBatch) -> Iterable[_Landing]:
    columns = []
    for name in ("epoch", "restart", "relanding"):
        place = batch.schema.get_field_index(name)
        columns.append([None] * batch.num_rows if place < 0 else batch.column(place).to_pylist())
    return zip(*columns, strict=True)


def _messages(batch: pa.RecordBatch) -> Iterator[RawMessage]:
    names = ("source", "topic", "partition", "offset", "key", "value", "headers")
    columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in names]
    stamps = batch.column(batch.schema.get_field_index("timestamp")).cast(pa.int64()).to_pylist()
    rows = zip(zip(*columns, strict=True), stamps, strict=True)
    for row, ((source, topic, partition, offset, key, value, headers), stamp) in enumerate(rows):
        pairs = tuple((h["key"] or "", h["value"]) for h in headers if h is not None) if headers else ()
        message = RawMessage(source, topic, partition, offset, stamp, key, value, pairs)
        if pairs and is_about_us(pairs):
            message = structs.replace(
                message, headers=trusted(message, *(_cell(batch, name, row) for name in ("file", "line")))
            )
        yield message


def _cell(batch: pa.RecordBatch, name: str, row: int) -> Any:
    return batch.column(batch.schema.get_field_index(name))[row].as_py()


class ArrowBatchDecoder:
    """Decodes the messages of one Arrow batch in their order; it lives no longer than that batch."""

    def __init__(self, plans: Mapping[str, SourcePlan]) -> None:
        self.plans = plans
        self.rows: list[Row | None] = []
        self.waiting: dict[tuple[Any, ...], list[int]] = {}
        self.exclusions: dict[tuple[str | None, ...], bool] = {}
        self.repeated = 0
        self.of_epochs: dict[tuple[str, int], SourcePlan] = {}

    def take(self, message: RawMessage, landing: _Landing) -> None:
        """Decode one message and keep its rows."""
        plan = self.plans[message.source]
        epoch, restart, again = landing
        if epoch is None:
            epoch = plan.epoch
        elif epoch != plan.epoch:
            plan = self._plan_in(epoch, plan)
        for row in self._rows_of(message, plan, epoch):
            row["epoch"], row["restart"] = epoch, restart
            if restart:  # after a restart the message waits for its epoch and orders no other rows
                with_id(row)["block"] = None
            if again is not None:
                self.rows.append(as_landed_again(with_id(row), again))
            elif row["half"] is not None:
                self._take_half(row)
            else:
                self.rows.append(row)

    def _plan_in(self, epoch: int, plan: SourcePlan) -> SourcePlan:
        place = (plan.context.source, epoch)
        if place not in self.of_epochs:
            self.of_epochs[place] = plan.in_epoch(epoch)
        return self.of_epochs[place]

    def _refused(self, message: RawMessage, error: Malformed, plan: SourcePlan, epoch: int) -> Row:
        row = as_quarantined(message, plan.format.name, error, epoch=epoch)
        if error.table is None:
            return row
        named = {
            **row,
            **dict(zip(("database", "schema", "table"), error.table, strict=True)),
            "reason": None,
            "detail": None,
        }
        return as_excluded(named) if self._is_excluded(named, plan) else row

    def _rows_of(self, message: RawMessage, plan: SourcePlan, epoch: int) -> Iterable[Row]:
        if message.headers:
            if any(name == FORGOTTEN for name, _ in message.headers):
                return (as_forgotten(message, plan.format.name, epoch),)
            seed = seed_in(message.headers)
            if seed is not None:
                return (self._seeded(message, seed, plan, epoch),)
        events = read_events(message, plan)
        if len(events) == 1:
            return (self._row_of(message, 0, events[0], plan, epoch),)
        return self._bounded(message, self._rows_of_events(message, events, plan, epoch), plan, epoch)

    def _bounded(
        self, message: RawMessage, rows: Iterator[Row], plan: SourcePlan, epoch: int
    ) -> Iterable[Row]:
        """The rows of a message; the message alone, quarantined, where they repeat too much text."""
        text, found = output_limits.RepeatedText(len(message.value or b"")), list[Row]()
        try:
            for row in rows:
                text.add(row)
                found.append(row)
        except Malformed as error:
            return (self._refused(message, error, plan, epoch),)
        self.repeated += text.characters
        return found

    def _rows_of_events(
        self, message: RawMessage, events: Sequence[Event | Malformed], plan: SourcePlan, epoch: int
    ) -> Iterator[Row]:
        ids: set[str] = set()
        for ordinal, event in enumerate(events):
            row = with_id(self._row_of(message, ordinal, event, plan, epoch))
            if row["change_id"] in ids and not isinstance(event, Malformed):
                # equal rows inside one message are different rows
                row["change_id"] = digest((row["change_id"], "again", str(ordinal)))
            ids.add(row["change_id"])
            yield row

    def _row_of(
        self, message: RawMessage, ordinal: int, event: Event | Malformed, plan: SourcePlan, epoch: int
    ) -> Row:
        if isinstance(event, Malformed):
            return self._refused(message, event, plan, epoch)
        try:
            row = _row(message, ordinal, event, plan, epoch)
        except Exception as error:  # an impossible position, or a bug of a decoder
            return as_quarantined(message, plan.format.name, _refusal(error), ordinal, epoch)
        if event.table is not None and self._is_excluded(row, plan):
            kept = in_view(event, plan.is_excluded)
            return as_excluded(with_id(row)) if kept is None else _row(message, ordinal, kept, plan, epoch)
        return row

    def _seeded(self, message: RawMessage, seed: bytes, plan: SourcePlan, epoch: int) -> Row:
        try:
            row = seeded_row(message, seed, plan.format.name, plan.context, plan.seeds)
        except Exception as error:  # a header that Mainstem did not write
            return as_quarantined(message, plan.format.name, _refusal(error), epoch=epoch)
        return as_excluded(row) if self._is_excluded(row, plan) else row

    def _is_excluded(self, row: Row, plan: SourcePlan) -> bool:
        place = (row["source"], row["database"], row["schema"], row["table"])
        known = self.exclusions.get(place)
        if known is None:
            known = self.exclusions[place] = plan.is_excluded(*place[1:])
        return known

    def _take_half(self, row: Row) -> None:
        key = (row["source"], row["database"], row["schema"], row["table"], row["sequence"], row["restart"])
        self.waiting.setdefault(key, []).append(len(self.rows))
        self.rows.append(row)

    def finish(self) -> pa.RecordBatch:
        """The rows of all messages taken, with their halves paired where they are adjacent."""
        merge_adjacent(self.rows, self.waiting.values())
        rows = [row for row in self.rows if row is not None]
        note_runs(rows)
        note_missing_settings(rows)
        raise_sequences(rows)
        describe_schemas(rows)
        return staged_batch(rows)


def read_events(message: RawMessage, plan: SourcePlan) -> Sequence[Event | Malformed]:
    """The events of a message, at least one; a `Malformed` alone where the message goes to quarantine."""
    if None in (message.topic, message.partition, message.offset):
        return (Malformed(Reason.BAD_COORDINATES, "no topic, no partition or no offset"),)
    for name, value in message.headers:
        if name == BAD_COORDINATES:
            return (Malformed(Reason.BAD_COORDINATES, (value or b"").decode("utf-8", "replace")[:200]),)
        if name == TOO_LONG:
            size = (value or b"?").decode("utf-8", "replace")[:20]
            found = f"a line of {size} bytes; they did not land, its file alone has them"
            return (Malformed(Reason.TOO_LARGE, found),)
    length = len(message.value or b"")
    if length > plan.max_bytes:
        return (Malformed(Reason.TOO_LARGE, f"{length} bytes, at most {plan.max_bytes}"),)
    spread: list[Event] = []
    try:
        events = plan.format.decode(message, plan.context)
        if len(events) == 1 and type(events[0]) is RowChange:
            output_limits.check_names(events[0])
            return events
        for event in events:
            if isinstance(event, Control):
                spread.extend(statement_events(event, plan.format, plan.context.hints_for))
            else:
                spread.append(event)
        output_limits.check_count(len(spread))
        for event in spread:
            output_limits.check_names(event)
        if len(spread) > 1:
            spread = with_texts_once(spread)
    except Malformed as error:
        if error.reason is Reason.EMPTY and message.value is None and message.key is not None:
            return (Control(ControlKind.TOMBSTONE, "tombstone"),)
        return (error,)
    except Exception as error:  # an error of a decoder concerns one message, not the batch
        return (Malformed(Reason.DECODER_ERROR, type(error).__name__),)
    return spread or (Malformed(Reason.DECODER_ERROR, "no event"),)


def _row(message: RawMessage, ordinal: int, event: Event, plan: SourcePlan, epoch: int) -> Row:
    if event.event_time is not None and event_time_or_none(event.event_time) is None:
        raise Malformed(Reason.BAD_POSITION, "an event time outside the years 1 to 9999")
    position = None if event.position is None else sequence_of(epoch, event.position, None)
    fmt = plan.format
    is_time = position is not None and (event.is_time or not fmt.positions_are_unique)
    block = UNPLACED if is_time and plan.by_partition else None
    tie = (message.topic, message.partition, message.offset, ordinal)
    if isinstance(event, RowChange):
        identity = _identity(event, position, epoch, is_time=is_time)
        is_place = not is_time or (block is None and identity == position)
        is_of_record = event.is_of_record or (event.op is Op.READ and not (event.keys or event.is_single))
        is_tied = position is None or not is_place or event.is_shared or is_of_record
        sequence = tied(position, epoch, tie) if is_tied else position
        row = decoded_row(message, ordinal, event, (fmt.name, "row", epoch, position, sequence, block))
        row["op"] = OPS[event.op]
        row["before"], row["after"], row["partial"] = event.before, event.after, event.partial
        row["identity"] = identity
        if is_of_record:
            row["is_of_record"] = True
        if event.half is not None:
            row["half"] = str(event.half)
        if event.evidence:
            row["evidence"] = ";".join(event.evidence)
        if event.earliest is not None and is_tied:
            row["earliest"] = sequence_of(epoch, event.earliest, None)
        if event.is_exclusive:
            row["is_exclusive"] = True
        if event.committed is not None:
            row["committed"] = sequence_of(epoch, event.committed, None)
        if event.half is not Half.BEFORE:  # a BEFORE half gets one where it is not merged (`with_id`)
            row["change_id"] = change_id(row)
        return row
    is_statement = event.kind in (ControlKind.DDL, ControlKind.TRUNCATE)
    if position is None and is_statement and not has_no_effect(event.actions or ()):
        raise Malformed(Reason.MISSING_POSITION, "a statement without a position has no place among the rows")
    sequence = tied(position, epoch, tie) if is_time else position
    row = decoded_row(message, ordinal, event, (fmt.name, str(event.kind), epoch, position, sequence, block))
    row["op"], row["statement"] = str(event.op), event.statement
    row["actions"] = None if event.actions is None else actions_text(event.actions)
    row["change_id"] = change_id(row)  # of the whole text, as in earlier releases
    row["statement"] = without_row_values(event.statement, event.actions)
    return row


def _identity(change: RowChange, position: str | None, epoch: int, *, is_time: bool) -> str | None:
    """What identifies the change with its key or image: the feed's own identity, or the position.

    None where the position is only a time, or several changes share it.
    """
    if change.identity is not None:
        return digest((str(epoch), *change.identity))
    return None if (is_time and change.earliest is None) or change.is_shared else position


def _refusal(error: Exception) -> Malformed:
    if isinstance(error, Malformed):
        return error
    if isinstance(error, UnicodeError):
        return Malformed(Reason.ENCODING, "a text that is not UTF-8")
    if isinstance(error, ValueError):
        return Malformed(Reason.BAD_POSITION, str(error))
    return Malformed(Reason.DECODER_ERROR, type(error).__name__)
