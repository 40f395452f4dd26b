"""Refuses messages in which an object names a member twice with different values, for they have two readings.

Only objects that a decoder reads are checked. A JSON value of a column is text: it stays byte for byte what
was sent, repeated members included. The same member twice with the same value counts as one member.

For most messages, reading and writing them again is enough: if that gives the same bytes, no object repeats a
member. For messages with spaces or escapes the members are counted: the message that is written again has as
many as before. Counting would miss a name that is separated from its colon by spaces, so such a document is
minified first.
"""

from __future__ import annotations

import json
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.interning import cached_by_bytes

_COLON = b'":'
_SCHEMA = b'"schema"'
_BLOCKS = (b'{"schema"', b'{"payload"', b'{"version"')
"""How documents with a schema block begin, unless they have spaces."""
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY = msgspec.json.Decoder(float_hook=str)
"""Reads a document to count its members; numbers with a point stay text, because parsing them is slow."""
_AS_WRITTEN = msgspec.json.Decoder(float_hook=msgspec.Raw)
"""Reads a document to write it again, numbers with a point as they were."""


class WrittenParts(msgspec.Struct):
    """The parts of a message with a schema block, which stays bytes, as do numbers with a point.

    Parts that are missing are UNSET; they stay missing when the message is written again.
    """

    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload: Any = msgspec.UNSET
    version: Any = msgspec.UNSET


class _VersionFirst(msgspec.Struct):
    version: Any = msgspec.UNSET
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload: Any = msgspec.UNSET
    extend: Any = msgspec.UNSET


_ORDERS: tuple[tuple[bytes, msgspec.json.Decoder[Any]], ...] = tuple(
    (start, msgspec.json.Decoder(kind, float_hook=msgspec.Raw))
    for start, kind in ((b'{"schema":{"', WrittenParts), (b'{"version":"', _VersionFirst))
)
"""How a document begins, and a decoder that writes it again in the same order with its schema as it was."""
_QUOTES_AND_COLONS = (b"\\u0022", b"\\u003a", b"\\u003A")
"""A quote or a colon that is written as an escape is counted in one spelling and not in the other."""


class _Object(list[tuple[str, Any]]):
    """The members of one object as they were written."""


_PAIRS = json.JSONDecoder(
    object_pairs_hook=_Object, parse_float=str.encode, parse_int=str.encode, strict=False
)


def refuse_repeated_names(document: bytes, kind: Any) -> None:
    """Raises `Malformed` when an object that `kind` describes names a member twice with different values.

    `document` is one JSON document that a decoder of `kind` has read. Bytes that it left unread are checked
    too.
    """
    if is_as_written(document) or _is_sound(document):
        return
    try:
        name = _repeated(_PAIRS.decode(document.decode("utf-8")), kind)
    except RecursionError:
        raise Malformed(Reason.TOO_DEEP, "nested deeper than this reader follows") from None
    except UnicodeDecodeError as error:
        raise Malformed(Reason.ENCODING, f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Malformed(Reason.NOT_JSON, f"{error.msg} at character {error.pos}") from None
    if name is not None:
        raise Malformed(Reason.DUPLICATE_NAME, f"an object names {name[:100]!r} twice with different values")


def is_as_written(document: bytes) -> bool:
    """Whether the document, read and written again, has the same bytes; then no object repeats a name.

    Spaces, needless escapes and `-0` make a difference too. Equal `schema` blocks, which
    messages share, are checked only once.
    """
    try:
        if _SCHEMA not in document:
            return _is_written_again(document)
        if not document.startswith(_BLOCKS):  # `schema` is a name inside the message
            return _is_written_again(document)
        return written_parts(document) is not None or _are_members_written_again(document)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def written_parts(document: bytes) -> WrittenParts | None:
    """The parts of a document with a schema block that is as written, in the order of most writers.

    None for any other document, also for one that is no JSON.
    """
    try:
        for start, decoder in _ORDERS:
            if document.startswith(start):
                parts: WrittenParts = decoder.decode(document)
                if msgspec.json.encode(parts) == document and (
                    type(parts.schema) is not msgspec.Raw or _is_schema_written_again(bytes(parts.schema))
                ):
                    return parts
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    return None


def written_document(document: bytes) -> Any:
    """A document without a schema block that is as written; numbers with a point are bytes.

    None for any other document, also for one that is no JSON.
    """
    try:
        found = None if document.startswith(_BLOCKS) else _AS_WRITTEN.decode(document)
        return found if found is not None and msgspec.json.encode(found) == document else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _are_members_written_again(document: bytes) -> bool:
    members = _MEMBERS.decode(document)
    if msgspec.json.encode(members) != document:
        return False
    for name, raw in members.items():
        value = bytes(raw)
        if value[:1] in b"{[-" and not (
            _is_schema_written_again(value) if name == "schema" else _is_written_again(value)
        ):
            return False
    return True


def _is_written_again(value: bytes) -> bool:
    return msgspec.json.encode(_AS_WRITTEN.decode(value)) == value


_is_schema_written_again = cached_by_bytes(_is_written_again)


def _is_sound(document: bytes) -> bool:
    """Whether counting shows that no member repeats. Equal `schema` blocks are counted only once."""
    if b"\\" in document and any(escape in document for escape in _QUOTES_AND_COLONS):
        return False
    if b"\n" in document or b"\t" in document or b"\r" in document or b'" ' in document:
        document = _minified(document)
    if _SCHEMA not in document:
        return _has_as_many_members_when_written_again(document)
    try:
        members = _MEMBERS.decode(document)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    colons = len(members)
    for name, raw in members.items():
        value = bytes(raw)
        colons += value.count(_COLON)
        if name == "schema":
            if not _is_sound_schema(value):
                return False
        elif value[:1] in b"{[" and not _has_as_many_members_when_written_again(value):
            return False
    return document.count(_COLON) == colons


def _has_as_many_members_when_written_again(document: bytes) -> bool:
    try:
        written = msgspec.json.encode(_ANY.decode(document))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return document.count(_COLON) == written.count(_COLON)


_is_sound_schema = cached_by_bytes(_has_as_many_members_when_written_again)


def _minified(document: bytes) -> bytes:
    try:
        return msgspec.json.format(document, indent=-1)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return document


def _repeated(node: Any, kind: Any) -> str | None:
    """The first name that an object repeats with another value, in the parts that `kind` describes."""
    if kind is None or kind is msgspec.Raw or kind is Any:
        return None
    if isinstance(node, _Object):
        members: dict[str, Any] = {}
        for name, value in node:
            if name in members and members[name] != value:
                return name
            members[name] = value
        return next(
            (
                found
                for name, value in node
                if (found := _repeated(value, _kind_of_member(kind, name))) is not None
            ),
            None,
        )
    if isinstance(node, list):
        (inner,) = _inner(kind, list, 1)
        return next((found for value in node if (found := _repeated(value, inner)) is not None), None)
    return None


def _kind_of_member(kind: Any, name: str) -> Any:
    for choice in _choices(kind):
        plain = get_origin(choice) or choice
        if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
            return _kinds_of_members(choice).get(name)
    return _inner(kind, dict, 2)[1]


@cache
def _kinds_of_members(struct: Any) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


def _inner(kind: Any, container: type, count: int) -> tuple[Any, ...]:
    """The element types of a container of `kind`; None for each where it is no such container."""
    for choice in _choices(kind):
        if get_origin(choice) is container:
            return get_args(choice)
    return (None,) * count


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
