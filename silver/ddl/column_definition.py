"""Column definitions: name, type, attributes, default and place among the columns."""

from __future__ import annotations

from collections.abc import Callable

from framework.contracts.ddl_actions import AddColumn, ChangeType
from silver.ddl.defaults import Constant, canonical_default, constant, implicit_default
from silver.ddl.keywords import COLUMN_FLAGS, COLUMN_VALUES, NEGATED, UNTYPED, VERBS
from silver.ddl.tokens import Cursor
from silver.values.sql_types import type_of_ddl

_CONTINUED: dict[str, frozenset[str]] = {
    "DOUBLE": frozenset({"PRECISION"}),
    "CHARACTER": frozenset({"VARYING", "LARGE", "OBJECT"}),
    "CHAR": frozenset({"VARYING", "LARGE", "OBJECT", "BYTE"}),
    "NCHAR": frozenset({"VARYING", "LARGE", "OBJECT"}),
    "BINARY": frozenset({"VARYING", "LARGE", "OBJECT"}),
    "BIT": frozenset({"VARYING"}),
    "NATIONAL": frozenset({"CHARACTER", "CHAR", "VARCHAR", "VARYING", "LARGE", "OBJECT"}),
    "LONG": frozenset({"RAW", "VARCHAR", "VARBINARY", "CHAR", "VARYING", "VARGRAPHIC"}),
    "INTERVAL": frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO"}),
}
_SIGNS = frozenset({"UNSIGNED", "SIGNED", "ZEROFILL"})
_ENDS = VERBS | {"", ",", "USING", "PARTITION", "REMOVE"}


def read_type(cursor: Cursor) -> str | None:
    """Reads the type here as it is written; None where the column has none."""
    word = cursor.word()
    if word in UNTYPED or word in VERBS or not cursor.is_name():
        return None
    start = cursor.i
    cursor.path()
    continued = _CONTINUED.get(word, frozenset())
    while True:
        if cursor.word() == "(":
            cursor.group()
        elif cursor.take_any(continued) or cursor.take_any(_SIGNS):
            pass
        elif (
            word in ("TIMESTAMP", "TIME")
            and cursor.word() in ("WITH", "WITHOUT")
            and cursor.word(1) in ("TIME", "LOCAL")
        ):
            cursor.i += 2
            cursor.take_any(frozenset({"TIME"}))
            cursor.need("ZONE")
        elif (
            cursor.at("FOR", "BIT", "DATA")
            or cursor.at("FOR", "SBCS", "DATA")
            or cursor.at("FOR", "MIXED", "DATA")
        ):
            cursor.i += 3
        else:
            break
    cursor.take("ARRAY")
    while cursor.word() == "[":
        while cursor.word() not in ("]", ""):
            cursor.i += 1
        cursor.need("]")
    return cursor.slice(start, cursor.i)


