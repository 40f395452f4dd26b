"""Ids of changes: the same change has the same id, however often it is delivered or decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from framework.contracts.events import Image, Op
from framework.contracts.full_loads import epoch_part


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
    return "".join(map(_measured, parts)).encode("utf-8", "surrogatepass")


def _measured(part: str | None) -> str:
    """One part as `_joined` writes it."""
    if part is None:
        return "n"
    size = len(part) if part.isascii() else len(part.encode("utf-8", "surrogatepass"))
    return f"{size}:{part}"


_EMPTY = blake2b(digest_size=16)


def _digest_of(data: bytes) -> str:
    found = _EMPTY.copy()
    found.update(data)
    return found.hexdigest()


def key_values(keys: Sequence[str] | None, image: Image | None) -> tuple[str | None, ...] | None:
    """The key's values in an image; None where the table has no key or the image lacks a part of it."""
    if not keys or image is None:
        return None
    try:
        return tuple([image[name] for name in keys])
    except KeyError:
        return None


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
    """These parts as `_joined` writes them."""
    return "".join(map(_measured, place))


def _image_text(image: Image | None) -> str:
    """The parts of an image as `_joined` writes them."""
    if image is None:
        return "n"
    in_order, pieces = _names_text(tuple(image))
    pieces = pieces.copy()
    values: tuple[Any, ...] = in_order(image)
    try:
        pieces[2::3] = map(_SIZES.__getitem__, map(len, values))
        pieces[3::3] = values
        text = "".join(pieces)
        if text.isascii():  # then each character is one byte
            return text
    except (TypeError, IndexError):  # a null, a long text
        pass
    pieces[2::3] = map(_measured, values)
    pieces[3::3] = [""] * len(values)
    return "".join(pieces)


_SIZES = tuple(f"{size}:" for size in range(300))


@lru_cache(maxsize=4096)
def _names_text(names: tuple[str, ...]) -> tuple[Callable[[Image], tuple[Any, ...]], list[str]]:
    """What gives the values in the order of the names; and the names behind their count.

    Behind each name there is room for the length and the text of its value.
    """
    ordered = sorted(names)
    pieces = [_measured(str(len(ordered)))]
    for name in ordered:
        pieces += [_measured(name), "", ""]
    if len(ordered) > 1:
        return itemgetter(*ordered), pieces
    return lambda image: tuple([image[name] for name in ordered]), pieces


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
    # without a time, only its offset distinguishes it from an equal one
    is_at_offset = row.get("block") is not None and row["event_time"] is None
    if row["kind"] != "row":
        where = row["sequence"] if is_at_offset else row["position"] or "/".join(coordinate_parts(row))
        return digest((*place, where, row["statement"], str(row["ordinal"])))
    before, after = row["before"], row["after"]
    where = row["identity"]
    if where is not None:
        image = before if row["op"] == Op.DELETE or after is None else after
        identity = key_values(row["keys"], image)
        told = _image_text(image) if identity is None else "".join(map(_measured, identity))
    else:
        where = row["sequence"] if is_at_offset else row["position"] or epoch_part(row["sequence"])
        told = _image_text(before) + _image_text(after)
    text = f"{_place_text(place)}{_measured(where)}{told}"
    return _digest_of(text.encode("utf-8", "surrogatepass"))
