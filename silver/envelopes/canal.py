"""Canal's flat messages, which several writers use: many rows each, and old values of changed columns.

    {"database": "shop", "table": "orders", "type": "UPDATE", "es": 1609344671000, "isDdl": false, "sql": "",
     "pkNames": ["id"], "mysqlType": {"id": "int(11)", "name": "varchar(20)"},
     "data": [{"id": "1", "name": "Ann"}], "old": [{"name": "Jane"}]}

    type                                                  becomes
    INSERT UPDATE DELETE                                  one change a row of `data`
    INIT                                                  read: a row of a snapshot; `es` does not order it
    INIT_DDL                                              ddl without effect: the structure before a snapshot
    CREATE ALTER ERASE QUERY RENAME CINDEX DINDEX DDL     ddl (the statement is `sql`); an ERASE without `sql`
                                                          drops its table
    TRUNCATE                                              truncate
    GTID XACOMMIT XAROLLBACK                              transaction
    TIDB_WATERMARK MHEARTBEAT                             heartbeat with a position

`data[i]` pairs with `old[i]`. `old` has only the changed columns, so the before image is `data[i]` overlaid
with `old[i]`: null there is a value, a missing column is unchanged. A column of `old` that `data` lacks is
only in the before image. `old` can be missing; the update then has no before image. Some writers send one row
as an object, not as a list of one. Writers that copy tables first send `INIT`, `INIT_DDL` and `DDL`. Writers
differ in how they write values and in what orders their messages: that is their `Dialect`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic

import msgspec
from msgspec import Raw, structs

from framework.contracts.ddl_actions import Action, DropTable, NoEffect
from framework.contracts.events import Column, Control, ControlKind, Event, Image, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.text.formatting import quantity
from silver.decoding.cells import TOKENS, C, Kinds, Texts, is_plain, read_cell
from silver.decoding.dual_decoder import dual_decoder
from silver.decoding.format import Context
from silver.decoding.interning import Shared
from silver.decoding.json_reader import (
    BY_PARTITION,
    checked_keys,
    checked_width,
    number_of,
    required,
    time_of,
)
from silver.decoding.row_plans import (
    ColumnSet,
    RowPlan,
    Step,
    cell_signature,
    is_narrow,
    joined_columns,
    undeclared_steps,
)
from silver.envelopes.configured_columns import (
    ConfiguredColumns,
    Reader,
    configured_columns,
    configured_text,
)
from silver.values.canonical import undeclared_text
from silver.values.declared_types import is_open_decimal, type_of_declaration, undeclared_token

_ROWS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE, "INIT": Op.READ}
_CONTROLS = {
    "TRUNCATE": ControlKind.TRUNCATE,
    **dict.fromkeys(("TIDB_WATERMARK", "MHEARTBEAT"), ControlKind.HEARTBEAT),
    **dict.fromkeys(
        ("CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX", "DDL", "INIT_DDL"),
        ControlKind.DDL,
    ),
    **dict.fromkeys(("GTID", "XACOMMIT", "XAROLLBACK"), ControlKind.TRANSACTION),
}

_FILE = re.compile(r"/|\.(?:jsonl?|ndjson|txt|log|gz|zst)$", re.IGNORECASE)
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
class ColumnDeclaration:
    """A column as a message declares it: name, canonical column, and the codec if one is configured."""

    name: str
    column: Column
    codec: str | None = None


class Declarations(Shared[str, ColumnDeclaration]):
    """The columns that the messages of a table declare, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """How one writer fills a flat message.

    Attributes:
        position_of: Gives the numbers that order a message, the same count for every message, or raises
            `Malformed`.
        text_of: Gives the canonical text of a value for (declaration, token, text, zone).
        conversion_of: Gives the function that does this for a cell of a kind, for (declaration, kind, zone);
            None where a cell of that kind is canonical text.
        name_of: Gives a name as the source spells it.
        sql_of: Gives the SQL dialect of a statement; empty where it is not known.
        bytes_types: Declared types, in lower case, whose values the writer sends as bytes although they have
            no canonical type of their own.
        configured_text: Gives the canonical text of a value whose type only the configuration says.
        names_from_topic: The topic names the table of a row whose message does not.
    """

    position_of: Callable[[Envelope[Any]], tuple[int, ...]]
    text_of: Callable[[ColumnDeclaration, Token, str, str], str]
    conversion_of: Callable[[ColumnDeclaration, type, str], Callable[[Any], str] | None]
    sql_of: Callable[[str], str]
    name_of: Callable[[str], str] = str
    bytes_types: frozenset[str] = frozenset()
    configured_text: Reader = configured_text
    names_from_topic: bool = False


