"""What a decoder says of one message: row changes and control events, values as canonical text.

They are `msgspec.Struct`s, which are made ten times as fast as frozen dataclasses: there is one a message, or one a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from framework.contracts.actions import Action


class Op(StrEnum):
    """What happened to a row. `READ` is a row of a snapshot."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    READ = "read"


class Half(StrEnum):
    """Which half of an update that its feed sends as two messages."""

    BEFORE = "before"
    AFTER = "after"


class ControlKind(StrEnum):
    """Events that are no row change. `HALF` is a message whose partner says the whole change, and waits for nothing."""

    DDL = "ddl"
    TRUNCATE = "truncate"
    HEARTBEAT = "heartbeat"
    TRANSACTION = "transaction"
    TOMBSTONE = "tombstone"
    HALF = "half"


class Token(StrEnum):
    """What the wire showed of a column that its feed does not declare; gold infers the type from all that it saw."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    JSON = "json"
    NULL = "null"


class Column(Struct, frozen=True):
    """A column of an image: exactly one of `type` (declared, canonical, as Spark SQL writes it) and `token` is set.

    `declared` is the source's own type text, None where the feed declares nothing.
    """

    type: str | None = None
    declared: str | None = None
    token: Token | None = None


Image = Mapping[str, str | None]


class RowChange(Struct, frozen=True):
    """One change of one row.

    `before` and `after` map column names to canonical text; a None value is SQL NULL; an image is None where the event
    has none. `partial` is true when columns missing from `after` are unchanged, false when they are null from now on.
    `columns` describes the columns in the source's own order. `keys` is None where the feed names no key, and empty
    never. `position` holds the numbers that order this change inside its source and epoch, the same count for every
    message of a format, most significant first; it is None for a snapshot row without a position, which sorts first.
    `is_time` says that this position is no more than a time, where the format's others may be more: several changes can
    share it. `event_time` is in microseconds of the epoch, None where the feed has none. `half` is set on one message of
    an update that arrives as two. `server` identifies the server that wrote the position, where the feed says it.
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


class Control(Struct, frozen=True):
    """A control event. `table` is None where the event speaks of no table; `statement` is the DDL's text.

    `columns` is a structured table definition, where the feed sends one beside (or instead of) the text.
    `position` and `is_time` as in `RowChange`; None where the event has no place in the order (a heartbeat). `dialect` is the SQL of
    the statement (mysql, oracle, postgres, tsql, db2; empty: unknown). `actions` is what the event does, where the
    decoder knows it without the text; None: the text tells.
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
