"""The images of Debezium's rows: without placeholders, with the old key from its header, decoded.

what a message shows                          becomes
a placeholder for a value                     unchanged: the column is left out and the image is partial
c with header __debezium.oldkey               update; the old key is its before image
d of PostgreSQL                               only the key: where the table logs no more, the connector fills
                                              the other columns with null or invented values
d without an image, or without its key        the columns of the message key
u or d of Spanner                             what the change stream records, see `spanner.py`
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from framework.contracts.events import Column, Op
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.cells import NeedsExactDecoding, NumberText, raw_of
from silver.decoding.encoding_modes import ModeState
from silver.decoding.json_reader import read_json
from silver.decoding.row_plans import joined_columns, source_columns
from silver.envelopes.configured_columns import ConfiguredColumns
from silver.envelopes.connect.column_types import Field, Fields
from silver.envelopes.connect.messages import columns_of, image_of, key_of
from silver.envelopes.debezium.configured_schema import with_numbers
from silver.envelopes.debezium.encoding_modes import resolve_modes
from silver.envelopes.debezium.placeholders import is_unavailable, is_unavailable_text, may_be_unavailable
from silver.envelopes.debezium.source_block import Members, SourceBlock
from silver.envelopes.debezium.spanner import recorded_columns

_ROUTER_KEY = "__dbz__physicalTableIdentifier"
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_NULL = (b"", b"null")
_OBJECT = msgspec.json.Decoder(dict[str, Raw])

Image = Mapping[str, str | None]
Cells = dict[str, Any]


class ConnectRow(Struct, frozen=True):
    """What an envelope and a flattened row have in common, before the images are read.

    `key` is set where the message key names the key in a special way, `is_partial` where `after` leaves
    columns out.
    """

    op: str
    names: tuple[str | None, str | None, str]
    connector: str
    source: SourceBlock
    before: Cells | None
    after: Cells | None
    fields: Mapping[str, Field]
    transaction: Members
    times: Members
    is_flat: bool = False
    is_partial: bool = False
    key: Cells | None = None


class Known(Struct, frozen=True):
    """What is known besides the row.

    It is the placeholder, the modes, the configured columns, and the key's names, image and cells as sent.
    """

    word: str
    states: Mapping[str, ModeState]
    configured: ConfiguredColumns
    keys: Sequence[str] | None
    key: Image | None
    bare_key: Cells | None


class Images(Struct, frozen=True):
    """The images of a row, their columns, and the evidence that the values give of their modes."""

    before: Image | None
    after: Image | None
    columns: Mapping[str, Column]
    is_partial: bool
    has_old_key: bool
    evidence: tuple[str, ...]


def images_of(row: ConnectRow, op: Op, message: RawMessage, known: Known) -> Images:
    """Reads the images of a row. Raises `Malformed` where one is missing, or where values are ambiguous."""
    old_key = None if op is Op.DELETE else header_of(message, "__debezium.oldkey")
    before = _available(
        old_key if old_key is not None else row.before if op in (Op.UPDATE, Op.DELETE) else None, known.word
    )
    after = None if op is Op.DELETE else _available(row.after, known.word)
    if row.connector == "spanner" and op in (Op.UPDATE, Op.DELETE):
        before, after = recorded_columns(row.source, before, after, known.keys or ())
    trusted = before
    if op is Op.DELETE:
        before = _with_bare_key(before, known)
        trusted = _trusted_columns(before, row, known)
    is_partial = after is not None and (
        row.is_partial or (row.after is not None and len(after) < len(row.after))
    )
    found = resolve_modes(row.fields, (trusted, after), known.states, row.names)
    read = known.configured.image
    before_texts, before_columns = read(*image_of(_plain(before, row, found.fields), found.fields))
    after_texts, after_columns = read(*image_of(_plain(after, row, found.fields), found.fields))
    if op is Op.DELETE:
        before_texts = _with_key(
            {name: text for name, text in (before_texts or {}).items() if name in (trusted or {})}, known
        )
    elif after_texts is None:
        raise Malformed(Reason.MISSING_IMAGE, "after is missing")
    columns = _in_order(found.fields, (after_columns, before_columns), (row.after, row.before, after, before))
    return Images(before_texts, after_texts, columns, is_partial, old_key is not None, found.evidence)


def _in_order(
    fields: Mapping[str, Field],
    shown: Sequence[Mapping[str, Column]],
    images: Sequence[Mapping[str, object] | None],
) -> Mapping[str, Column]:
    """The columns in the source's order: that of the schema block, else that of the row as it was sent.

    Fields that take the place of a schema are in the order of whatever told them.
    """
    if isinstance(fields, Fields):
        return source_columns(columns_of(fields), shown, images)
    columns = joined_columns(columns_of(fields), *shown)
    names = dict.fromkeys(name for image in images for name in image or ())
    return {name: columns[name] for name in (*names, *columns) if name in columns} if fields else columns


def _available(cells: Cells | None, word: str) -> Cells | None:
    if cells is None:
        return None
    kinds = set(map(type, cells.values()))
    if Raw in kinds:
        return {name: raw for name, raw in cells.items() if not is_unavailable(bytes(raw), word)}
    if dict in kinds or list in kinds:
        raise NeedsExactDecoding
    if not may_be_unavailable(cells.values(), word):
        return cells
    return {
        name: cell
        for name, cell in cells.items()
        if not (type(cell) is str and is_unavailable_text(cell, word))
    }


def _plain(cells: Cells | None, row: ConnectRow, fields: Mapping[str, Field]) -> Cells | None:
    """The cells with numbers that name their scale as plain numbers.

    A document of MongoDB has no such numbers, but it may contain an object that looks like one.
    """
    return cells if cells is None or row.connector == "mongodb" else with_numbers(cells, fields)


def _with_bare_key(before: Cells | None, known: Known) -> Cells | None:
    """The cells of a deleted row, with those of its key where it lacks them."""
    if known.bare_key is None or (before is not None and all(name in before for name in known.bare_key)):
        return before
    if any(type(cell) is not Raw for cell in (before or {}).values()):
        raise NeedsExactDecoding  # the key's cells are bytes
    return {**(before or {}), **known.bare_key}


def _trusted_columns(before: Cells | None, row: ConnectRow, known: Known) -> Cells | None:
    """The columns of a deleted row that can be trusted: in PostgreSQL only the key."""
    if (
        before is None
        or row.connector != "postgresql"
        or not known.keys
        or any(name not in before for name in known.keys)
    ):
        return before
    return {name: before[name] for name in known.keys}


def _with_key(before: dict[str, str | None], known: Known) -> dict[str, str | None]:
    """The image of a deleted row, with the columns of its key where it lacks them."""
    if not before or (known.keys and any(name not in before for name in known.keys)):
        before = {**before, **(known.key or {})}
    if not before:
        raise Malformed(Reason.MISSING_IMAGE, "before is missing")
    return before


def key_image(key: bytes | None) -> tuple[Image | None, Mapping[str, Column]]:
    """The columns of a message key; None for a key without columns, such as a text."""
    if not key:
        return None, {}
    try:
        named, columns = key_of(key)
    except Malformed:
        return None, {}
    if named and _ROUTER_KEY not in named and columns.keys() <= named.keys():
        return named, columns
    image = {name: text for name, text in (named or {}).items() if name != _ROUTER_KEY}
    return image or None, {name: column for name, column in columns.items() if name in image}


def bare_key(key: bytes | None) -> Cells | None:
    """The columns of a message key as they were sent, if it has no schema block."""
    if not key:
        return None
    try:
        cells = read_json(_OBJECT, key)
    except Malformed:
        return None
    if "payload" in cells and ("schema" in cells or bytes(cells["payload"])[:1] == b"{"):
        return None
    return {name: raw for name, raw in cells.items() if name != _ROUTER_KEY} or None


def header_of(message: RawMessage, name: str) -> Cells | None:
    """A header with a key as JSON text, with or without its schema.

    None where it is missing or cannot be read.
    """
    value = next((value for found, value in message.headers if found == name and value), None)
    if value is None:
        return None
    for text in (value, _escaped(value)):
        try:
            cells = read_json(_OBJECT, text)
            if cells.keys() == {"schema", "payload"}:
                cells = members_of(cells["payload"]) or {}
            return cells or None
        except Malformed:
            continue
    try:
        return _lenient(value)
    except (NeedsExactDecoding, UnicodeError):
        return None


def _escaped(header: bytes) -> bytes:
    """The header with the control characters of its texts escaped, as JSON asks for it."""
    return _TEXT.sub(lambda text: _CONTROL.sub(lambda one: b"\\u%04x" % one[0][0], text[0]), header)


def _lenient(header: bytes) -> Cells | None:
    """The members of a header that has numbers or constants which are not JSON, such as NaN."""
    try:
        found = json.loads(header, strict=False, parse_float=NumberText, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        found = found["payload"]
    if not isinstance(found, dict):
        return None
    return {name: Raw(b"null") if cell is None else raw_of(cell) for name, cell in found.items()} or None


def members_of(raw: Raw) -> Cells | None:
    """The members of an object as they were sent; None where it is null or missing."""
    data = bytes(raw)
    return None if data in _NULL else read_json(_OBJECT, data)
