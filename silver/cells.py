"""Cells: the values of an image as Python values where these say exactly what was sent.

    wire               cell
    "Ann"              str
    7                  int
    1.50, 1e400        Digits, the number's text
    true, null         bool, None
    {"a": 1}           none: the image has to be read for its bytes, as `dict[str, Raw]`

A message is read with plain cells first. Where one of them says less than its bytes did, or a number is beyond what is
read at all, `Inexact` is raised, and `either` interprets the message once more from its bytes: they decide, and refuse.

Messages of a table show the same columns with values of the same kinds. What these make of an image is worked out once,
as a `Recipe`, and the columns that it shows are one object for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Event, Token
from silver.member_names import is_as_written, refuse_repeated_names
from silver.shared import Shared, kept
from silver.types import number_text, undeclared_text
from silver.wire import (
    MAX_DIGITS,
    MAX_POSITION_DIGITS,
    MILLISECONDS_DIGITS,
    checked_width,
    number_of,
    optional_text,
    read_json,
    scalar,
    time_of,
)

C = TypeVar("C")
"""What a message's cells are: `Any` or `Raw`."""
S = TypeVar("S")
"""What a schema block is: its bytes, or read."""

Cells = Mapping[str, Any]
Texts = dict[str, str | None]
Kinds = tuple[type, ...]
Step = tuple[str, Callable[[Any], str | None]]
Work = tuple[Step, ...]

_T = TypeVar("_T")
_NEGATIVE_ZERO = re.compile(rb"[:,\[\s]-0(?![.eE])")
_TRUTH = {True: "true", False: "false"}
_FEW_COLUMNS = 500
"""Nothing is kept of wider images: there are few such tables, and a recipe is as wide as its image."""


class Inexact(Exception):
    """A cell does not say what its bytes said: the message is to be read for its bytes."""


class Digits(str):
    """The text of a number that has a point or an exponent."""

    __slots__ = ()


class Shape(Shared[str, Column]):
    """Columns that many messages show, in their order."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What becomes of images of one signature: the cells that are no canonical text yet, and the columns."""

    work: Work
    shape: Shape

    def texts(self, cells: dict[str, Any]) -> Texts:
        """The image as canonical text; the cells become it."""
        for name, made_of in self.work:
            cells[name] = made_of(cells[name])
        return cells


@dataclass(frozen=True, slots=True)
class Either(Generic[_T]):
    """One envelope with plain cells and with those that are bytes. `is_nested`: plain cells may hold objects that are read."""

    plain: msgspec.json.Decoder[_T]
    exact: msgspec.json.Decoder[_T]
    is_nested: bool = False

    def events(self, value: bytes | None, interpret: Callable[[_T], Sequence[Event]]) -> Sequence[Event]:
        """What `interpret` makes of the message, of its plain cells if they are exact."""
        try:
            return interpret(self.plain_of(value))
        except Inexact:
            return interpret(read_json(self.exact, value))

    def plain_of(self, value: bytes | None) -> _T:
        """The message with plain cells. Raises `Inexact` where they are not exact, or it is no message at all."""
        if value is None:
            raise Inexact
        try:
            envelope = self.plain.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Inexact from None
        if not is_as_written(value):
            if self.is_nested or _NEGATIVE_ZERO.search(value):
                raise Inexact
            refuse_repeated_names(value, self.exact.type)
        return envelope


def either(envelope: Any, *, is_nested: bool = False) -> Either[Any]:
    """Both decoders of a message that is generic in its cells."""
    return Either(msgspec.json.Decoder(envelope[Any], float_hook=Digits), msgspec.json.Decoder(envelope[Raw]), is_nested)


def blocks(decoder: msgspec.json.Decoder[S], told: Callable[[S], _T]) -> Callable[[Raw | S], _T]:
    """What a message's schema block says, given as bytes or read; the same bytes are read once for all messages.

    Raises `Inexact` for bytes that cannot be read: the reading of the whole message says why.
    """

    def read(block: bytes) -> _T:
        try:
            return told(decoder.decode(block))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Inexact from None

    known = kept(read)
    return lambda block: known(bytes(block)) if isinstance(block, Raw) else told(block)


def plain_cells(part: Any) -> dict[str, Any] | None:
    """An image that was read as a cell; None where it is null."""
    if part is not None and type(part) is not dict:
        raise Inexact
    return part


def shown(cell: Any) -> tuple[Token, str | None]:
    """The token and the exact text of one cell."""
    kind = type(cell)
    if kind is str:
        return Token.TEXT, cell
    if kind is Raw:
        return scalar(cell)
    if cell is None:
        return Token.NULL, None
    if kind is bool:
        return Token.BOOLEAN, _TRUTH[cell]
    if kind is int:
        return Token.NUMBER, whole_text(cell)
    if kind is Digits:
        return Token.NUMBER, digits_text(cell)
    raise Inexact


