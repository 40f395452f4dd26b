"""The clauses of ALTER TABLE, each as its actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    DropColumn,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetComment,
    SetKeys,
    TableName,
    TruncateTable,
    Unsupported,
)
from silver.ddl.action_order import executable_order, without_existing
from silver.ddl.alter_column import read_alter_column, read_change, read_modify
from silver.ddl.column_definition import ColumnReader
from silver.ddl.constraints import INDEX_WORDS, PARTITION_ROWS, is_element, read_element, take_existence
from silver.ddl.keywords import DROPPED_ELEMENTS, MYSQL_TABLE_OPTIONS, ROW_CLAUSES, TABLE_OPTIONS, VERBS
from silver.ddl.name_resolution import Scope
from silver.ddl.tokens import Cursor, UnsupportedDdl

MOST_CLAUSES = 2_000
"""The most clauses of one ALTER TABLE: few tables have more columns, and all clauses are compared."""
_PARTS = frozenset({"PARTITION", "SUBPARTITION"})
_LIST_ENDS = frozenset({"", ","})
_SECOND_WORDS = {
    "PERIOD": "FOR",
    "SYSTEM": "VERSIONING",
    "SUPPLEMENTAL": "LOG",
    "MATERIALIZED": "QUERY",
    "UNUSED": "COLUMNS",
    "COLUMNS": "CONTINUE",
}


class AlterReader:
    """Reads the clauses of one ALTER TABLE from a cursor."""

    def __init__(self, cursor: Cursor, scope: Scope, table: TableName) -> None:
        self.cursor, self.scope, self.table = cursor, scope, table
        self.actions: list[Action] = []
        self.listed = ""
        self.altered: set[str] = set()
        self.optional, self.is_unsure = list[Action](), False
        self.options = MYSQL_TABLE_OPTIONS if cursor.dialect == "mysql" else TABLE_OPTIONS

    def read(self) -> tuple[Action, ...]:
        """The actions of all clauses, in order.

        A clause that is not understood gives `Unsupported` in its place.
        """
        cursor = self.cursor
        while not cursor.is_end():
            start, kept = cursor.i, len(self.actions)
            try:
                self._clause()
                if cursor.i == start or not self._is_separated():
                    raise cursor.unsupported()
            except UnsupportedDdl as problem:
                del self.actions[kept:]
                self.actions.append(Unsupported(str(problem)))
                self.listed = ""
                cursor.skip_to_comma()
            cursor.take(",")
        if self._adds_what_it_alters():
            self.actions.append(Unsupported("it alters a column that it adds"))
        if len(self.actions) > MOST_CLAUSES:
            return (Unsupported(f"more than {MOST_CLAUSES:,} clauses"),)
        if cursor.dialect == "mysql" and not self.is_unsure:
            self.actions = without_existing(self.actions, self.optional)
        return executable_order(self.actions) or (NoEffect("empty"),)

    def _is_separated(self) -> bool:
        """Whether another clause may start here: after a comma, and except in MySQL also without one."""
        word = self.cursor.word()
        if word in _LIST_ENDS or word in ("PARTITION", "REMOVE") or word in self.options:
            return True
        return self.cursor.dialect != "mysql" and (word in _CLAUSES or word in ROW_CLAUSES)

    def _clause(self) -> None:
        cursor = self.cursor
        word = cursor.word()
        handler = _CLAUSES.get(word)
        if handler is not None:
            cursor.i += 1
            self.listed = ""
            handler(self)
        elif (
            self.listed
            and cursor.is_name()
            and cursor.word(1) != "="
            and (cursor.dialect == "tsql" or word not in self.options)
        ):
            self._continue(self.listed)
        elif self.listed and cursor.dialect == "" and cursor.between(cursor.i + 1, cursor.end).is_name():
            # the database is unknown: it may be an option of the table or a column of that name
            raise cursor.unsupported()
        elif word in ROW_CLAUSES:
            self._rows(word)
        elif cursor.word(1) in ("PARTITION", "PARTITIONS", "SUBPARTITION"):
            self._ignore_list("partition")
        elif cursor.take("COMMENT"):
            self.actions.append(SetComment(cursor.comment() or ""))
        elif word in self.options or cursor.word(1) == "=":
            self._ignore("table option")
        else:
            raise cursor.unsupported()

    def _ignore(self, reason: str) -> None:
        self.cursor.skip_clause()
        self.actions.append(NoEffect(reason))

    def _ignore_list(self, reason: str) -> None:
        """Skips a clause that is itself a list, up to a comma before a verb."""
        cursor = self.cursor
        cursor.skip_clause()
        while cursor.word() == "," and cursor.word(1) not in VERBS:
            cursor.i += 1
            cursor.skip_clause()
        self.actions.append(NoEffect(reason))

    def _refuse_rest(self, reason: str) -> None:
        self.cursor.skip_rest()
        self.actions.append(Unsupported(reason))

    def _existence(self) -> None:
        self.is_unsure |= self.cursor.at("IF", "EXISTS")
        take_existence(self.cursor)

    def _rows(self, word: str) -> None:
        cursor = self.cursor
        if word == "TRUNCATE" and cursor.at("TRUNCATE", "PARTITION", "ALL"):
            cursor.i += 3
            self.actions.append(TruncateTable())
        else:
            is_part = not _PARTS.isdisjoint((cursor.word(1), cursor.word(2)))
            self._refuse_rest(PARTITION_ROWS if is_part else "the table's rows change outside of the feed")

    def _add(self) -> None:
        cursor = self.cursor
        if cursor.at("COLUMN", "GROUP", "("):
            self._ignore("column group")
        elif cursor.take("RESTRICT", "ON", "DROP"):
            self.actions.append(NoEffect("table option"))
        elif cursor.take("COLUMN") or cursor.at("IF", "NOT", "EXISTS"):
            kept, is_optional = len(self.actions), cursor.at("IF", "NOT", "EXISTS")
            self._existence()
            self._add_columns()
            if is_optional:
                self.optional += self.actions[kept:]
        elif cursor.word() == "(":
            self._add_columns()
        elif (
            cursor.word() in ("PARTITION", "SUBPARTITION", "VALUES")
            and cursor.word(1) != "="
            and cursor.dialect != "postgres"
        ):
            self._ignore_list("partition")
        elif self._is_element():
            self._element(cursor)
        else:
            self._add_columns()

    def _add_columns(self) -> None:
        cursor = self.cursor
        if cursor.word() != "(":
            self._add_column(cursor)
            self.listed = "ADD" if cursor.dialect in ("tsql", "") else ""
            return
        inner = cursor.group()
        while not inner.is_end():
            if is_element(inner):
                self._element(inner)
            else:
                self._add_column(inner)
            if not inner.is_end():
                inner.need(",")
        if cursor.dialect in ("oracle", ""):
            cursor.skip_clause()

    def _add_column(self, cursor: Cursor) -> None:
        column = ColumnReader.read(cursor)
        self.actions.append(column.add_action(is_existing=True))
        if column.is_key:
            self.actions.append(SetKeys((column.name,)))

    def _is_element(self) -> bool:
        return (
            is_element(self.cursor)
            or self.cursor.at("SYSTEM", "VERSIONING")
            or self.cursor.at("MATERIALIZED", "QUERY")
        )

    def _element(self, cursor: Cursor) -> None:
        keys = read_element(cursor)
        self.actions.append(NoEffect("constraint or index") if keys is None else SetKeys(keys))
        self.listed = "ADD" if cursor.dialect in ("tsql", "") else ""

    def _drop(self) -> None:
        cursor = self.cursor
        word = cursor.word()
        if cursor.at("COLUMN", "GROUP", "("):
            self._ignore("column group")
        elif word == "TABLEGROUP" and cursor.word(1) in _LIST_ENDS and cursor.dialect in ("mysql", "oracle"):
            self._ignore("table option")
        elif cursor.take("COLUMN"):
            self._drop_columns()
        elif word == "(":
            self.actions += [DropColumn(name) for name in cursor.names()]
            cursor.skip_clause()
        elif cursor.take("PRIMARY", "KEY"):
            self._keys_gone()
        elif cursor.take("RESTRICT", "ON", "DROP"):
            self.actions.append(NoEffect("table option"))
        elif word in ("PARTITION", "SUBPARTITION") and cursor.dialect != "postgres":
            self._refuse_rest(PARTITION_ROWS)
        elif word in DROPPED_ELEMENTS and self._drops_element():
            self._drop_element()
        elif cursor.dialect == "tsql":
            self._drop_element(bare="CONSTRAINT")
        else:
            self._drop_columns()

    def _keys_gone(self) -> None:
        self.cursor.skip_clause()
        self.actions.append(SetKeys(()))

    def _drops_element(self) -> bool:
        word, following = self.cursor.word(), self.cursor.word(1)
        if word == "INDEX" and self.cursor.dialect == "oracle":
            return True
        if word in INDEX_WORDS and self.cursor.dialect not in ("mysql", "tsql", ""):
            return False
        if word == "UNIQUE":
            return following not in (*_LIST_ENDS, "CASCADE", "RESTRICT")
        return _SECOND_WORDS.get(word, following) == following

    def _drop_element(self, bare: str = "") -> None:
        cursor = self.cursor
        kind = bare or cursor.word()
        cursor.i += not bare
        self._existence()
        if kind in (*INDEX_WORDS, "CONSTRAINT") and self._is_primary():
            self._keys_gone()
            return
        cursor.skip_clause()
        self.actions.append(NoEffect("constraint or index"))
        self.listed = "DROP CONSTRAINT" if kind == "CONSTRAINT" and cursor.dialect in ("tsql", "") else ""

    def _is_primary(self) -> bool:
        cursor = self.cursor
        return (
            cursor.dialect in ("mysql", "")
            and cursor.is_name()
            and str(cursor.tokens[cursor.i].text).upper() == "PRIMARY"
        )

    def _drop_columns(self) -> None:
        cursor = self.cursor
        self._existence()
        if cursor.word() == "(":
            self.actions += [DropColumn(name) for name in cursor.names()]
        else:
            self.actions.append(DropColumn(cursor.name()))
        while cursor.take_any(
            frozenset({"CASCADE", "RESTRICT", "CONSTRAINTS", "INVALIDATE", "CHECKPOINT", "0", "ONLINE"})
        ):
            pass
        self.listed = "DROP COLUMN" if cursor.dialect in ("tsql", "") else ""

    def _continue(self, listed: str) -> None:
        cursor = self.cursor
        if listed == "ADD":
            if is_element(cursor):
                self._element(cursor)
            else:
                self._add_columns()
        elif cursor.take("COLUMN") or (listed == "DROP COLUMN" and cursor.word() != "CONSTRAINT"):
            self._drop_columns()
        else:
            cursor.take("CONSTRAINT")
            self._existence()
            cursor.name()
            cursor.skip_clause()
            self.actions.append(NoEffect("constraint or index"))
            self.listed = "DROP CONSTRAINT"

    def _modify(self) -> None:
        self.actions += read_modify(self.cursor)

    def _change(self) -> None:
        self.is_unsure |= self.cursor.at("IF", "EXISTS") or self.cursor.at("COLUMN", "IF", "EXISTS")
        self.actions += read_change(self.cursor)

    def _alter(self) -> None:
        start = self.cursor.i
        self.actions += read_alter_column(self.cursor)
        named = self.cursor.between(start, self.cursor.i)
        named.take("COLUMN")
        take_existence(named)
        self.altered.add(named.name().lower() if named.is_name() else "")

    def _adds_what_it_alters(self) -> bool:
        """Whether the statement changes the default of a column that it adds.

        In MySQL the rows get the last default.
        """
        added = {action.name.lower() for action in self.actions if isinstance(action, AddColumn)}
        return self.cursor.dialect in ("mysql", "") and not added.isdisjoint(self.altered)

    def _rename(self) -> None:
        cursor = self.cursor
        if cursor.take("COLUMN"):
            self._existence()
            self._rename_column()
        elif (
            cursor.word() in ("INDEX", "KEY", "CONSTRAINT", "PARTITION", "SUBPARTITION")
            and cursor.word(1) != "TO"
        ):
            self._ignore("constraint or index")
        elif cursor.take("TO") or cursor.take("AS") or cursor.take("="):
            self._rename_table()
        elif cursor.is_name() and cursor.word(1) == "TO":
            self._rename_column()
        else:
            self._rename_table()

    def _rename_column(self) -> None:
        old = self.cursor.name()
        self.cursor.need("TO")
        self.actions.append(RenameColumn(old, self.cursor.name()))

    def _rename_table(self) -> None:
        self.actions.append(RenameTable(self.scope.new_name_of(self.table, self.cursor.path())))

    def _set(self) -> None:
        cursor = self.cursor
        if cursor.take("UNUSED"):
            cursor.take("COLUMN")
            self._drop_columns()
            cursor.skip_clause()
        elif cursor.take("SCHEMA"):
            self.actions.append(RenameTable(replace(self.table, schema=cursor.name())))
        else:
            self._ignore("table option")

    def _convert(self) -> None:
        cursor = self.cursor
        if cursor.at("TO", "CHARACTER") or cursor.at("TO", "CHARSET"):
            self._ignore("character set")
        else:
            self._refuse_rest(PARTITION_ROWS)

    def _order(self) -> None:
        self._ignore_list("order of rows")

    def _partition(self) -> None:
        self._ignore_list("partition")

    def _remove(self) -> None:
        self._ignore("partition" if self.cursor.word() == "PARTITIONING" else "table option")

    def _with(self) -> None:
        """SQL Server's WITH CHECK ADD CONSTRAINT, MySQL's WITH VALIDATION."""
        if not self.cursor.take_any(frozenset({"CHECK", "NOCHECK", "VALIDATION"})):
            raise self.cursor.unsupported()
        if self.cursor.word() in ("CHECK", "NOCHECK"):
            self._ignore("constraint or index")

    def _activate(self) -> None:
        """DB2's ACTIVATE NOT LOGGED INITIALLY, with or without emptying the table."""
        empties = "EMPTY" in self.cursor.words[self.cursor.i : self.cursor.end]
        self.cursor.skip_rest()
        self.actions.append(TruncateTable() if empties else NoEffect("table option"))


_CLAUSES: dict[str, Callable[[AlterReader], None]] = {
    "ADD": AlterReader._add,
    "DROP": AlterReader._drop,
    "MODIFY": AlterReader._modify,
    "CHANGE": AlterReader._change,
    "ALTER": AlterReader._alter,
    "RENAME": AlterReader._rename,
    "SET": AlterReader._set,
    "CONVERT": AlterReader._convert,
    "ORDER": AlterReader._order,
    "PARTITION": AlterReader._partition,
    "REMOVE": AlterReader._remove,
    "WITH": AlterReader._with,
    "ACTIVATE": AlterReader._activate,
}
