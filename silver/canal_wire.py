"""Canal's flat messages, shared by those who write them: one message, many rows, and the old values of changed columns.

    {"database": "shop", "table": "orders", "type": "UPDATE", "es": 1609344671000, "isDdl": false, "sql": "",
     "pkNames": ["id"], "mysqlType": {"id": "int(11)", "name": "varchar(20)"},
     "data": [{"id": "1", "name": "Ann"}], "old": [{"name": "Jane"}]}

    type                                                  becomes
    INSERT UPDATE DELETE                                  one change a row of `data`
    INIT                                                  read: a row of a snapshot; `es` is no place in the order
    INIT_DDL                                              ddl without effect: the structure that a snapshot begins with
    CREATE ALTER ERASE QUERY RENAME CINDEX DINDEX DDL     ddl (the statement is `sql`)
    TRUNCATE                                              truncate
    GTID XACOMMIT XAROLLBACK                              transaction
    TIDB_WATERMARK MHEARTBEAT                             heartbeat with a position

`data[i]` pairs with `old[i]`; `old` holds the changed columns alone, so the before image is `data[i]` overlaid with
`old[i]`: null there is a value, a column that is not there is unchanged. An `old` column that `data` lacks is in the
before image alone. `old` can be missing; the update then has no before image. Some write one row as an object in place
of a list of one; `INIT`, `INIT_DDL` and `DDL` are of those who copy tables first. Writers differ in how they spell values
and in what orders their messages: that is their `Dialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.actions import NoEffect
from framework.contracts.events import Column, Control, ControlKind, Event, Image, Op, RowChange, Token
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.cells import (
    TOKENS,
    C,
    Kinds,
    Recipe,
    Shape,
    Step,
    Texts,
    either,
    is_narrow,
    is_plain,
    joined_columns,
    shown,
    signature,
    undeclared_work,
)
from silver.format import Context
from silver.shared import Shared
from silver.types import undeclared_text
from silver.vocabulary import canonical_type, is_open_decimal, undeclared_token
from silver.wire import checked_keys, checked_width, required, time_of

_ROWS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE, "INIT": Op.READ}
_CONTROLS = {
    "TRUNCATE": ControlKind.TRUNCATE,
    **dict.fromkeys(("TIDB_WATERMARK", "MHEARTBEAT"), ControlKind.HEARTBEAT),
    **dict.fromkeys(("CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX", "DDL", "INIT_DDL"), ControlKind.DDL),
    **dict.fromkeys(("GTID", "XACOMMIT", "XAROLLBACK"), ControlKind.TRANSACTION),
}

_Row = dict[str, Any]


class TidbExtension(msgspec.Struct):
    """TiCDC's addition to a message."""

    commitTs: Raw = Raw()
    watermarkTs: Raw = Raw()
    onlyHandleKey: bool | None = None
    claimCheckLocation: str | None = None


class Envelope(msgspec.Struct, Generic[C]):
    """One flat message; its cells are plain or bytes."""

    type: str
    database: str | None = None
    table: str | None = None
    data: list[dict[str, C] | None] | dict[str, C] | None = None
    old: list[dict[str, C] | None] | dict[str, C] | None = None
    pkNames: list[str] | None = None
    mysqlType: dict[str, str | None] | None = None
    isDdl: bool | None = None
    sql: str | None = None
    es: Raw = Raw()
    id: Raw = Raw()
    gtid: str | None = None
    tidb: TidbExtension | None = msgspec.field(default=None, name="_tidb")


@dataclass(frozen=True, slots=True)
class Declared:
    """A column as a message declares it: its name, its canonical column, its codec where the configuration names one."""

    name: str
    column: Column
    codec: str | None = None