class ColumnReader:
    """Reads one column definition; the result is in its fields."""

    __slots__ = (
        "after",
        "comment",
        "cursor",
        "declared",
        "default",
        "first",
        "has_default",
        "is_binary",
        "is_computed",
        "is_key",
        "is_not_null",
        "is_with_values",
        "name",
    )

    def __init__(self, cursor: Cursor, name: str) -> None:
        self.cursor, self.name = cursor, name
        self.declared: str | None = None
        self.default: Constant | None = None
        self.has_default = self.is_computed = self.is_key = self.is_not_null = False
        self.is_binary = self.is_with_values = self.first = False
        self.after: str | None = None
        self.comment: str | None = None

    @classmethod
    def read(cls, cursor: Cursor, name: str | None = None) -> ColumnReader:
        """Reads `[name] [type] attributes…` up to what ends the definition."""
        reader = cls(cursor, cursor.name() if name is None else name)
        reader.declared = read_type(cursor)
        reader.read_attributes()
        return reader

    def read_attributes(self) -> None:
        """Reads attributes up to what ends the definition.

        Raises:
            UnsupportedDdl: An attribute is not known.
        """
        cursor = self.cursor
        while True:
            word = cursor.word()
            handler = _ATTRIBUTES.get(word)
            if handler is not None:
                cursor.i += 1
                handler(self)
            elif word in COLUMN_FLAGS:
                cursor.i += 1
            elif word in COLUMN_VALUES:
                cursor.i += 1
                cursor.take("=")
                if cursor.is_end():
                    raise cursor.unsupported()
                cursor.i += 1
            elif word in _ENDS:
                return
            else:
                raise cursor.unsupported()

    @property
    def type(self) -> str | None:
        """The canonical type."""
        found = None if self.declared is None else type_of_ddl(self.declared, self.cursor.dialect)
        return "binary" if self.is_binary and found == "string" else found

    def add_action(self, is_existing: bool) -> AddColumn:
        """The action that adds the column. `is_existing`: the table exists and may have rows."""
        if self.declared is None and not self.is_computed:
            raise self.cursor.unsupported()
        default, is_expression = self._default(is_existing)
        return AddColumn(
            self.name,
            self.type,
            self.declared,
            self.first,
            self.after,
            default,
            is_expression,
            self.is_not_null or self.is_key,
            self.comment,
        )

    def change_action(self) -> ChangeType:
        """The action that changes the column's declaration. In MySQL it is whole: no comment removes it."""
        comment = "" if self.comment is None and self.cursor.dialect == "mysql" else self.comment
        return ChangeType(self.name, self.type, self.declared, self.first, self.after, comment)

    def _default(self, is_existing: bool) -> tuple[str | None, bool]:
        dialect, declared = self.cursor.dialect, self.declared or ""
        if (
            self.is_computed
            or declared.lower().endswith("serial")
            or declared.lower() in ("rowversion", "serial8", "serial4")
        ):
            return None, True
        if self.has_default and self.default is not None:
            if dialect == "tsql" and is_existing and not (self.is_not_null or self.is_with_values):
                return None, False
            return canonical_default(self.default, self.type, declared, dialect)
        if self.has_default or (dialect in ("mysql", "") and is_existing and self.is_not_null):
            return implicit_default(self.type, declared, dialect)
        return None, False

    def _read_default(self) -> None:
        cursor = self.cursor
        cursor.take("ON", "NULL")
        cursor.take("FOR", "INSERT", "ONLY")
        self.has_default = True
        if self._is_at_boundary() and cursor.word() != "NULL":
            return
        start = cursor.i
        self.default = constant(cursor)
        if self.default is None or not self._is_at_boundary():
            cursor.i, self.default, self.is_computed = start, None, True
            self._skip_expression()

    def _is_at_boundary(self) -> bool:
        word = self.cursor.word()
        return word in _ATTRIBUTES or word in COLUMN_FLAGS or word in COLUMN_VALUES or word in _ENDS

    def _skip_expression(self) -> None:
        cursor, start = self.cursor, self.cursor.i
        while not cursor.is_end() and (cursor.i == start or not self._is_at_boundary()):
            if cursor.word() == "(":
                cursor.group()
            elif cursor.take("["):
                while cursor.word() not in ("]", ""):
                    cursor.i += 1
            else:
                cursor.i += 1
        if cursor.i == start:
            raise cursor.unsupported()

    def _read_not(self) -> None:
        if self.cursor.take("NULL"):
            self.is_not_null = True
        elif not self.cursor.take("FOR", "REPLICATION") and not self.cursor.take_any(NEGATED):
            raise self.cursor.unsupported()

    def _read_null(self) -> None:
        """Does nothing: a column allows null by default."""

    def _read_key(self) -> None:
        self.is_key = True
        self.cursor.take("KEY")
        self._skip_index()

    def _read_unique(self) -> None:
        self.cursor.take_any(frozenset({"KEY", "INDEX"}))
        if not self.cursor.take("NULLS", "NOT", "DISTINCT"):
            self.cursor.take("NULLS", "DISTINCT")
        self._skip_index()

    def _skip_index(self) -> None:
        if self.cursor.take("USING", "INDEX") and not self._is_at_boundary():
            self._skip_expression()

    def _read_bare_key(self) -> None:
        if self.cursor.dialect not in ("mysql", ""):
            raise self.cursor.unsupported()
        self.is_key = True

    def _read_sequence(self) -> None:
        self.is_computed = self.is_not_null = True
        if self.cursor.word() == "(":
            self.cursor.group()

    def _read_generated(self) -> None:
        cursor = self.cursor
        if cursor.take("BY"):
            cursor.need("DEFAULT")
            cursor.take("ON", "NULL")
        else:
            cursor.take("ALWAYS")
        cursor.take("FOR", "EACH", "ROW", "ON", "UPDATE")
        cursor.need("AS")
        if cursor.take("IDENTITY"):
            self._read_sequence()
        else:
            self._read_computed()

    def _read_computed(self) -> None:
        self.is_computed = True
        self._skip_expression()

    def _read_constraint(self) -> None:
        self.cursor.path()

    def _read_check(self) -> None:
        self.cursor.take("NOT", "FOR", "REPLICATION")
        self.cursor.group()

    def _read_references(self) -> None:
        self.cursor.path()
        if self.cursor.word() == "(":
            self.cursor.group()

    def _read_on(self) -> None:
        cursor = self.cursor
        if cursor.take_any(frozenset({"DELETE", "UPDATE"})) and (cursor.take("SET") or cursor.take("NO")):
            cursor.i += 1
            return
        cursor.path()
        if cursor.word() == "(":
            cursor.group()

    def _read_character_set(self) -> None:
        self.cursor.need("SET")
        self._read_charset()

    def _read_charset(self) -> None:
        self.cursor.take("=")
        if self.cursor.is_end():
            raise self.cursor.unsupported()
        self.is_binary = self.cursor.word() == "BINARY"
        self.cursor.i += 1

    def _read_collate(self) -> None:
        self.cursor.take("=")
        if self.cursor.word() == "'":
            self.cursor.i += 1
        else:
            self.cursor.path()

    def _read_with(self) -> None:
        cursor = self.cursor
        if cursor.take("VALUES"):
            self.is_with_values = True
        elif cursor.take("DEFAULT"):
            self._read_default()
        elif cursor.word() == "(":
            cursor.group()
        elif not cursor.take("SYSTEM", "VERSIONING"):
            raise cursor.unsupported()

    def _read_masked(self) -> None:
        self.cursor.need("WITH")
        self.cursor.group()

    def _read_without(self) -> None:
        self.cursor.need("SYSTEM")
        self.cursor.need("VERSIONING")

    def _read_encrypt(self) -> None:
        self.cursor.skip_to_comma()

    def _read_no(self) -> None:
        self.cursor.need("INHERIT")

    def _read_inline(self) -> None:
        self.cursor.need("LENGTH")
        self.cursor.need("0")

    def _read_comment(self) -> None:
        self.comment = self.cursor.comment()

    def _read_first(self) -> None:
        self.first = True

    def _read_after(self) -> None:
        self.after = self.cursor.name()


