"""Kafka Connect messages: the columns of a schema block, images as canonical text, and message keys.

    {"schema": {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}, "payload": {"id": 7}}

A message or key comes with or without its schema block. For the types see
`silver/envelopes/connect/column_types.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Token
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.cells import TOKENS, Kinds, NeedsExactDecoding, NumberText, is_plain
from silver.decoding.dual_decoder import DualDecoder, schema_block_cache
from silver.decoding.duplicate_keys import written_document, written_parts
from silver.decoding.interning import cached_by_bytes
from silver.decoding.json_reader import read_json
from silver.decoding.row_plans import (
    ColumnSet,
    RowPlan,
    Step,
    cell_signature,
    image_cell_by_cell,
    is_narrow,
    joined_columns,
    undeclared_image,
    undeclared_steps,
)
from silver.envelopes.connect.byte_encodings import bytes_of
from silver.envelopes.connect.column_types import Field, Fields, column_of, conversion_of, value_of
from silver.envelopes.debezium.configured_schema import with_numbers
from silver.values.canonical import undeclared_text

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_FIELD = msgspec.json.Decoder(Field | None)


def members(schema: Field | None) -> dict[str, Field]:
    """The fields of a struct by name, in its order; none where there is no schema or it is empty."""
    return {} if schema is None else {f.field: f for f in schema.fields or () if f.field is not None}


def image_fields(envelope: Field | None) -> Fields:
    """The columns that an envelope's schema declares for its `before` and `after`, in the source's order."""
    sides = members(envelope)
    before, after = members(sides.get("before")), members(sides.get("after"))
    first, second = (before, after) if len(before) > len(after) else (after, before)
    return Fields({**first, **{name: field for name, field in second.items() if name not in first}})


envelope_fields: Callable[[Raw | Field | None], Fields] = schema_block_cache(_FIELD, image_fields)
"""The columns that an envelope's schema block declares; the block is given as bytes or already read."""


def columns_of(fields: Mapping[str, Field]) -> Mapping[str, Column]:
    """The declared columns, in the order of `fields`."""
    return _shape_of(fields) if isinstance(fields, Fields) and is_narrow(fields) else _columns_of(fields)


@lru_cache(maxsize=1024)
def _shape_of(fields: Fields) -> ColumnSet:
    return ColumnSet(_columns_of(fields))


def _columns_of(fields: Mapping[str, Field]) -> dict[str, Column]:
    return {name: column_of(field) for name, field in fields.items()}


def image_of(
    image: dict[str, Any] | None, fields: Mapping[str, Field], *, numbers_as_text: bool = False
) -> tuple[dict[str, str | None] | None, Mapping[str, Column]]:
    """An image as canonical text, and the columns that `fields` does not declare, with their tokens."""
    if image is None:
        return None, {}
    if not fields:
        return undeclared_image(image)
    if isinstance(fields, Fields) and is_narrow(image, fields):
        plan = _row_plan(*cell_signature(image), fields, numbers_as_text)
        if plan is not None:
            return plan.texts(image), plan.columns

    def read(name: str, token: Token, text: str | None) -> tuple[str | None, Column | None]:
        field = fields.get(name)
        if field is None:
            return undeclared_text(token, text), Column(token=token)
        return value_of(field, token, text, numbers_as_text), None

    return image_cell_by_cell(image, read)


@lru_cache(maxsize=1024)
def _row_plan(names: tuple[str, ...], kinds: Kinds, fields: Fields, numbers_as_text: bool) -> RowPlan | None:
    if not is_plain(kinds):
        return None
    steps: list[Step] = []
    undeclared = ColumnSet()
    for name, kind in zip(names, kinds, strict=True):
        field = fields.get(name)
        if field is None:
            undeclared[name] = Column(token=TOKENS[kind])
            steps += undeclared_steps(name, kind)
            continue
        convert = conversion_of(field, kind, numbers_as_text)
        steps += () if convert is None else ((name, convert),)
    return RowPlan(tuple(steps), undeclared)


def decoded_image(
    image: Mapping[str, str | None] | None, codecs: Mapping[str, str]
) -> dict[str, str | None] | None:
    """The image with decoded text in the base64 columns that have a codec.

    Raises `Malformed` when a value is not in its codec.
    """
    if image is None or not codecs:
        return image if image is None or isinstance(image, dict) else dict(image)
    return {
        name: _decoded(name, text, codecs[name]) if text is not None and name in codecs else text
        for name, text in image.items()
    }


