"""What `forget` removes: the changes of one row and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FORGOTTEN = "mainstem.forgotten"
"""The header of a message without its bytes, and the reason why its changes are excluded."""
ERASED = "mainstem.erased"
"""The property of `bronze/messages` whose commit announces that `forget` empties messages in the next one."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """The rows of one table that have one of these keys, and everything that the lakehouse holds of them.

    The names of the fields are keys of a persisted JSON file.

    Attributes:
        source: The configured source.
        database: The table as the source names it, with `schema` and `table`.
        schema: None where the source has two levels.
        table: The table.
        keys: The key's texts as silver has them, by column, None for null; several where a row's key was
            changed.
        change_ids: The changes.
        places: Topic, partition and offset of each message, those of update halves included.
        epochs: The epoch of each message, 0 where it is not recorded.
        landings: All landings of the messages in bronze: topic, partition, offset, time (microseconds), file
            and line.
        former_names: The names that the table had before: database, schema and table of each.
    """

    source: str
    database: str | None
    schema: str | None
    table: str
    keys: tuple[Mapping[str, str | None], ...]
    change_ids: tuple[str, ...]
    places: tuple[tuple[str, int, int], ...]
    epochs: tuple[int, ...] = ()
    landings: tuple[tuple[str, int, int, int, str, int], ...] = ()
    former_names: tuple[tuple[str | None, str | None, str], ...] = ()

    @property
    def names(self) -> tuple[tuple[str | None, str | None, str], ...]:
        """Database, schema and table of each name that the table has or had, the newest first."""
        return ((self.database, self.schema, self.table), *self.former_names)