_ATTRIBUTES: dict[str, Callable[[ColumnReader], None]] = {
    "NOT": ColumnReader._read_not,
    "NULL": ColumnReader._read_null,
    "DEFAULT": ColumnReader._read_default,
    "PRIMARY": ColumnReader._read_key,
    "KEY": ColumnReader._read_bare_key,
    "UNIQUE": ColumnReader._read_unique,
    "AUTO_INCREMENT": ColumnReader._read_sequence,
    "AUTOINCREMENT": ColumnReader._read_sequence,
    "AUTO_RANDOM": ColumnReader._read_sequence,
    "IDENTITY": ColumnReader._read_sequence,
    "GENERATED": ColumnReader._read_generated,
    "AS": ColumnReader._read_computed,
    "CONSTRAINT": ColumnReader._read_constraint,
    "CHECK": ColumnReader._read_check,
    "REFERENCES": ColumnReader._read_references,
    "ON": ColumnReader._read_on,
    "CHARACTER": ColumnReader._read_character_set,
    "CHARSET": ColumnReader._read_charset,
    "COLLATE": ColumnReader._read_collate,
    "WITH": ColumnReader._read_with,
    "WITHOUT": ColumnReader._read_without,
    "MASKED": ColumnReader._read_masked,
    "ENCRYPTED": ColumnReader._read_masked,
    "ENCRYPT": ColumnReader._read_encrypt,
    "NO": ColumnReader._read_no,
    "INLINE": ColumnReader._read_inline,
    "COMMENT": ColumnReader._read_comment,
    "FIRST": ColumnReader._read_first,
    "AFTER": ColumnReader._read_after,
}