_ENVELOPE = dual_decoder(Envelope)


def decode_flat(message: RawMessage, context: Context, dialect: Dialect) -> Sequence[Event]:
    """The row changes of one flat message, in order, or its control event."""
    if message.value is None and message.key is not None:
        return (Control(kind=ControlKind.TOMBSTONE, op="tombstone"),)
    return _ENVELOPE.events(
        message.value,
        lambda envelope: _events(_with_topic_names(envelope, message.topic, dialect), context, dialect),
    )


def _with_topic_names(envelope: Envelope[Any], topic: str, dialect: Dialect) -> Envelope[Any]:
    """The envelope with the names of its topic, where it has none itself and the topic is not a file."""
    if envelope.table or not dialect.names_from_topic or _FILE.search(topic):
        return envelope
    *before, table = topic.split(".")
    return structs.replace(
        envelope, table=table, database=envelope.database or (before[-1] if before else None)
    )


def _events(envelope: Envelope[Any], context: Context, dialect: Dialect) -> Sequence[Event]:
    database = dialect.name_of(envelope.database or "") or None
    table = dialect.name_of(envelope.table or "") or None
    if envelope.type in _ROWS and not envelope.isDdl:
        if table is None and number_of(envelope.es, "es") is None:
            raise Malformed(Reason.MISSING_TABLE, f"table and es are missing: {BY_PARTITION}")
        table = required(table, Reason.MISSING_TABLE, "table")
        return _Reader(envelope, context, dialect, database, table).changes()
    kind = _CONTROLS.get(envelope.type)
    if kind is None:
        raise Malformed(Reason.UNKNOWN_OP, envelope.type[:100])
    statement = envelope.sql if envelope.sql and envelope.sql.strip() else None
    return (
        Control(
            kind=kind,
            op=envelope.type,
            database=database,
            table=required(table, Reason.MISSING_TABLE, "table") if kind is ControlKind.TRUNCATE else table,
            statement=statement,
            position=dialect.position_of(envelope),
            event_time=time_of(envelope.es, "es"),
            transaction_id=envelope.gtid or None,
            dialect=dialect.sql_of(statement) if statement else "",
            actions=_known_actions(envelope.type, table, statement),
        ),
    )


