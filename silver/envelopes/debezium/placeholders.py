"""Placeholders of Debezium for unchanged columns whose values the database did not log.

The configured word (`__debezium_unavailable_value`) stands for every type, so it has a spelling for each:

    column                            spelling
    text, JSON, XML, enum             the word; in a JSON column also as JSON text
    binary                            the word in base64 or hexadecimal
    array of text, uuid, numbers      one element: the word; the UUID of its bytes; or its bytes as numbers
    hstore                            a map, or the JSON text of one, from the word to itself
    decimal of open scale             a struct whose value is the word in base64
    point, geometry, geography        an impossible point: -99999999, -99999999, or the corner of the globe
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import uuid
from collections.abc import Iterable
from functools import lru_cache

import msgspec

WORD = "__debezium_unavailable_value"

_LONGEST = 4_096
_GEOMETRY = bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")
_GEOGRAPHY = bytes.fromhex("0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640")
_POINT = b"\x01\x01\x00\x00\x00" + struct.pack("<dd", -99999999.0, -99999999.0)
_SHAPES = tuple(b'"wkb":"' + base64.b64encode(shape) + b'"' for shape in (_GEOMETRY, _GEOGRAPHY, _POINT))


def is_unavailable(data: bytes, word: str = WORD) -> bool:
    """Whether a JSON value is a placeholder. `data` is the value as it was sent."""
    first = data[:1]
    if first not in (b'"', b"[", b"{") or len(data) > _LONGEST + 10 * len(word):
        return False
    if first == b'"':
        return data in _texts(word)
    compact = b"".join(data.split())
    return compact in _structures(word) or (first == b"{" and any(shape in compact for shape in _SHAPES))


def is_unavailable_text(text: str, word: str = WORD) -> bool:
    """Whether a text is a placeholder that was written without needless escapes."""
    return text in _words(word) and msgspec.json.encode(text) in _texts(word)


def may_be_unavailable(texts: Iterable[object], word: str = WORD) -> bool:
    """Whether one of the values may be a placeholder."""
    return not _words(word).isdisjoint(texts)


@lru_cache(maxsize=8)
def _texts(word: str) -> frozenset[bytes]:
    return frozenset(
        json.dumps(text, ensure_ascii=ascii_).encode() for text in _words(word) for ascii_ in (True, False)
    )


@lru_cache(maxsize=8)
def _words(word: str) -> frozenset[str]:
    plain = word.encode()
    spellings = {
        word,
        _base64(plain),
        base64.urlsafe_b64encode(plain).decode(),
        plain.hex(),
        plain.hex().upper(),
    }
    return frozenset(
        spellings | {f'"{word}"', f'["{word}"]', f'{{"{word}":"{word}"}}', f'{{"{word}": "{word}"}}'}
    )


@lru_cache(maxsize=8)
def _structures(word: str) -> frozenset[bytes]:
    plain = word.encode()
    signed = [byte - 256 if byte > 127 else byte for byte in plain]
    elements = [
        [word],
        [_base64(plain)],
        [plain.hex()],
        [str(_uuid(plain))],
        signed,
        [float(byte) for byte in signed],
    ]
    maps = [{word: word}, [[word, word]], {"scale": 0, "value": _base64(plain)}]
    return frozenset(json.dumps(value, separators=(",", ":")).encode() for value in (*elements, *maps))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _uuid(data: bytes) -> uuid.UUID:
    """Java's UUID of a name: the MD5 of its bytes without a namespace, marked as version 3."""
    return uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
