"""Enumerations whose members are read as fast as other attributes of a class."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

_E = TypeVar("_E", bound=Enum)


def plain_members(kind: type[_E]) -> type[_E]:
    """The enumeration, its members as plain attributes of the class. A decorator.

    In Python 3.11 `Op.INSERT` calls a function, which takes ten times as long as any other attribute. Later
    releases keep the members as plain attributes themselves.
    """
    for name, member in kind.__members__.items():
        type.__setattr__(kind, name, member)
    return kind
