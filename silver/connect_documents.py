r"""MongoDB's documents in Debezium messages, as rows as far as they are flat: a field of the top level is a column.

    {"after": "{\"_id\": {\"$oid\": \"65e0\"}, \"name\": \"Ann\", \"n\": {\"$numberLong\": \"5\"}}", "updateDescription": null, ...}

    message                                   becomes
    `after`, `before`                         the document, which is JSON in a text
    `updateDescription` without `after`       a partial row: the updated fields, and null for the removed ones
    key {"id": "{\"$oid\": \"65e0\"}"}          the column `_id`
    {"$oid": x} {"$numberLong": x} {"$numberInt": x} {"$numberDouble": x} {"$numberDecimal": x}   x

Any other object or array stays JSON text. An update of a part of a field (`address.city`, an array cut short) says nothing
of the rest of it: such a message is refused, for the connector can send whole documents (`capture.mode` with update_full).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from framework.contracts.reasons import Malformed, Reason
from silver.wire import read_json, scalar, text_of

KEY = "_id"

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBERS = frozenset({"$numberLong", "$numberInt", "$numberDouble", "$numberDecimal"})
_NULL = (b"", b"null")
_MISSING = Raw()


class _Update(msgspec.Struct):
    removedFields: list[str] | None = None
    updatedFields: str | None = None
    truncatedArrays: list[Raw] | None = None


_UPDATE = msgspec.json.Decoder(_Update | None)


def document_of(raw: Raw | None) -> dict[str, Raw] | None:
    """The fields of a document that is JSON in a text; None where it is null or missing."""
    data = bytes(raw if raw is not None else _MISSING)
    if data in _NULL:
        return None
    text = text_of(data) if data[:1] == b'"' else None
    fields = read_json(_OBJECT, data if text is None else text.encode())
    return {name: _plain(value) for name, value in fields.items()}


def update_of(raw: Raw | None, key: Mapping[str, Raw] | None) -> dict[str, Raw] | None:
    """The columns that an update describes, with the key; None where it describes none."""
    data = bytes(raw if raw is not None else _MISSING)
    change = None if data in _NULL else read_json(_UPDATE, data)
    if change is None or key is None:
        return None
    updated = document_of(Raw(json.dumps(change.updatedFields).encode())) if change.updatedFields else None
    removed = change.removedFields or []
    if change.truncatedArrays or any("." in name for name in (*(updated or {}), *removed)):
        raise Malformed(Reason.MISSING_IMAGE, "an update of a part of a field: have the connector send whole documents")
    return {**key, **(updated or {}), **{name: Raw(b"null") for name in removed}}


def document_key(key: bytes | None) -> dict[str, Raw] | None:
    """The key `{"id": JSON in a text}` as the column `_id`, with or without a schema block; None for other keys."""
    if not key:
        return None
    try:
        members = read_json(_OBJECT, key)
        members = read_json(_OBJECT, bytes(members["payload"])) if "payload" in members else members
    except Malformed:
        return None
    if members.keys() != {"id"}:
        return None
    text = scalar(members["id"])[1]
    try:
        return {KEY: _plain(Raw(json.dumps(json.loads(text or "null")).encode()))}
    except (ValueError, RecursionError):
        return {KEY: members["id"]}


def _plain(value: Raw) -> Raw:
    """The value that an object of extended JSON wraps; any other value as it is."""
    data = bytes(value)
    if not data.startswith(b"{"):
        return value
    inner = read_json(_OBJECT, data)
    if len(inner) != 1:
        return value
    ((name, wrapped),) = inner.items()
    if name == "$oid":
        return wrapped
    text = scalar(wrapped)[1] if name in _NUMBERS else None
    return Raw(text.encode()) if text is not None and _NUMBER.fullmatch(text) else value
