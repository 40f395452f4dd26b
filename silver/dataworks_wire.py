"""What DataHub Blob and OMS DataWorks messages have in common: both are dialects of Alibaba's data integration protocol.

op                                                           becomes
TRUNCATE                                                     truncate
CREATE ALTER RENAME ERASE QUERY CINDEX DINDEX                ddl (the statement is payload.ddl.text)
TRANSACTION_BEGIN TRANSACTION_END GTID XACOMMIT XAROLLBACK   transaction
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import Raw

from framework.contracts.events import ControlKind
from silver.cells import Inexact

S = TypeVar("S")
"""What a schema block is: bytes, or read."""
_T = TypeVar("_T")
_LONGEST_KEPT = 65_536
"""Bytes: a longer schema block is read for each message; there are few such tables."""
CONTROLS = {
    "TRUNCATE": ControlKind.TRUNCATE,
    **dict.fromkeys(("CREATE", "ALTER", "RENAME", "ERASE", "QUERY", "CINDEX", "DINDEX"), ControlKind.DDL),
    **dict.fromkeys(("TRANSACTION_BEGIN", "TRANSACTION_END", "GTID", "XACOMMIT", "XAROLLBACK"), ControlKind.TRANSACTION),
}


class NamedColumn(msgspec.Struct):
    """A column of the message's schema."""

    name: str
    type: str | None = None


class Timestamp(msgspec.Struct):
    """The times of a message: only that of the change itself is read."""

    eventTime: Raw = Raw()


class Ddl(msgspec.Struct):
    """A statement. The serialized object beside its text is never read."""

    text: str | None = None


def blocks(decoder: msgspec.json.Decoder[S], told: Callable[[S], _T]) -> Callable[[Raw | S], _T]:
    """What a message's schema block says, given as bytes or read; the same bytes are read once for all messages.

    Raises `Inexact` for bytes that cannot be read: the reading of the whole message says why.
    """

    def read(block: bytes) -> _T:
        try:
            return told(decoder.decode(block))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Inexact from None

    kept = lru_cache(maxsize=1024)(read)

    def told_by(schema: Raw | S) -> _T:
        if not isinstance(schema, Raw):
            return told(schema)
        block = bytes(schema)
        return kept(block) if len(block) <= _LONGEST_KEPT else read(block)

    return told_by


def event_time(timestamp: Timestamp | None) -> Raw:
    """`timestamp.eventTime` as it was sent; empty where it is missing."""
    return timestamp.eventTime if timestamp is not None else Raw()
