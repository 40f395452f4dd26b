"""What many messages repeat: read once, and one object for all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")
_LONGEST = 65_536
"""Bytes: longer parts are read for each message, for there are few such tables and memory is not theirs alone."""


class Shared(dict[_K, _V]):
    """A dictionary that many messages share: one object, never changed, and told from others by that."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # dict says None; a key of caches is to be found without its contents


def kept(read: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
    """`read`, which reads the same bytes once. It must have no effect, and what it gives must not be changed."""
    known = lru_cache(maxsize=1024)(read)
    return lambda part: known(part) if len(part) <= _LONGEST else read(part)
