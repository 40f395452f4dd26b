"""What a decoder reads from one message: row changes and control events, with values as canonical text.

The classes are `msgspec.Struct`s, which are created ten times as fast as frozen dataclasses: there is one for
each message, or one for each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from framework.contracts.ddl_actions import Action
from framework.contracts.plain_members import plain_members


@plain_members
class Op(StrEnum):
    """What happened to a row. `READ` is a row of a snapshot."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    READ = "read"


@plain_members
class Half(StrEnum):
    """The half of an update that its feed sends as two messages."""

    BEFORE = "before"
    AFTER = "after"


KINDS_OF_PAIRS = ("row", "duplicate", "excluded")
"""The kinds of outcomes that two messages can share: the halves of one update."""


@plain_members
class ControlKind(StrEnum):
    """Events that are no row change.

    A `HALF` is one of two messages of a key change; it is not paired, since the other message has everything.
    """

    DDL = "ddl"
    TRUNCATE = "truncate"
    HEARTBEAT = "heartbeat"
    TRANSACTION = "transaction"
    TOMBSTONE = "tombstone"
    HALF = "half"


@plain_members
class Token(StrEnum):
    """What a message shows of an undeclared column; gold infers the type from all values."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    JSON = "json"
    NULL = "null"


class Column(Struct, frozen=True):
    """A column of an image: exactly one of `type` (declared, canonical) and `token` is set.

    `declared` is the source's own type text, None where the feed declares nothing.
    """

    type: str | None = None
    declared: str | None = None
    token: Token | None = None


Image = Mapping[str, str | None]


class RowChange(Struct, frozen=True):
    """One change of one row.

    Attributes:
        op: What happened to the row.
        before: Column names and canonical texts before the change; a None value is SQL NULL. None without
            such an image.
        after: The same after the change.
        partial: Columns missing from `after` are unchanged; otherwise they are null from now on.
        columns: The columns in the source's own order.
        keys: The key's columns, never empty; None where the feed names no key.
        position: The numbers that order this change within its source and epoch, most significant first, as
            many for every message of a format. None for a snapshot row without a position, which sorts first.
        is_time: This position is only a time, where others of the format may be more: several changes can
            share it, and the source's order may be another one.
        is_shared: Several changes can share this position, which is a place in the source's log.
        is_exclusive: This position is that of one change, or of a delete and an insert that are a change of a
            key: where others share it, a setting of the source is missing.
        is_of_record: This position is that of a record or a transaction, which may hold several equal rows
            of this table without a key. Rows of a snapshot (READ) are taken so, too.
        is_single: A row of a snapshot that equals another one at this position is that row, sent again.
        event_time: Microseconds since the epoch; None where the feed has none.
        half: The half of an update that arrives as two messages.
        server: The server that wrote the position, where the feed names it.
        evidence: What the row shows of how its source writes values, beyond what was known
            (`silver/decoding/encoding_modes.py`).
        identity: What identifies this change among those of its source, the same in each delivery, where its
            position is another one in each; None where the position identifies it, or nothing does.
        earliest: The lowest position that a delivery of this change can have. Set with `identity`, and where
            the position identifies the change although it is no order (`is_time`).
        committed: The position up to which the source's log was committed when it wrote this change, where
            the feed has it: rows of a long transaction have older positions.
    """

    op: Op
    database: str | None
    schema: str | None
    table: str
    keys: tuple[str, ...] | None
    before: Image | None
    after: Image | None
    columns: Mapping[str, Column]
    position: tuple[int, ...] | None
    event_time: int | None
    partial: bool = False
    transaction_id: str | None = None
    half: Half | None = None
    server: str | None = None
    is_time: bool = False
    is_shared: bool = False
    evidence: tuple[str, ...] = ()
    is_of_record: bool = False
    is_single: bool = False
    identity: tuple[str, ...] | None = None
    earliest: tuple[int, ...] | None = None
    committed: tuple[int, ...] | None = None
    is_exclusive: bool = False


class Control(Struct, frozen=True):
    """A control event.

    Attributes:
        table: None where the event concerns no table.
        statement: The text of the DDL.
        columns: A structured table definition, where the feed sends one beside the text or instead of it.
        position: As in `RowChange`, with `is_time`; None where the event has no place in the order (a
            heartbeat).
        dialect: The SQL of the statement (mysql, oracle, postgres, tsql, db2; empty: unknown).
        actions: What the event does, where the decoder knows it without the text; None: the text decides.
    """

    kind: ControlKind
    op: str
    database: str | None = None
    schema: str | None = None
    table: str | None = None
    statement: str | None = None
    position: tuple[int, ...] | None = None
    event_time: int | None = None
    transaction_id: str | None = None
    keys: tuple[str, ...] | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    server: str | None = None
    dialect: str = ""
    actions: tuple[Action, ...] | None = None
    is_time: bool = False


Event = RowChange | Control
