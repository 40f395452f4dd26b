"""Kafka Connect messages: the columns that a schema block declares, images as canonical text, and message keys.

    {"schema": {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}, "payload": {"id": 7}}

A message or key comes with its schema block or without. What the types mean is `silver/connect_types.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Token
from framework.contracts.reasons import Malformed, Reason
from silver.cells import (
    TOKENS,
    Digits,
    Either,
    Inexact,
    Kinds,
    Recipe,
    Shape,
    Step,
    blocks,
    is_narrow,
    is_plain,
    joined_columns,
    one_by_one,
    signature,
    undeclared_image,
    undeclared_work,
)
from silver.connect_types import Field, Fields, bytes_of, column_of, conversion_of, value_of
from silver.shared import kept
from silver.types import undeclared_text
from silver.wire import read_json

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


envelope_fields: Callable[[Raw | Field | None], Fields] = blocks(_FIELD, image_fields)
"""The columns that an envelope's schema block declares: of a block that was read, or of its bytes."""


def columns_of(fields: Mapping[str, Field]) -> Mapping[str, Column]:
    """The declared columns, in the order of `fields`."""
    return _shape_of(fields) if isinstance(fields, Fields) and is_narrow(fields) else _columns_of(fields)


@lru_cache(maxsize=1024)
def _shape_of(fields: Fields) -> Shape:
    return Shape(_columns_of(fields))


def _columns_of(fields: Mapping[str, Field]) -> dict[str, Column]:
    return {name: column_of(field) for name, field in fields.items()}


def image_of(
    image: dict[str, Any] | None, fields: Mapping[str, Field], *, numbers_as_text: bool = False
) -> tuple[dict[str, str | None] | None, Mapping[str, Column]]:
    """An image as canonical text, and the columns in it that `fields` does not declare, by what the wire shows."""
    if image is None:
        return None, {}
    if not fields:
        return undeclared_image(image)
    if isinstance(fields, Fields) and is_narrow(image, fields):
        recipe = _recipe(*signature(image), fields, numbers_as_text)
        if recipe is not None:
            return recipe.texts(image), recipe.shape

    def read(name: str, token: Token, text: str | None) -> tuple[str | None, Column | None]:
        field = fields.get(name)
        if field is None:
            return undeclared_text(token, text), Column(token=token)
        return value_of(field, token, text, numbers_as_text), None

    return one_by_one(image, read)


@lru_cache(maxsize=1024)
def _recipe(names: tuple[str, ...], kinds: Kinds, fields: Fields, numbers_as_text: bool) -> Recipe | None:
    if not is_plain(kinds):
        return None
    work: list[Step] = []
    undeclared = Shape()
    for name, kind in zip(names, kinds, strict=True):
        field = fields.get(name)
        if field is None:
            undeclared[name] = Column(token=TOKENS[kind])
            work += undeclared_work(name, kind)
            continue
        convert = conversion_of(field, kind, numbers_as_text)
        work += () if convert is None else ((name, convert),)
    return Recipe(tuple(work), undeclared)


def decoded_image(image: Mapping[str, str | None] | None, codecs: Mapping[str, str]) -> dict[str, str | None] | None:
    """The image with the base64 columns that have a codec as text. Raises `Malformed` when a value is not in it."""
    if image is None or not codecs:
        return image if image is None or isinstance(image, dict) else dict(image)
    return {name: _decoded(name, text, codecs[name]) if text is not None and name in codecs else text for name, text in image.items()}


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


key_fields = kept(_key_fields)
"""The fields of a key's schema block."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How the parts of a message are read that it holds as JSON: members as bytes, and cells."""

    members: Callable[[bytes], dict[str, Raw]]
    cells: Callable[[bytes], dict[str, Any]]


def _read(decoder: msgspec.json.Decoder[dict[str, Any]], data: bytes) -> dict[str, Any]:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Inexact from None


WHOLE = Either(_OBJECT, _OBJECT, is_nested=True)
"""A message or key as its members. Nothing repeats in the parts of one that is read plainly."""

PLAIN = Parts(partial(_read, _OBJECT), partial(_read, msgspec.json.Decoder(dict[str, Any], float_hook=Digits)))
EXACT = Parts(partial(read_json, _OBJECT), partial(read_json, _OBJECT))


def key_of(key: bytes, *, numbers_as_text: bool = False) -> tuple[dict[str, str | None] | None, Mapping[str, Column]]:
    """The key of a message, with or without a schema block, and its columns; None where its payload is null.

    Raises `Malformed` for a key that is no JSON object.
    """
    try:
        return _key_of(key, WHOLE.plain_of(key), PLAIN, numbers_as_text)
    except Inexact:
        return _key_of(key, read_json(_OBJECT, key), EXACT, numbers_as_text)


def _key_of(
    key: bytes, whole: dict[str, Raw], parts: Parts, numbers_as_text: bool
) -> tuple[dict[str, str | None] | None, Mapping[str, Column]]:
    payload, schema = bytes(whole.get("payload", b"")), whole.get("schema")
    if not payload or (schema is None and not payload.startswith(b"{")):
        return image_of(parts.cells(key), {})
    if payload == b"null":
        return None, {}
    fields = Fields() if schema is None else key_fields(bytes(schema))
    image, undeclared = image_of(parts.cells(payload), fields, numbers_as_text=numbers_as_text)
    return image, joined_columns(columns_of(fields), undeclared)
