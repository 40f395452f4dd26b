"""The signatures of formats that share an envelope: the sign in a message by which one format is recognized.

    oms_default, oms_default_extend   the images of the second have `__light_type`
    canal, oms_canal                  Canal writes every value as text, types with their digits, and a batch
                                      number `id`; OMS writes JSON numbers, bare type names, times in seconds
    arcion, debezium                  Arcion writes the connector in capitals and every value as text; the
                                      oldest releases of Debezium write no connector

A signature is a text for people. A message may have none: a heartbeat, a statement, a row of texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_SECONDS = re.compile(r"[0-9]{9,11}(\.[0-9]+)?")
_BARE_NUMBERS = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "int64", "float", "double", "decimal"}
)


def default_signature(document: Document) -> str | None:
    """The sign that OMS Default wrote the message; None where it has none."""
    images = _images(document, "prevStruct", "postStruct")
    is_row = document.get("recordType") in ("INSERT", "UPDATE", "DELETE", "ROW")
    return (
        "images without __light_type"
        if is_row and images and not any("__light_type" in image for image in images)
        else None
    )


def default_extend_signature(document: Document) -> str | None:
    """The sign that OMS Default Extend wrote the message; None where it has none."""
    return (
        "__light_type in an image"
        if any("__light_type" in image for image in _images(document, "prevStruct", "postStruct"))
        else None
    )


def canal_signature(document: Document) -> str | None:
    """The sign that Canal wrote the message; None where it has none."""
    if "_tidb" in document:
        return "TiCDC's member _tidb"
    if document.get("id") is not None:
        return "the batch number id"
    types = _types(document)
    if any("(" in kind for kind in types.values()):
        return "types with their digits in mysqlType"
    for row in _rows(document):
        texts = {
            name: value
            for name, value in row.items()
            if isinstance(value, str) and types.get(name) in _BARE_NUMBERS
        }
        if any(_NUMBER.fullmatch(value) for value in texts.values()):
            return "numbers written as text"
    return None


def oms_canal_signature(document: Document) -> str | None:
    """The sign that OMS Canal wrote the message; None where it has none."""
    if "_tidb" in document:
        return None
    types, rows = _types(document), _rows(document)
    if any(isinstance(value, int | float) for row in rows for value in row.values()):
        return "numbers written as JSON numbers"
    if "int64" in types.values():
        return "the type int64 in mysqlType"
    for row in rows:
        if any(
            types.get(name) == "timestamp" and isinstance(value, str) and _SECONDS.fullmatch(value)
            for name, value in row.items()
        ):
            return "a TIMESTAMP in seconds"
    return None


def arcion_signature(document: Document) -> str | None:
    """The sign that Arcion wrote the message; None where it has none."""
    connector = _source(document).get("connector")
    return "source.connector in capitals" if isinstance(connector, str) and connector.isupper() else None


def debezium_signature(document: Document) -> str | None:
    """The sign that Debezium wrote the message; None where it has none."""
    source = _source(document)
    connector = source.get("connector")
    if source and connector is None:
        return "a source without connector, as old releases have it"
    return "source.connector in small letters" if isinstance(connector, str) and connector.islower() else None


def _images(document: Document, *names: str) -> list[Mapping[str, Any]]:
    return [image for name in names if isinstance(image := document.get(name), Mapping) and image]


def _rows(document: Document) -> list[Mapping[str, Any]]:
    data = document.get("data")
    return (
        [row for row in data if isinstance(row, Mapping)]
        if isinstance(data, Sequence) and not isinstance(data, str)
        else []
    )


def _types(document: Document) -> dict[str, str]:
    declared = document.get("mysqlType")
    return (
        {name: kind for name, kind in declared.items() if isinstance(kind, str)}
        if isinstance(declared, Mapping)
        else {}
    )


def _source(document: Document) -> Mapping[str, Any]:
    payload = document.get("payload", document)
    source = payload.get("source") if isinstance(payload, Mapping) else None
    return source if isinstance(source, Mapping) else {}
