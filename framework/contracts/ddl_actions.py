"""The actions of a source's DDL statements on a table: one class for each action."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from framework.naming import dotted_name

_COMMENT: Any = field(default=None, repr=False, compare=False)
"""A comment is no part of what makes two actions equal, nor of their texts, of which tables keep digests."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as the source names it; `schema` is None where the source has two levels."""

    database: str | None
    schema: str | None
    table: str

    @property
    def dotted(self) -> str:
        """The name as people write it: `database.table` or `database.schema.table`."""
        return dotted_name(self.database, self.schema, self.table)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, or a column of a new table.

    Attributes:
        name: The column.
        type: The canonical type; None when the declared one has none.
        declared: The type as the statement writes it; None when the statement leaves it out.
        first: The column comes before all others.
        after: The column before it; None with `first` unset: it is the last one.
        default: What existing rows hold in the new column, as canonical text: the constant default, or the
            value that MySQL and DB2 write into a NOT NULL column without a default. None: no default, or
            null.
        has_expression_default: The source computes the value (a function, a sequence, a generated column).
        is_not_null: The column is declared NOT NULL, or is part of the key.
        comment: The column's comment; None where the statement has none.
    """

    name: str
    type: str | None
    declared: str | None
    first: bool = False
    after: str | None = None
    default: str | None = None
    has_expression_default: bool = False
    is_not_null: bool = False
    comment: str | None = _COMMENT


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column is dropped."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column gets another name."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ChangeType:
    """A column is declared again: with another type, another position, or the same ones.

    `comment` is the column's comment from now on, empty where it loses it; None where it keeps it.
    """

    name: str
    type: str | None
    declared: str | None
    first: bool = False
    after: str | None = None
    comment: str | None = _COMMENT


@dataclass(frozen=True, slots=True)
class RenameTable:
    """The table gets another name."""

    to: TableName


@dataclass(frozen=True, slots=True)
class DropTable:
    """The table is dropped."""


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """All tables are dropped of the database that the statement's table names; its own name is empty.

    Where that has a schema, they are the tables of the schema.
    """


@dataclass(frozen=True, slots=True)
class CreateTable:
    """The table is created.

    Attributes:
        columns: The columns in order; empty when the statement does not list them (LIKE, AS SELECT).
        keys: The columns of the primary key; None when the statement names none.
        like: The table whose columns it copies, before those listed.
        if_not_exists: The statement changes nothing if the table exists.
        comment: The table's comment; None where the statement has none.
    """

    columns: tuple[AddColumn, ...] = ()
    keys: tuple[str, ...] | None = None
    like: TableName | None = None
    if_not_exists: bool = False
    comment: str | None = _COMMENT


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """All rows are deleted."""


@dataclass(frozen=True, slots=True)
class SetKeys:
    """The primary key is these columns from now on; an empty tuple means that the table has none."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetComment:
    """A column gets a comment; the table where `column` is None. An empty text removes the comment."""

    text: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A change that rows and columns do not show: an index, a storage option, a privilege."""

    reason: str


DML = NoEffect("dml")
"""A statement about rows, which the feed carries as rows: its text may hold their values."""

IF_EXISTS = NoEffect("if exists")
"""The statement's later actions change nothing if the table does not exist."""

ERASE_WITHOUT_STATEMENT = "erase_without_statement"
"""The reason of an `Unsupported` that may have removed rows: an erasure that came without its statement."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Text that the parser does not understand, or a change that cannot be replayed: never "no effect"."""

    reason: str


Action = (
    AddColumn
    | DropColumn
    | RenameColumn
    | ChangeType
    | RenameTable
    | DropTable
    | DropDatabase
    | CreateTable
    | TruncateTable
    | SetKeys
    | SetComment
    | NoEffect
    | Unsupported
)


@dataclass(frozen=True, slots=True)
class Statement:
    """What one statement does to one table, in order.

    Attributes:
        text: The statement's own text, where it is one of several in a text; None: the whole text.
    """

    table: TableName
    actions: tuple[Action, ...]
    text: str | None = field(default=None, compare=False)


_CLASSES: dict[str, type[Action]] = {
    "AddColumn": AddColumn,
    "DropColumn": DropColumn,
    "RenameColumn": RenameColumn,
    "ChangeType": ChangeType,
    "RenameTable": RenameTable,
    "DropTable": DropTable,
    "DropDatabase": DropDatabase,
    "CreateTable": CreateTable,
    "TruncateTable": TruncateTable,
    "SetKeys": SetKeys,
    "SetComment": SetComment,
    "NoEffect": NoEffect,
    "NotUnderstood": Unsupported,
}
"""The classes by the tags that tables keep: a tag stays when its class gets another name."""
_TAGS = {kind: tag for tag, kind in _CLASSES.items()}


def tag_of(action: Action) -> str:
    """The tag of an action's kind in tables and in JSON output."""
    return _TAGS[type(action)]


def actions_text(actions: Iterable[Action]) -> str:
    """Actions as JSON, for the change table."""
    return json.dumps(
        [{"action": tag_of(a), **asdict(a, dict_factory=_members)} for a in actions],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an action, without a comment that it does not have."""
    return {name: value for name, value in members if name != "comment" or value is not None}


def has_effect(actions: Iterable[Action]) -> bool:
    """Whether one of these actions changes rows or columns, or may change them; False for no actions."""
    return any(not isinstance(action, NoEffect | SetComment) for action in actions)


def has_no_effect(actions: Sequence[Action]) -> bool:
    """Whether these actions, at least one, leave every table as it is."""
    return bool(actions) and not has_effect(actions)


def actions_of(text: str | None) -> tuple[Action, ...]:
    """The actions in a text that `actions_text` wrote; none for null."""
    return tuple(_action(item) for item in json.loads(text or "[]"))


def _action(item: dict[str, Any]) -> Action:
    values = dict(item)
    kind = _CLASSES[values.pop("action")]
    if kind is RenameTable:
        return RenameTable(TableName(**values["to"]))
    if kind is CreateTable:
        columns = tuple(AddColumn(**column) for column in values["columns"])
        like = None if values["like"] is None else TableName(**values["like"])
        keys = None if values["keys"] is None else tuple(values["keys"])
        return CreateTable(columns, keys, like, values["if_not_exists"], values.get("comment"))
    if kind is SetKeys:
        return SetKeys(tuple(values["keys"]))
    return kind(**values)