class Declarations(Shared[str, Declared]):
    """What the messages of a table declare."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """How one writer fills a flat message.

    `position_of` gives the numbers that order a message, the same count for every message, or raises `Malformed`.
    `text_of(declared, token, text, zone)` gives a value's canonical text; `conversion_of(declared, kind, zone)` what gives the
    same for a cell of a kind, None where a cell of that kind is its canonical text. `name_of` gives a name as the source has it.
    `sql` is the SQL of the statements, empty where the writer reads databases of several kinds.
    """

    position_of: Callable[[Envelope[Any]], tuple[int, ...]]
    text_of: Callable[[Declared, Token, str, str], str]
    conversion_of: Callable[[Declared, type, str], Callable[[Any], str] | None]
    name_of: Callable[[str], str] = str
    sql: str = ""


_ENVELOPE = either(Envelope)


def decode_flat(message: RawMessage, context: Context, dialect: Dialect) -> Sequence[Event]:
    """The row changes of one flat message, in its order, or its control event."""
    if message.value is None and message.key is not None:
        return (Control(kind=ControlKind.TOMBSTONE, op="tombstone"),)
    return _ENVELOPE.events(message.value, lambda envelope: _events(envelope, context, dialect))


def _events(envelope: Envelope[Any], context: Context, dialect: Dialect) -> Sequence[Event]:
    database = dialect.name_of(envelope.database or "") or None
    table = dialect.name_of(envelope.table or "") or None
    if envelope.type in _ROWS and not envelope.isDdl:
        table = required(table, Reason.MISSING_TABLE, "table")
        return _Reader(envelope, context, dialect, database, table).changes()
    kind = _CONTROLS.get(envelope.type)
    if kind is None:
        raise Malformed(Reason.UNKNOWN_OP, envelope.type[:100])
    return (
        Control(
            kind=kind,
            op=envelope.type,
            database=database,
            table=required(table, Reason.MISSING_TABLE, "table") if kind is ControlKind.TRUNCATE else table,
            statement=envelope.sql or None,
            position=dialect.position_of(envelope),
            event_time=time_of(envelope.es, "es"),
            transaction_id=envelope.gtid or None,
            dialect=dialect.sql if envelope.sql else "",
            actions=(NoEffect("structure"),) if envelope.type == "INIT_DDL" else None,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the rows of one message; its fields are all that a row depends on."""

    envelope: Envelope[Any]
    context: Context
    dialect: Dialect
    database: str | None
    table: str

    def changes(self) -> list[Event]:
        data, old = _listed(self.envelope.data), _listed(self.envelope.old)
        tidb = self.envelope.tidb
        if tidb is not None and (tidb.claimCheckLocation or (tidb.onlyHandleKey and self.envelope.type != "DELETE")):
            raise Malformed(Reason.MISSING_IMAGE, "TiCDC sent the key alone of a large row: raise its max-message-bytes")
        if not data or not all(data):
            raise Malformed(Reason.MISSING_IMAGE, f"{self.envelope.type} without data")
        if len(old) > len(data):
            raise Malformed(Reason.WRONG_SHAPE, f"old has {len(old)} rows, data has {len(data)}")
        declared = self._declared()
        padded = [*old, *[None] * (len(data) - len(old))]
        return [self._change(row, former, declared) for row, former in zip(data, padded, strict=True) if row is not None]

    def _declared(self) -> Mapping[str, Declared]:
        codecs = self.context.codecs_of(self.database, None, self.table)
        written = tuple((self.envelope.mysqlType or {}).items())
        if not codecs and is_narrow(written):
            return _declarations(written, self.dialect)
        types = {self.dialect.name_of(name): text for name, text in written}
        return {name: _declared(name, types.get(name), codecs.get(name)) for name in (*types, *codecs)}

    def _change(self, row: _Row, former: _Row | None, declared: Mapping[str, Declared]) -> RowChange:
        op = _ROWS[self.envelope.type]
        whole, columns = self._image(row, declared)
        before: Image | None = whole if op is Op.DELETE else None
        if op is Op.UPDATE and former is not None:
            old, old_columns = self._image(former, declared)
            before, columns = {**whole, **old}, joined_columns(columns, old_columns)
        after = None if op is Op.DELETE else whole
        names = [self.dialect.name_of(name) for name in self.envelope.pkNames or ()]
        return RowChange(
            op=op,
            database=self.database,
            schema=None,
            table=self.table,
            keys=checked_keys(names or self.context.keys_of(self.database, None, self.table), before, after),
            before=before,
            after=after,
            columns=columns,
            position=None if op is Op.READ else self.dialect.position_of(self.envelope),
            event_time=time_of(self.envelope.es, "es"),
            transaction_id=self.envelope.gtid or None,
        )

    def _image(self, row: _Row, declared: Mapping[str, Declared]) -> tuple[Texts, Mapping[str, Column]]:
        """The row as canonical text, and its columns."""
        if isinstance(declared, Declarations) and is_narrow(row):
            recipe = _recipe(*signature(row), declared, (self.dialect, self.context.timezone))
            if recipe is not None:
                return recipe.texts(row), recipe.shape
        checked_width(row)
        image: Texts = {}
        columns: dict[str, Column] = {}
        for written, cell in row.items():
            name = self.dialect.name_of(written)
            token, text = shown(cell)
            known = declared.get(name)
            if known is not None and known.column.type is not None:
                columns[name] = known.column
                image[name] = None if text is None else self.dialect.text_of(known, token, text, self.context.timezone)
                continue
            if known is not None:
                token = undeclared_token(known.column.declared, token, text)
            image[name] = undeclared_text(token, text)
            if name not in columns or columns[name].token is Token.NULL:
                columns[name] = Column(declared=known.column.declared, token=token) if known is not None else Column(token=token)
        return image, columns


@lru_cache(maxsize=1024)
def _declarations(written: tuple[tuple[str, str | None], ...], dialect: Dialect) -> Declarations:
    types = {dialect.name_of(name): text for name, text in written}
    return Declarations((name, _declared(name, text, None)) for name, text in types.items())


@lru_cache(maxsize=1024)
def _recipe(names: tuple[str, ...], kinds: Kinds, declared: Declarations, how: tuple[Dialect, str]) -> Recipe | None:
    """None where the cells are bytes, where a column depends on a value, or is written with another name than its own."""
    dialect, zone = how
    if not is_plain(kinds) or any(dialect.name_of(name) != name for name in names):
        return None
    work: list[Step] = []
    columns = Shape()
    for name, kind in zip(names, kinds, strict=True):
        known = declared.get(name)
        if known is not None and known.column.type is not None:
            columns[name] = known.column
            convert = dialect.conversion_of(known, kind, zone)
            work += () if convert is None else ((name, convert),)
            continue
        text = None if known is None else known.column.declared
        if kind is str and text is not None and is_open_decimal(text):
            return None
        columns[name] = Column(declared=text, token=TOKENS[kind])
        work += undeclared_work(name, kind)
    return Recipe(tuple(work), columns)


def _listed(rows: list[_Row | None] | _Row | None) -> list[_Row | None]:
    return [rows] if isinstance(rows, dict) else rows or []


def _declared(name: str, text: str | None, codec: str | None) -> Declared:
    column = Column(type=canonical_type(text, "mysql") if text else None, declared=text)
    return Declared(name, msgspec.structs.replace(column, type="string"), codec) if codec is not None else Declared(name, column)
