"""Bytes that messages hold as text: base64, base64url, hexadecimal digits, which may follow `0x`."""

from __future__ import annotations

import base64
import re

_HEX = re.compile(r"(?:0x)?((?:[0-9A-Fa-f]{2})*)")


def bytes_of(text: str) -> bytes | None:
    """The bytes of a base64 text; None for any other text."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def url_bytes_of(text: str) -> bytes | None:
    """The bytes of a base64url text; None for any other text."""
    return None if "+" in text or "/" in text else bytes_of(text.replace("-", "+").replace("_", "/"))


def hex_bytes_of(text: str) -> bytes | None:
    """The bytes of hexadecimal digits, with or without `0x` before them; None for any other text."""
    found = _HEX.fullmatch(text)
    return None if found is None else bytes.fromhex(found[1])


def base64_of(text: str, encoding: str) -> str:
    """A text in an encoding (`hex`, `base64url`, `base64`) as base64.

    A text that is not in its encoding may look like base64. It gets the name of the encoding before it,
    `hex:12`, so that it is no bytes in gold, and its cell is listed.
    """
    data = {"hex": hex_bytes_of, "base64url": url_bytes_of, "base64": bytes_of}[encoding](text)
    return not_in(encoding, text) if data is None else base64.b64encode(data).decode()


def not_in(encoding: str, text: str) -> str:
    """What silver holds for a value that is not in its encoding: a text that is no base64."""
    return f"{encoding}:{text}"
