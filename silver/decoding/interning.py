"""Interning: a part that many messages repeat is read once, and all of them share one object."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")
_LONGEST = 65_536
"""Bytes. Longer parts are read for each message: few tables have them, and caching them takes much memory."""


class Shared(dict[_K, _V]):
    """A dictionary that many messages share. It never changes, and it is compared by identity."""

    # a dict has no hash; as a key of caches it is found by identity, not by its contents
    __hash__ = object.__hash__  # type: ignore[assignment]


def cached_by_bytes(read: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
    """`read` with a cache by bytes. `read` must have no side effects, and nobody may change its results."""
    known = lru_cache(maxsize=1024)(read)
    return lambda part: known(part) if len(part) <= _LONGEST else read(part)
