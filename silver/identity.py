"""Deterministic identities: the same change has the same id, however often it is delivered or decoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from framework.contracts.events import Image


def digest(parts: Iterable[str | None]) -> str:
    """32 hexadecimal characters of the parts; null and empty text differ, and no two lists run together."""
    told = []
    for part in parts:
        if part is None:
            told.append(b"n")
        else:
            data = part.encode("utf-8", "surrogatepass")
            told.append(b"%d:%b" % (len(data), data))
    return blake2b(b"".join(told), digest_size=16).hexdigest()


def key_values(keys: Sequence[str] | None, image: Image | None) -> tuple[str | None, ...] | None:
    """The key's values in an image; None where the table has no key or the image lacks a part of it."""
    if not keys or image is None or any(name not in image for name in keys):
        return None
    return tuple(image[name] for name in keys)


def image_parts(image: Image | None) -> list[str | None]:
    """An image as a flat list that does not depend on the order of its columns."""
    if image is None:
        return [None]
    parts: list[str | None] = [str(len(image))]
    for name in sorted(image):
        parts.append(name)
        parts.append(image[name])
    return parts
