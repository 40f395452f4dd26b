"""Answers queries on a local file system without a JVM, with the package `deltalake` and its query engine.

What it cannot read raises Unreadable: features of Delta that the package does not know, a table that is too
large to be read in one process. `LocalFirst` then asks Spark, which is started for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from arro3.core import DataType
from deltalake import DeltaTable, QueryBuilder

from framework.lakehouse.delta_row_count import rows_by_log
from framework.lakehouse.lakehouse import Lakehouse, local_table
from framework.lakehouse.small_files import read_local_note
from framework.lakehouse.table_reader import Query, Row, TableReader, Value, checked

MOST_BYTES = 1_000_000_000
"""The size of the files of a table up to which one process reads it."""
_MISREAD = ("%", "\\")
_STORED, _PADDED = "stored", "padded"
_COUNT = Query("", "SELECT count(*) AS `rows` FROM {rows}")


class Unreadable(Exception):
    """The local reader cannot read a table, and Spark may."""


@dataclass(frozen=True, slots=True)
class LocalReader:
    """Reads each table in the version that it had when it was read first."""

    lake: Lakehouse
    most_bytes: int = MOST_BYTES
    _tables: dict[str, DeltaTable] = field(default_factory=dict, compare=False, repr=False)

    def exists(self, table: str) -> bool:
        """See `TableReader`."""
        return local_table(self.lake.location(table)) is not None

    def count(self, location: str) -> int:
        """See `TableReader`. Raises Unreadable."""
        path = local_table(location)
        if path is None:
            return 0
        try:
            return int(_answer(open_local(location), _COUNT, {})[0]["rows"])
        except Exception as error:
            logged = rows_by_log(path)  # it knows features that the package does not
            if logged is None:
                raise Unreadable(location) from error
            return logged

    def logged_count(self, location: str) -> int | None:
        """See `TableReader`. The query engine takes a count from the log."""
        try:
            return None if local_table(location) is None else self.count(location)
        except Unreadable:
            return None

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        """See `TableReader`. Raises Unreadable."""
        location = self.lake.location(query.table)
        return self._answer(location, *checked(query, values)) if self.exists(query.table) else []

    def own_location(self, noted: str | None) -> str | None:
        """See `TableReader`."""
        return self.lake.own_location(noted)

    def note(self, path: str) -> str | None:
        """See `TableReader`."""
        return read_local_note(path)

    def _answer(self, location: str, query: Query, values: Mapping[str, str | int]) -> Sequence[Row]:
        try:
            return _answer(self._table(location), query, values)
        except Unreadable:
            raise
        except Exception as error:  # Spark says what is wrong, if anything is
            raise Unreadable(location) from error

    def _table(self, location: str) -> DeltaTable:
        if location not in self._tables:
            table = open_local(location)
            if sum(table.get_add_actions().column("size_bytes").to_pylist()) > self.most_bytes:
                raise Unreadable(location)
            self._tables[location] = table
        return self._tables[location]


def open_local(location: str) -> DeltaTable:
    """The table. The package takes some characters of a path for others, and would open another table."""
    if any(character in location for character in _MISREAD):
        raise Unreadable(location)
    return DeltaTable(location)


def open_plain(location: str) -> DeltaTable:
    """The table, whose files can be read one by one: they are its rows. Raises Unreadable."""
    from framework.lakehouse.local_tables import has_plain_files  # pyarrow, which most readers do not need

    opened = open_local(location)
    protocol = opened.protocol()
    is_plain = has_plain_files(protocol.min_reader_version, protocol.reader_features)
    if not is_plain or opened.metadata().partition_columns:
        raise Unreadable(location)
    return opened


def _answer(table: DeltaTable, query: Query, values: Mapping[str, str | int]) -> Sequence[Row]:
    columns = {column.name for column in table.schema().fields}
    lacking = {name: kind for name, kind in query.lacking.items() if name not in columns}
    answer = QueryBuilder().register(_STORED, table).execute(sql_text(query, lacking, values)).read_all()
    cells: dict[str, Sequence[Any]] = {}
    for name in answer.column_names:
        column = answer.column(name)
        is_map = DataType.is_map(column.type)
        cells[name] = [dict(cell) if is_map and cell is not None else cell for cell in column.to_pylist()]
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def sql_text(query: Query, lacking: Mapping[str, str], values: Mapping[str, str | int]) -> str:
    """A query as DataFusion reads it: with its names in double quotes, and its values as literals.

    Args:
        query: The query.
        lacking: The columns of `Query.lacking` that the table does not have.
        values: The values of its parameters.
    """
    literals = {name: _literal(value) for name, value in values.items()}
    text = query.sql.replace("`", '"').format(rows=_PADDED if lacking else _STORED, **literals)
    if query.starts:
        starts = [
            f"decode(substr(encode(\"{name}\", 'hex'), 1, {2 * length}), 'hex') AS \"{name}\", "
            f'octet_length(encode("{name}", \'hex\')) / 2 AS "{name}_bytes"'
            for name, length in query.starts.items()
        ]
        names = ", ".join(f'"{name}"' for name in query.starts)
        text = f"SELECT * EXCEPT ({names}), {', '.join(starts)} FROM ({text}) AS whole"  # noqa: S608 - names of ours
    if lacking:
        nulls = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in lacking.items())
        text = f"WITH {_PADDED} AS (SELECT *, {nulls} FROM {_STORED}) {text}"  # noqa: S608 - names of ours
    return text


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


class LocalFirst:
    """Reads locally what can be read locally, and asks Spark for the rest.

    Spark starts when it is needed for the first time.
    """

    def __init__(self, local: LocalReader, open_spark: Callable[[], TableReader]) -> None:
        self._local, self._open_spark = local, open_spark
        self._spark: TableReader | None = None
        self._lock = Lock()

    def exists(self, table: str) -> bool:
        """See `TableReader`."""
        return self._local.exists(table)

    def count(self, location: str) -> int:
        """See `TableReader`."""
        try:
            return self._local.count(location)
        except Unreadable:
            return self._with_spark().count(location)

    def logged_count(self, location: str) -> int | None:
        """See `TableReader`."""
        return self._local.logged_count(location)

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        """See `TableReader`."""
        try:
            return self._local.rows(query, **values)
        except Unreadable:
            return self._with_spark().rows(query, **values)

    def own_location(self, noted: str | None) -> str | None:
        """See `TableReader`."""
        return self._local.own_location(noted)

    def note(self, path: str) -> str | None:
        """See `TableReader`."""
        return self._local.note(path)

    def _with_spark(self) -> TableReader:
        with self._lock:
            if self._spark is None:
                self._spark = self._open_spark()
            return self._spark
