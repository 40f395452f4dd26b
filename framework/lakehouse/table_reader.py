"""Queries that read the tables of a lakehouse, and what answers them: Spark, or a local reader without a JVM.

A query is SQL that both engines read in the same way, so that there is one text of each. That means: names in
backticks, NULLS FIRST or NULLS LAST wherever a column of an ORDER BY may be null, brackets around IS NOT
DISTINCT FROM, LIMIT only after ORDER BY, no division, no regular expressions, and no functions but those that
the tests of both readers cover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

Row = Mapping[str, Any]
"""A row by column name. Times are in UTC and say so, maps are dictionaries, binary values are bytes."""
Value = str | int | tuple[str, ...] | tuple[int, ...]
"""The value of a parameter; a text has letters, digits, `_`, `.` and `-` alone. Several are a list for IN."""
_Value = TypeVar("_Value", str, int)
_AT_ONCE = 500
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Query:
    """A query of one table.

    Attributes:
        table: The table's name in the lakehouse, as in `ops/tables`, or the location of a replica.
        sql: The query. `{rows}` is the table, `{name}` the value of a parameter.
        lacking: The columns, with their types, that tables of earlier releases lack: they are null there.
        starts: Binary columns of the answer of which only so many bytes are read. The whole length of a value
            is the column `<name>_bytes`. Such a query has a LIMIT, which also keeps its order.
    """

    table: str
    sql: str
    lacking: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)


def checked(query: Query, values: Mapping[str, Value]) -> tuple[Query, Mapping[str, str | int]]:
    """The query and the values of its parameters, of which a list is one for each text or number.

    Raises:
        ValueError: For a text that SQL could take for more, and for an empty list.
    """
    sql, found = query.sql, dict[str, str | int]()
    for name, value in values.items():
        if isinstance(value, tuple):
            if not value:
                raise ValueError(f"the parameter {name} is an empty list")
            listed: Sequence[str | int] = value
            each = {f"{name}_{number}": one for number, one in enumerate(listed)}
            sql = sql.replace(f"{{{name}}}", ", ".join(f"{{{one}}}" for one in each))
            found.update(each)
        else:
            found[name] = value
    for name, one in found.items():
        if isinstance(one, str) and not _PLAIN.fullmatch(one):
            raise ValueError(f"the parameter {name} is no plain text")
    return replace(query, sql=sql), found


def portions(values: Sequence[_Value]) -> Iterator[tuple[_Value, ...]]:
    """The values in lists that a query may name at once."""
    return (tuple(values[start : start + _AT_ONCE]) for start in range(0, len(values), _AT_ONCE))


def in_utc(moment: datetime | None) -> datetime | None:
    """A moment of an answer without its time zone: in UTC, as the rows of a session are."""
    return moment if moment is None or moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


class TableReader(Protocol):
    """Reads the newest versions of a lakehouse's tables. It writes nothing."""

    def exists(self, table: str) -> bool:
        """Whether there is a Delta table of this name now."""

    def count(self, location: str) -> int:
        """The number of rows of the table at a location; 0 where there is no table."""

    def logged_count(self, location: str) -> int | None:
        """The same count where the table's log has it, so that it is cheap; None elsewhere."""

    def own_location(self, noted: str | None) -> str | None:
        """The location in this lakehouse of a table of gold; see `Lakehouse.own_location`."""

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        """The answer to a query; no rows where the table does not exist, also for a query of totals."""

    def note(self, path: str) -> str | None:
        """The text of a small file of the pipeline; None where there is none."""
