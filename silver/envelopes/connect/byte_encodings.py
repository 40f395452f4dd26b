"""Bytes that Kafka Connect's messages hold as text: base64, base64url, hexadecimal digits."""

from __future__ import annotations

import base64


def bytes_of(text: str) -> bytes | None:
    """The bytes of a base64 text; None for any other text."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def url_bytes_of(text: str) -> bytes | None:
    """The bytes of a base64url text; None for any other text."""
    return None if "+" in text or "/" in text else bytes_of(text.replace("-", "+").replace("_", "/"))


def base64_of(text: str, *, is_hex: bool) -> str:
    """Hexadecimal digits or base64url as base64; any other text as it was sent."""
    try:
        data = bytes.fromhex(text) if is_hex else url_bytes_of(text)
    except ValueError:
        data = None
    return text if data is None else base64.b64encode(data).decode()
