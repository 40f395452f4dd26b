"""Limits how much one message can grow when it is decoded.

A message may hold many rows, and each row repeats what the message says once: the names of its table, its
transaction, its server, its topic. Without a limit, the decoded rows would grow with the square of the bytes.
"""

from __future__ import annotations

from operator import itemgetter

from framework.contracts.events import Column, Event
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.staged_rows import Row

LONGEST_NAME = 1_000
"""Characters of the name of a database, schema or table. Databases allow 64 to 128, a few of them 255."""
MOST_EVENTS = 100_000
"""Rows and statements of one message."""
FREE_TEXT, TIMES = 32_000_000, 64
"""A message may repeat FREE_TEXT characters, and TIMES more for each of its bytes.

The set of transactions of a MySQL server (`gtid`) is some thousand characters long, and each row of a message
of thousands of rows repeats it.
"""
LARGEST_BATCH = 256_000_000
"""The repeated text of one Arrow batch of messages, in characters: beyond it the batch is split in two."""

_repeated = itemgetter(
    "topic",
    "database",
    "schema",
    "table",
    "sequence",
    "position",
    "committed",
    "transaction_id",
    "server",
    "statement",
    "actions",
    "detail",
)


def check_names(event: Event) -> None:
    """Raises `Malformed` if a name of the event's table is longer than any database allows."""
    for name in (event.database, event.schema, event.table):
        if name and len(name) > LONGEST_NAME:
            raise Malformed(
                Reason.WRONG_SHAPE,
                f"a name of a database or table has {len(name):,} characters, at most {LONGEST_NAME:,}",
            )


def check_count(count: int) -> None:
    """Raises `Malformed` if a message has more rows and statements than are read."""
    if count > MOST_EVENTS:
        raise Malformed(Reason.TOO_LARGE, f"more than {MOST_EVENTS:,} rows or statements in one message")


class RepeatedText:
    """Counts the text that the rows of one message repeat.

    Images are not counted, the message has them. A quarantined row counts as the message, because
    `silver/quarantine` has the message's bytes beside each of them.
    """

    def __init__(self, message_bytes: int) -> None:
        self.characters = 0
        self.message_bytes = message_bytes
        self.most = FREE_TEXT + TIMES * message_bytes
        self._shapes: set[tuple[tuple[str, Column], ...]] = set()
        self._last: object = None

    def add(self, row: Row) -> None:
        """Count one row. Raises `Malformed` when the rows of the message have become too large."""
        self.characters += sum(map(len, filter(None, _repeated(row))))
        if row["kind"] == "quarantined":
            self.characters += self.message_bytes
        if row["keys"]:
            self.characters += sum(map(len, row["keys"]))
        if row.get("shape") is not self._last:
            self._add_shape(row)
        if self.characters > self.most:
            raise Malformed(
                Reason.TOO_LARGE,
                f"its rows repeat more than {self.most:,} characters of names, types and other texts",
            )

    def _add_shape(self, row: Row) -> None:
        """Count the columns of the row: equal ones are written once."""
        self._last = row["shape"]
        columns = tuple((row["shape"] or {}).items())
        if columns not in self._shapes:
            self._shapes.add(columns)
            self.characters += sum(len(name) + len(column.declared or "") + 20 for name, column in columns)
