"""Reading once: a part that many messages repeat, and a property that is used several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")
_LONGEST = 65_536
"""Bytes. Longer parts are read for each message: few tables have them, and caching them takes much memory."""


class Shared(dict[_K, _V]):
    """A dictionary that many messages share. It never changes, and it is compared by identity."""

    # a dict has no hash; as a key of caches it is found by identity, not by its contents
    __hash__ = object.__hash__  # type: ignore[assignment]


class ReadOnce(Generic[_T]):
    """A property that is computed when it is first used, and kept.

    It is `functools.cached_property` without the lock that this has in Python 3.11: an object is read by one
    thread, and there are several properties a message.
    """

    def __init__(self, read: Callable[[Any], _T]) -> None:
        self.read = read
        self.name = read.__name__
        self.__doc__ = read.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> _T:
        value = instance.__dict__[self.name] = self.read(instance)
        return value


def cached_by_bytes(read: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
    """`read` with a cache by bytes. `read` must have no side effects, and nobody may change its results."""
    known = lru_cache(maxsize=1024)(read)
    return lambda part: known(part) if len(part) <= _LONGEST else read(part)