def _decoded(name: str, text: str, codec: str) -> str:
    data = bytes_of(text)
    try:
        if data is not None:
            return data.decode(codec)
    except (ValueError, LookupError):
        pass
    raise Malformed(Reason.ENCODING, f"column {name[:100]!r} is not base64 of {codec} text")


def _key_fields(block: bytes) -> Fields:
    return Fields(members(read_json(_FIELD, block)))


key_fields = cached_by_bytes(_key_fields)
"""The fields of a key's schema block."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How the JSON parts of a message are read: members, and the cells of an image.

    A part is bytes; for READ it is what `read_at_once` gives.
    """

    members: Callable[[Any], dict[str, Any]]
    cells: Callable[[Any], dict[str, Any]]


def _read(decoder: msgspec.json.Decoder[dict[str, Any]], data: bytes) -> dict[str, Any]:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NeedsExactDecoding from None


WHOLE = DualDecoder(_OBJECT, _OBJECT, is_nested=True)
"""Reads a message or a key as its members; one that may repeat a member is read with bytes as cells."""

PLAIN = Parts(
    partial(_read, _OBJECT), partial(_read, msgspec.json.Decoder(dict[str, Any], float_hook=NumberText))
)
EXACT = Parts(partial(read_json, _OBJECT), partial(read_json, _OBJECT))


def read_at_once(document: bytes) -> tuple[dict[str, Any], bytes] | None:
    """The payload and the schema block (empty: none) of a message or key, in one reading.

    None for a document whose bytes do not show that no object repeats a member.
    """
    if document.startswith(b'{"schema":'):
        parts = written_parts(document)
        if parts is None or parts.version is not msgspec.UNSET or type(parts.payload) is not dict:
            return None
        return parts.payload, bytes(parts.schema) if isinstance(parts.schema, Raw) else b""
    found = written_document(document)
    return (found, b"") if type(found) is dict and "payload" not in found else None


def _read_members(part: Any) -> dict[str, Any]:
    if type(part) is not dict:
        raise NeedsExactDecoding
    return part


def _read_cells(part: Any) -> dict[str, Any]:
    cells = _read_members(part)
    for name, cell in cells.items():
        if type(cell) is Raw:
            cells[name] = NumberText(bytes(cell).decode())
    return cells


READ = Parts(_read_members, _read_cells)


def part_of(
    payload: Mapping[str, Any], name: str, read: Callable[[Any], dict[str, Any]]
) -> dict[str, Any] | None:
    """A part of a message, as `read` of its `Parts` gives it; None where it is missing or null."""
    part = payload.get(name)
    if type(part) is not Raw:
        return None if part is None else read(part)
    data = bytes(part)
    return None if data in (b"", b"null") else read(data)


def key_of(
    key: bytes, *, numbers_as_text: bool = False
) -> tuple[dict[str, str | None] | None, Mapping[str, Column]]:
    """The key of a message, with or without a schema block, and its columns; None where its payload is null.

    Raises `Malformed` for a key that is not a JSON object.
    """
    found = read_at_once(key)
    try:
        if found is not None:
            return _image_of_key(READ.cells(found[0]), found[1], numbers_as_text)
        return _key_of(key, WHOLE.plain_of(key), PLAIN, numbers_as_text)
    except NeedsExactDecoding:
        return _key_of(key, read_json(_OBJECT, key), EXACT, numbers_as_text)


def _key_of(
    key: bytes, whole: dict[str, Raw], parts: Parts, numbers_as_text: bool
) -> tuple[dict[str, str | None] | None, Mapping[str, Column]]:
    payload, schema = bytes(whole.get("payload", b"")), whole.get("schema")
    if not payload or (schema is None and not payload.startswith(b"{")):
        return image_of(with_numbers(parts.cells(key), ()), {})
    if payload == b"null":
        return None, {}
    return _image_of_key(parts.cells(payload), bytes(schema or b""), numbers_as_text)


def _image_of_key(
    cells: dict[str, Any], schema: bytes, numbers_as_text: bool
) -> tuple[dict[str, str | None] | None, Mapping[str, Column]]:
    if not schema:
        return image_of(with_numbers(cells, ()), {})
    fields = key_fields(schema)
    image, undeclared = image_of(with_numbers(cells, fields), fields, numbers_as_text=numbers_as_text)
    return image, joined_columns(columns_of(fields), undeclared)