def _known_actions(word: str, table: str | None, statement: str | None) -> tuple[Action, ...] | None:
    """What a word does whatever its statement is; None where the statement decides."""
    if word == "INIT_DDL":
        return (NoEffect("structure"),)
    return (DropTable(),) if word == "ERASE" and table and statement is None else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the rows of one message; the fields are everything that a row depends on."""

    envelope: Envelope[Any]
    context: Context
    dialect: Dialect
    database: str | None
    table: str

    def changes(self) -> list[Event]:
        data, old = _listed(self.envelope.data), _listed(self.envelope.old)
        tidb = self.envelope.tidb
        if tidb is not None and (
            tidb.claimCheckLocation or (tidb.onlyHandleKey and self.envelope.type != "DELETE")
        ):
            raise Malformed(
                Reason.MISSING_IMAGE, "TiCDC sent the key alone of a large row: raise its max-message-bytes"
            )
        if not data or not all(data):
            raise Malformed(Reason.MISSING_IMAGE, f"{self.envelope.type} without data")
        if len(old) > len(data):
            raise Malformed(
                Reason.WRONG_SHAPE, f"old has {quantity(len(old), 'row')}, data has {len(data):,}"
            )
        declared, keys = self._declared(), self._keys()
        read = configured_columns(
            self.context, (self.database, None, self.table), self.dialect.configured_text
        )
        padded = [*old, *[None] * (len(data) - len(old))]
        return [
            self._change(row, former, (declared, read), keys)
            for row, former in zip(data, padded, strict=True)
            if row is not None
        ]

    def _keys(self) -> Sequence[str] | None:
        """The names of the key, each once: the rows of a message may be as many as its names."""
        named = tuple(dict.fromkeys(map(self.dialect.name_of, self.envelope.pkNames or ())))
        return named or self.context.keys_for(self.database, None, self.table)

    def _declared(self) -> Mapping[str, ColumnDeclaration]:
        codecs = self.context.codecs_for(self.database, None, self.table)
        written = tuple((self.envelope.mysqlType or {}).items())
        if not codecs and is_narrow(written):
            return _declarations(written, self.dialect)
        types = {self.dialect.name_of(name): text for name, text in written}
        return {
            name: _declared(name, types.get(name), codecs.get(name), self.dialect)
            for name in (*types, *codecs)
        }

    def _change(
        self,
        row: _Row,
        former: _Row | None,
        how: tuple[Mapping[str, ColumnDeclaration], ConfiguredColumns],
        keys: Sequence[str] | None,
    ) -> RowChange:
        declared, configured = how
        op = _ROWS[self.envelope.type]
        whole, columns = configured.row(*self._image(row, declared))
        before: Image | None = whole if op is Op.DELETE else None
        if op is Op.UPDATE and former is not None:
            old, old_columns = configured.row(*self._image(former, declared))
            before, columns = {**whole, **old}, joined_columns(columns, old_columns)
        after = None if op is Op.DELETE else whole
        return RowChange(
            op=op,
            database=self.database,
            schema=None,
            table=self.table,
            keys=checked_keys(keys, before, after),
            before=before,
            after=after,
            columns=columns,
            position=None if op is Op.READ else self.dialect.position_of(self.envelope),
            event_time=time_of(self.envelope.es, "es"),
            transaction_id=self.envelope.gtid or None,
            is_of_record=op is not Op.READ and not keys and _has_commit(self.envelope),
        )

    def _image(
        self, row: _Row, declared: Mapping[str, ColumnDeclaration]
    ) -> tuple[Texts, Mapping[str, Column]]:
        """The row as canonical text, and its columns."""
        if isinstance(declared, Declarations) and is_narrow(row):
            plan = _row_plan(*cell_signature(row), declared, (self.dialect, self.context.timezone))
            if plan is not None:
                return plan.texts(row), plan.columns
        checked_width(row)
        image: Texts = {}
        columns: dict[str, Column] = {}
        for written, cell in row.items():
            name = self.dialect.name_of(written)
            token, text = read_cell(cell)
            known = declared.get(name)
            if known is not None and known.column.type is not None:
                columns[name] = known.column
                image[name] = (
                    None if text is None else self.dialect.text_of(known, token, text, self.context.timezone)
                )
                continue
            if known is not None:
                token = undeclared_token(known.column.declared, token, text)
            image[name] = undeclared_text(token, text)
            if name not in columns or columns[name].token is Token.NULL:
                columns[name] = (
                    Column(declared=known.column.declared, token=token)
                    if known is not None
                    else Column(token=token)
                )
        return image, columns


@lru_cache(maxsize=1024)
def _declarations(written: tuple[tuple[str, str | None], ...], dialect: Dialect) -> Declarations:
    types = {dialect.name_of(name): text for name, text in written}
    return Declarations((name, _declared(name, text, None, dialect)) for name, text in types.items())


@lru_cache(maxsize=1024)
def _row_plan(
    names: tuple[str, ...], kinds: Kinds, declared: Declarations, how: tuple[Dialect, str]
) -> RowPlan | None:
    """The plan of a row; None where cells are bytes, a column depends on its value, or a name is changed."""
    dialect, zone = how
    if not is_plain(kinds) or any(dialect.name_of(name) != name for name in names):
        return None
    steps: list[Step] = []
    columns = ColumnSet()
    for name, kind in zip(names, kinds, strict=True):
        known = declared.get(name)
        if known is not None and known.column.type is not None:
            columns[name] = known.column
            convert = dialect.conversion_of(known, kind, zone)
            steps += () if convert is None else ((name, convert),)
            continue
        text = None if known is None else known.column.declared
        if kind is str and text is not None and is_open_decimal(text):
            return None
        columns[name] = Column(declared=text, token=TOKENS[kind])
        steps += undeclared_steps(name, kind)
    return RowPlan(tuple(steps), columns)


def _has_commit(envelope: Envelope[Any]) -> bool:
    """Whether the position names the transaction, as TiCDC's does, and is not only a time."""
    return envelope.tidb is not None and bool(number_of(envelope.tidb.commitTs, "_tidb.commitTs"))


def _listed(rows: list[_Row | None] | _Row | None) -> list[_Row | None]:
    return [rows] if isinstance(rows, dict) else rows or []


def _declared(name: str, text: str | None, codec: str | None, dialect: Dialect) -> ColumnDeclaration:
    kind = (
        "binary"
        if (text or "").lower() in dialect.bytes_types
        else type_of_declaration(text, "mysql")
        if text
        else None
    )
    column = Column(type=kind, declared=text)
    return (
        ColumnDeclaration(name, msgspec.structs.replace(column, type="string"), codec)
        if codec is not None
        else ColumnDeclaration(name, column)
    )
