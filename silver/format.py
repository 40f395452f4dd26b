"""The contract of a format: one record of functions. `CONTRIBUTING.md` shows how to add one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from framework.contracts.events import Event, Op
from framework.contracts.raw import RawMessage
from silver.structures import Declared


class BeforeImage(StrEnum):
    """How much of the row before the change a feed carries."""

    NONE = "none"
    CHANGED = "changed"
    FULL = "full"


class Options(BaseModel):
    """Settings that every format takes; a format's own settings are a subclass. Validated with the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _no_codecs(database: str | None, schema: str | None, table: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Given:
    """What the configuration says of a column: its canonical type, how bytes are written (base64, hex), that it has no sign."""

    type: str | None = None
    encoding: str | None = None
    unsigned: bool = False


def _nothing_declared(table: tuple[str | None, str | None, str], position: tuple[int, ...] | None) -> Declared:
    return ()


def _nothing_given(database: str | None, schema: str | None, table: str) -> Mapping[str, Given]:
    return {}


@dataclass(frozen=True, slots=True)
class Context:
    """What a decoder may know beside the message: the source's name, settings, zone and configured keys.

    `keys_of(database, schema, table)` gives the key columns that the configuration names, or None.
    `codecs_of` gives the columns that it tells to decode, with the codec's name (`utf8`), and `given_of` what else it says
    of columns, for feeds whose encodings cannot be told from their messages. `declared_of(table, position)` gives the
    columns of a table at a position, where definitions come beside the rows (a topic of schema changes).
    `timezone` is the IANA name for wall times that carry no zone.
    """

    source: str
    options: Options
    timezone: str
    keys_of: Callable[[str | None, str | None, str], tuple[str, ...] | None]
    codecs_of: Callable[[str | None, str | None, str], Mapping[str, str]] = _no_codecs
    given_of: Callable[[str | None, str | None, str], Mapping[str, Given]] = _nothing_given
    declared_of: Callable[[tuple[str | None, str | None, str], tuple[int, ...] | None], Declared] = _nothing_declared


def _as_it_is(kind: str) -> str | None:
    return kind


@dataclass(frozen=True, slots=True)
class Format:
    """One vendor format.

    `decode` is pure and total: the same message gives the same answer; it returns at least one event, or raises
    `Malformed`; for any bytes nothing else escapes. `has_structures`: rows may come without types, which control events
    of the same feed tell (their `columns`); they are gathered before the rows are decoded. `positions_are_unique` says
    that a position identifies one change; where it is false (times in seconds or milliseconds) the broker's coordinates
    break ties. `column_type` translates the canonical type that a DDL statement names into the one that the feed declares
    for such columns in its rows.
    """

    name: str
    title: str
    writer: str
    reference: str
    update_arrives_as: str
    keys_come_from: str
    order_comes_from: str
    decode: Callable[[RawMessage, Context], Sequence[Event]]
    ops: frozenset[Op]
    before_image: BeforeImage = BeforeImage.FULL
    halves: bool = False
    positions_are_unique: bool = True
    has_structures: bool = False
    options: type[Options] = Options
    column_type: Callable[[str], str | None] = _as_it_is