def present(cell: Any) -> tuple[Token, str]:
    """As `shown`, of a cell that is not null."""
    token, text = shown(cell)
    assert text is not None
    return token, text


def whole_text(cell: int) -> str:
    """The digits of a whole number, which are its canonical text too."""
    text = str(cell)
    if len(text) > MAX_DIGITS:
        raise Inexact
    return text


def digits_text(cell: Digits) -> str:
    """The text of a number as it was sent."""
    if len(cell) > MAX_DIGITS:
        raise Inexact
    return str(cell)


def raw_of(cell: Any) -> Raw | None:
    """A cell as bytes that mean the same; None where there is none."""
    if cell is None or type(cell) is Raw:
        return cell
    return Raw(str(cell)) if type(cell) is Digits else Raw(msgspec.json.encode(cell))


def text_of(cell: Any) -> str | None:
    """The text of a cell that may be missing, null, a text or a number; raises `Malformed` where it is something else."""
    return cell if type(cell) is str else optional_text(raw_of(cell))


def number_in(cell: Any, name: str) -> int | None:
    """As `number_of`, of a cell."""
    if type(cell) is str and cell.isdigit() and cell.isascii() and len(cell) <= MAX_POSITION_DIGITS:
        return int(cell)
    return number_of(raw_of(cell), name)


def time_in(cell: Any, name: str) -> int | None:
    """As `time_of`, of a cell in milliseconds."""
    if type(cell) is str and cell.isdigit() and cell.isascii() and len(cell) <= MILLISECONDS_DIGITS:
        return int(cell) * 1000
    return time_of(raw_of(cell), name)


def signature(cells: Cells) -> tuple[tuple[str, ...], Kinds]:
    """What tells images apart that are read in different ways: names and kinds of their cells."""
    return tuple(cells), tuple(map(type, cells.values()))


def is_plain(kinds: Kinds) -> bool:
    """Whether the cells are Python values, not bytes. Raises `Inexact` where one is an object or array."""
    if dict in kinds or list in kinds:
        raise Inexact
    return Raw not in kinds


TOKENS = {str: Token.TEXT, int: Token.NUMBER, Digits: Token.NUMBER, bool: Token.BOOLEAN, type(None): Token.NULL}
_AS_UNDECLARED: Mapping[type, Callable[[Any], str]] = {
    int: whole_text,
    Digits: lambda cell: number_text(digits_text(cell)),
    bool: _TRUTH.__getitem__,
}


def undeclared_work(name: str, kind: type) -> Work:
    """What is to be done for a cell of a column that nothing declares."""
    return ((name, _AS_UNDECLARED[kind]),) if kind in _AS_UNDECLARED else ()


@lru_cache(maxsize=1024)
def _undeclared(names: tuple[str, ...], kinds: Kinds) -> Recipe | None:
    if not is_plain(kinds):
        return None
    work = tuple(step for name, kind in zip(names, kinds, strict=True) for step in undeclared_work(name, kind))
    return Recipe(work, Shape((name, Column(token=TOKENS[kind])) for name, kind in zip(names, kinds, strict=True)))


def undeclared_image(cells: dict[str, Any]) -> tuple[Texts, Mapping[str, Column]]:
    """An image of a feed that declares no types, as canonical text, and its columns by what the wire shows."""
    recipe = _undeclared(*signature(cells)) if is_narrow(cells) else None
    if recipe is not None:
        return recipe.texts(cells), recipe.shape
    return one_by_one(cells, lambda name, token, text: (undeclared_text(token, text), Column(token=token)))


def one_by_one(
    cells: Cells, read: Callable[[str, Token, str | None], tuple[str | None, Column | None]]
) -> tuple[Texts, Mapping[str, Column]]:
    """An image of which there is no recipe: the text of each cell, and the columns that `read` gives for them."""
    checked_width(cells)
    texts: Texts = {}
    columns: dict[str, Column] = {}
    for name, cell in cells.items():
        texts[name], column = read(name, *shown(cell))
        if column is not None:
            columns[name] = column
    return texts, columns


def is_narrow(*columns: Sized) -> bool:
    """Whether what these columns make of an image is worth keeping."""
    return max(map(len, columns)) <= _FEW_COLUMNS


def joined_columns(*parts: Mapping[str, Column]) -> Mapping[str, Column]:
    """The columns of several images in the order in which they first occur; one that has only been null yields."""
    shapes = [part for part in parts if part]
    if len(shapes) == 1 and type(shapes[0]) is Shape:
        return shapes[0]
    if all(type(part) is Shape for part in shapes) and sum(map(len, shapes)) <= _FEW_COLUMNS:
        return _joined_shapes(*shapes)
    return _joined(*shapes)


@lru_cache(maxsize=1024)
def _joined_shapes(*parts: Shape) -> Shape:
    return Shape(_joined(*parts))


def _joined(*parts: Mapping[str, Column]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for part in parts:
        for name, column in part.items():
            if name not in found or found[name].token is Token.NULL:
                found[name] = column
    return found
