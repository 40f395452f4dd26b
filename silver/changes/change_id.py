"""Ids of changes: the same change has the same id, however often it is delivered or decoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from framework.contracts.events import Image, Op
from silver.values.sequence import epoch_part


def digest(parts: Iterable[str | None]) -> str:
    """32 hexadecimal characters for these parts.

    Null differs from empty text, and parts are never run together.
    """
    return _digest_of(_joined(parts))


def _joined(parts: Iterable[str | None]) -> bytes:
    """The parts as bytes, each after its length in bytes."""
    parts = tuple(parts)
    text = "".join(["n" if part is None else f"{len(part)}:{part}" for part in parts])
    if text.isascii():  # then each character is one byte
        return text.encode("ascii")
    return b"".join(map(_encoded, parts))


def _encoded(part: str | None) -> bytes:
    if part is None:
        return b"n"
    data = part.encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(data), data)


def _digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


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


@lru_cache(maxsize=4096)
def _place_text(place: tuple[str | None, ...]) -> str:
    """These parts as `_joined` writes them, if they are ASCII."""
    return "".join(["n" if part is None else f"{len(part)}:{part}" for part in place])


def _image_text(image: Image | None) -> str:
    """The parts of an image as `_joined` writes them, if they are ASCII."""
    if image is None:
        return "n"
    pieces = [f"{len(str(len(image)))}:{len(image)}"]
    for name, written in _names_text(tuple(image)):
        value = image[name]
        pieces.append(f"{written}n" if value is None else f"{written}{len(value)}:{value}")
    return "".join(pieces)


@lru_cache(maxsize=4096)
def _names_text(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The names in order, each with its text."""
    return tuple((name, f"{len(name)}:{name}") for name in sorted(names))


def coordinate_parts(row: Mapping[str, Any]) -> list[str]:
    """The coordinates of a row, which identify it.

    The first epoch is left out, because the ids of older releases were made without it.
    """
    parts = [row["topic"], str(row["partition"]), str(row["offset"]), str(row["ordinal"])]
    return [*parts, f"epoch {row['epoch']}"] if (row["epoch"] or 1) > 1 else parts


def change_id(row: Mapping[str, Any]) -> str:
    """The id of a change.

    Where the feed identifies the change (`identity`), the id is made of that and the key, else of the
    position and all that the change says.
    """
    place = (row["source"], row["database"], row["schema"], row["table"], row["kind"], row["op"])
    if row["kind"] != "row":
        where = row["position"] or "/".join(coordinate_parts(row))
        return digest((*place, where, row["statement"], str(row["ordinal"])))
    if row["identity"] is None:
        where = row["position"] or epoch_part(row["sequence"])
        if (
            row.get("block") is not None and row["event_time"] is None
        ):  # only its offset distinguishes it from an equal one
            where = row["sequence"]
        text = (
            f"{_place_text(place)}{len(where)}:{where}{_image_text(row['before'])}{_image_text(row['after'])}"
        )
        if text.isascii():
            return _digest_of(text.encode("ascii"))
        return digest((*place, where, *image_parts(row["before"]), *image_parts(row["after"])))
    image = row["before"] if row["op"] == Op.DELETE or row["after"] is None else row["after"]
    identity = key_values(row["keys"], image)
    return digest((*place, row["identity"], *(identity if identity is not None else image_parts(image))))
