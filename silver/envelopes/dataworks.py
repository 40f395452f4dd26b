"""What DataHub Blob and OMS DataWorks share: both are dialects of Alibaba's data integration protocol.

op                                                           becomes
TRUNCATE                                                     truncate
CREATE ALTER RENAME ERASE QUERY CINDEX DINDEX                ddl (the statement is payload.ddl.text)
TRANSACTION_BEGIN TRANSACTION_END GTID XACOMMIT XAROLLBACK   transaction
"""

from __future__ import annotations

from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import ControlKind
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.cells import C

CONTROLS = {
    "TRUNCATE": ControlKind.TRUNCATE,
    **dict.fromkeys(("CREATE", "ALTER", "RENAME", "ERASE", "QUERY", "CINDEX", "DINDEX"), ControlKind.DDL),
    **dict.fromkeys(
        ("TRANSACTION_BEGIN", "TRANSACTION_END", "GTID", "XACOMMIT", "XAROLLBACK"), ControlKind.TRANSACTION
    ),
}
_NONE = (b"-1", b'"-1"')


class NamedColumn(msgspec.Struct):
    """A column of the message's schema."""

    name: str
    type: str | None = None


class Timestamp(msgspec.Struct, Generic[C]):
    """The times of a message; only the time of the change itself is read."""

    eventTime: C = None  # type: ignore[assignment]  # missing, whatever it would be


class Ddl(msgspec.Struct):
    """A DDL statement. The serialized object beside its text is never read."""

    text: str | None = None


def event_time(timestamp: Timestamp[C] | None) -> C | None:
    """`timestamp.eventTime` as it was sent; None where it is missing."""
    return timestamp.eventTime if timestamp is not None else None


def is_none(cell: Any) -> bool:
    """Whether a cell is what the full load writes where it has no position or no time: -1."""
    return bytes(cell) in _NONE if type(cell) is Raw else cell == -1 or cell == "-1"


def check_truncate(table: str | None, statement: str | None, dialect: str) -> None:
    """Raises `Malformed` when neither the schema block nor the statement names the table to empty."""
    if not (table or _names_table(statement, dialect)):
        raise Malformed(Reason.MISSING_TABLE, "neither schema.source nor ddl.text names a table")


def _names_table(statement: str | None, dialect: str) -> bool:
    from silver.ddl.parser import parse_ddl  # slow to import, and `status` imports the formats

    found = parse_ddl(statement or "", dialect=dialect, table=None)
    return any(each.table.table for each in found)
