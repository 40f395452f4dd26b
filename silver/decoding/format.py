"""The contract of a format: one record of functions. `CONTRIBUTING.md` shows how to add one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from framework.contracts.events import Event, Op
from framework.contracts.messages import RawMessage
from silver.decoding.encoding_modes import ModeState
from silver.decoding.table_definitions import DeclaredColumns


class Options(BaseModel):
    """The base class of a format's own settings, which are validated with the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _no_codecs(database: str | None, schema: str | None, table: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ColumnHint:
    """What the configuration says about a column.

    `type` is its canonical type, `encoding` how its values are written (base64, hex, microseconds), and
    `unsigned` says that its numbers have no sign.
    """

    type: str | None = None
    encoding: str | None = None
    unsigned: bool = False


def _no_definition(
    table: tuple[str | None, str | None, str], position: tuple[int, ...] | None
) -> DeclaredColumns:
    return ()


def no_hints(database: str | None, schema: str | None, table: str) -> Mapping[str, ColumnHint]:
    """No hints: the default of `Context.hints_for`."""
    return {}


@dataclass(frozen=True, slots=True)
class Context:
    """What a decoder may know beside the message: the source's name, settings, zone and configured keys.

    Attributes:
        source: The name of the source.
        options: The source's settings for this format.
        timezone: The IANA name of the zone of wall times that carry none.
        keys_for: Gives the key columns that the configuration names for (database, schema, table), or None.
        codecs_for: Gives the columns of a table that the configuration says to decode, with the codec
            (`utf8`).
        hints_for: Gives what else the configuration says about the columns of a table, for feeds whose
            messages do not show how values are encoded.
        definition_at: Gives the columns of a table at a position, where the feed sends its definitions beside
            its rows (a topic of schema changes).
        needs_no_position: The configuration says `order: partition`: messages without a position are read in
            the order of their partition.
        modes: How the source writes values, as far as that is known, by the names in the format's `modes`.
    """

    source: str
    options: Options
    timezone: str
    keys_for: Callable[[str | None, str | None, str], tuple[str, ...] | None]
    codecs_for: Callable[[str | None, str | None, str], Mapping[str, str]] = _no_codecs
    hints_for: Callable[[str | None, str | None, str], Mapping[str, ColumnHint]] = no_hints
    definition_at: Callable[[tuple[str | None, str | None, str], tuple[int, ...] | None], DeclaredColumns] = (
        _no_definition
    )
    needs_no_position: bool = False
    modes: Mapping[str, ModeState] = field(default_factory=dict)


def no_options(columns: Collection[str]) -> Mapping[str, str]:
    """No settings: the default of `Format.missing_options`."""
    return {}


def no_signature(document: Mapping[str, Any]) -> str | None:
    """No signature: the default of `Format.signature`."""
    return None


def _same_text(text: str, kind: str, declared: str) -> str | None:
    return text


def _same_type(kind: str) -> str | None:
    return kind


@dataclass(frozen=True, slots=True)
class Format:
    """One vendor format.

    Attributes:
        name: The format's name in the configuration, which is also the name of its module.
        title: The name that people know.
        writer: The program that writes such messages.
        reference: The vendor's page.
        update_arrives_as: How an update arrives, in words, for the table of formats.
        keys_come_from: Where the key columns come from, in words.
        order_comes_from: Which members order the changes, in words.
        decode: Gives the events of a message: at least one, or it raises `Malformed`. It is pure and total:
            the same message gives the same events, and for any bytes nothing but `Malformed` escapes.
        ops: The operations that the feed can contain.
        halves: An update arrives as two messages.
        positions_are_unique: A position identifies one change. Where it does not (a time in seconds or
            milliseconds), the broker's coordinates break ties.
        has_table_definitions: Rows may come without types, and control events of the same feed define the
            tables (their `columns`). These are collected before the rows are decoded.
        options: The settings of the format.
        column_type: Gives the canonical type that rows declare for a column whose DDL statement has this
            type.
        default_text: Gives the constant default of an added column as rows will write it, for (canonical
            text, canonical type, declared type); None where this is not known.
        missing_options: Gives the settings, with their values, that are missing if a table has these columns.
        shown_settings: The option, and the value, that is missing where neighbouring messages show evidence
            of a kind (`silver/changes/setting_evidence.py`).
        modes: The modes in which a source may write values while no message says which one, by the names of
            the options that set them; see `silver/decoding/encoding_modes.py`.
        shares_envelope_with: The formats whose decoders read these messages as well, for the detection of
            formats. If such a format does not name this one, this one is its variant.
        signature: Gives what in a message (its JSON object) speaks for this format and against those that
            share its envelope, as a text for people; None where nothing does.
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
    halves: bool = False
    positions_are_unique: bool = True
    has_table_definitions: bool = False
    options: type[Options] = Options
    column_type: Callable[[str], str | None] = _same_type
    default_text: Callable[[str, str, str], str | None] = _same_text
    missing_options: Callable[[Collection[str]], Mapping[str, str]] = no_options
    shown_settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    modes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shares_envelope_with: tuple[str, ...] = ()
    signature: Callable[[Mapping[str, Any]], str | None] = no_signature
