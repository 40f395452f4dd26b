r"""MongoDB's documents in Debezium messages as rows: each top-level field is a column.

    {"after": "{\"_id\": {\"$oid\": \"65e0\"}, \"name\": \"Ann\", \"n\": {\"$numberLong\": \"5\"}}",
     "updateDescription": null, ...}

    message                                   becomes
    `after`, `before`                         the document, which is JSON in a text
    `updateDescription` without `after`       a partial row: the updated fields, and null for the removed ones
    key {"id": "{\"$oid\": \"65e0\"}"}          the column `_id`

    value of extended JSON                                              becomes
    {"$oid": x} {"$uuid": x}                                            x
    {"$numberLong": x}, $numberInt, $numberDouble, $numberDecimal       the number x; NaN and infinities, also
                                                                        bare, are a double
    {"$date": ms}, {"$date": {"$numberLong": ms}}, {"$date": ISO}       timestamp
    {"$timestamp": {"t": s, "i": n}}                                    timestamp of s; n counts the entries
                                                                        of the oplog in one second
    {"$binary": x, "$type": n}, {"$binary": {"base64": x, ...}}         binary
    {"$undefined": true}                                                null

Any other object or array stays JSON text. An update of a part of a field (`address.city`, a shortened array)
does not show the rest of the field: such a message is refused, because the connector can send whole documents
(`capture.mode` with update_full).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from framework.contracts.events import Token
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.json_reader import optional_text, read_json, scalar, string_text
from silver.envelopes.connect.column_types import Field, value_of
from silver.values.canonical import instant_of_epoch

KEY = "_id"

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.+-])(NaN|-?Infinity)(?![\w.+-])', re.DOTALL)
_NUMBERS = frozenset({"$numberLong", "$numberInt", "$numberDouble", "$numberDecimal"})
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
_MILLISECONDS = re.compile(r"-?[0-9]{1,15}")
_SECONDS = re.compile(r"[0-9]{1,10}")
_INSTANT, _BYTES, _DOUBLE = (
    Field(type="string", name="io.debezium.time.ZonedTimestamp"),
    Field(type="bytes"),
    Field(type="double"),
)
_NULL = (b"", b"null")
_MISSING = Raw()
_Typed = tuple[Raw, Field | None]


class _Update(msgspec.Struct):
    removedFields: list[str] | None = None
    updatedFields: str | None = None
    truncatedArrays: list[Raw] | None = None


_UPDATE = msgspec.json.Decoder(_Update | None)


@dataclass(frozen=True, slots=True)
class Document:
    """The fields of a document, and the types that extended JSON names for some of them."""

    cells: dict[str, Raw]
    fields: dict[str, Field]


def document_of(raw: Raw | None) -> Document | None:
    """The fields of a document that is JSON in a text; None where it is null or missing."""
    data = bytes(raw if raw is not None else _MISSING)
    if data in _NULL:
        return None
    return _document(read_json(_OBJECT, _strict(string_text(data)) if data[:1] == b'"' else data))


def update_of(raw: Raw | None, key: Document | None) -> Document | None:
    """The columns that `updateDescription` has, with the key; None where it has none."""
    data = bytes(raw if raw is not None else _MISSING)
    change = None if data in _NULL else read_json(_UPDATE, data)
    if change is None or key is None:
        return None
    updated = _document(read_json(_OBJECT, _strict(change.updatedFields)) if change.updatedFields else {})
    removed = change.removedFields or []
    if change.truncatedArrays or any("." in name for name in (*updated.cells, *removed)):
        raise Malformed(
            Reason.MISSING_IMAGE, "an update of a part of a field: have the connector send whole documents"
        )
    cells = {**key.cells, **updated.cells, **{name: Raw(b"null") for name in removed}}
    return Document(cells, {**key.fields, **updated.fields})


def document_key(key: bytes | None) -> Document | None:
    """The key `{"id": JSON in a text}` as the column `_id`, with or without a schema block.

    None for other keys.
    """
    if not key:
        return None
    try:
        members = read_json(_OBJECT, key)
        members = read_json(_OBJECT, bytes(members["payload"])) if "payload" in members else members
    except Malformed:
        return None
    if members.keys() != {"id"}:
        return None
    try:
        cells = read_json(_OBJECT, _strict(f'{{"{KEY}":{scalar(members["id"])[1] or "null"}}}'))
    except Malformed:
        cells = {}
    return _document(cells if cells.keys() == {KEY} else {KEY: members["id"]})


def _document(cells: dict[str, Raw]) -> Document:
    typed = {name: _typed(value) for name, value in cells.items()}
    fields = {name: field for name, (_, field) in typed.items() if field is not None}
    return Document({name: value for name, (value, _) in typed.items()}, fields)


def _strict(text: str) -> bytes:
    """The text as valid JSON: MongoDB's strict mode writes NaN and infinities without quotes."""
    if not text.lstrip().startswith("{") or ("NaN" not in text and "Infinity" not in text):
        return text.encode()
    return _NO_NUMBER.sub(
        lambda found: f'{{"$numberDouble":"{found[1]}"}}' if found[1] else found[0], text
    ).encode()


def _typed(value: Raw) -> _Typed:
    """The value in an object of extended JSON, with its type if it names one; any other value as it is."""
    data = bytes(value)
    if not data.startswith(b"{"):
        return value, None
    inner = read_json(_OBJECT, data)
    if "$binary" in inner and inner.keys() <= {"$binary", "$type"}:
        return _binary(inner["$binary"]) or (value, None)
    if len(inner) != 1:
        return value, None
    ((name, wrapped),) = inner.items()
    if name in ("$oid", "$uuid"):
        return wrapped, None
    if name == "$undefined":
        return Raw(b"null"), None
    found = _number(wrapped) if name in _NUMBERS else _moment(name, wrapped)
    return found or (value, None)


def _number(wrapped: Raw) -> _Typed | None:
    text = scalar(wrapped)[1]
    if text in _NOT_FINITE:
        return _quoted(text), _DOUBLE
    return (Raw(text.encode()), None) if text is not None and _NUMBER.fullmatch(text) else None


def _moment(name: str, wrapped: Raw) -> _Typed | None:
    members = read_json(_OBJECT, bytes(wrapped)) if bytes(wrapped)[:1] == b"{" else {}
    if name == "$timestamp" and members.keys() == {"t", "i"}:
        text = scalar(members["t"])[1] or ""
        return (_quoted(instant_of_epoch(text, "s")), _INSTANT) if _SECONDS.fullmatch(text) else None
    if name != "$date" or bytes(wrapped)[:1] in (b"[", b"t", b"f", b"n"):
        return None
    text = (
        optional_text(
            members["$numberLong"] if members.keys() == {"$numberLong"} else wrapped if not members else None
        )
        or ""
    )
    if _MILLISECONDS.fullmatch(text):
        return _quoted(instant_of_epoch(text, "ms")), _INSTANT
    return (_quoted(value_of(_INSTANT, Token.TEXT, text) or text), _INSTANT) if text else None


def _binary(wrapped: Raw) -> _Typed | None:
    members = read_json(_OBJECT, bytes(wrapped)) if bytes(wrapped)[:1] == b"{" else {"base64": wrapped}
    data = members.get("base64", _MISSING)
    return (data, _BYTES) if bytes(data)[:1] == b'"' else None


def _quoted(text: str) -> Raw:
    return Raw(json.dumps(text).encode())
