"""Ids of changes: the same change has the same id, however often it is delivered or decoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from framework.contracts.events import Image, Op
from silver.values.sequence import epoch_part


def digest(parts: Iterable[str | None]) -> str:
    """32 hexadecimal characters for these parts.

    Null differs from empty text, and parts are never run together.
    """
    encoded = []
    for part in parts:
        if part is None:
            encoded.append(b"n")
        else:
            data = part.encode("utf-8", "surrogatepass")
            encoded.append(b"%d:%b" % (len(data), data))
    return blake2b(b"".join(encoded), digest_size=16).hexdigest()


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
        return digest((*place, where, *image_parts(row["before"]), *image_parts(row["after"])))
    image = row["before"] if row["op"] == Op.DELETE or row["after"] is None else row["after"]
    identity = key_values(row["keys"], image)
    return digest((*place, row["identity"], *(identity if identity is not None else image_parts(image))))
