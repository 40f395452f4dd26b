"""Row plans: how cells become canonical text, worked out once for all images with the same signature.

Messages of a table have the same columns with values of the same kinds. The steps that such an image needs
are kept as a `RowPlan`, and all these messages share one `ColumnSet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec import Raw

from framework.contracts.events import Column, Token
from silver.decoding.cells import (
    BOOLEAN_TEXT,
    TOKENS,
    Cells,
    Kinds,
    NumberText,
    Texts,
    integer_text,
    is_plain,
    number_as_sent,
    read_cell,
)
from silver.decoding.interning import Shared
from silver.decoding.json_reader import checked_width
from silver.values.canonical import INTEGERS, number_text, undeclared_text

Step = tuple[str, Callable[[Any], str | None]]
Steps = tuple[Step, ...]

_MAX_CACHED_COLUMNS = 500
"""Wider images have no plan: few tables are so wide, and a plan is as wide as its image."""
_UNDECLARED_TEXT: Mapping[type, Callable[[Any], str]] = {
    int: integer_text,
    NumberText: lambda cell: number_text(number_as_sent(cell)),
    Raw: lambda cell: number_text(number_as_sent(cell)),
    bool: BOOLEAN_TEXT.__getitem__,
}


class ColumnSet(Shared[str, Column]):
    """The columns of many messages, in order."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How images with the same signature are read: a step for each cell to convert, and the columns."""

    steps: Steps
    columns: ColumnSet

    def texts(self, cells: dict[str, Any]) -> Texts:
        """The image as canonical text. Changes `cells` in place."""
        for name, convert in self.steps:
            cells[name] = convert(cells[name])
        return cells


def cell_signature(cells: Cells) -> tuple[tuple[str, ...], Kinds]:
    """The names and kinds of an image's cells. Images with the same signature have the same plan."""
    return tuple(cells), tuple(map(type, cells.values()))


def undeclared_steps(name: str, kind: type) -> Steps:
    """The step for a cell whose column no message declares; none where the cell is canonical text already."""
    return ((name, _UNDECLARED_TEXT[kind]),) if kind in _UNDECLARED_TEXT else ()


def declared_step(type_name: str, kind: type) -> Callable[[Any], str] | None:
    """The step for a cell of a declared type whose canonical text is its text as it was sent.

    None where `silver.values.canonical.declared_text` has more to do.
    """
    if kind is int and type_name != "boolean":
        return integer_text
    is_exact = type_name in INTEGERS or type_name == "boolean" or type_name.startswith("decimal")
    return number_as_sent if kind in (NumberText, Raw) and not is_exact else None


@lru_cache(maxsize=1024)
def _undeclared_plan(names: tuple[str, ...], kinds: Kinds) -> RowPlan | None:
    if not is_plain(kinds):
        return None
    steps = tuple(
        step for name, kind in zip(names, kinds, strict=True) for step in undeclared_steps(name, kind)
    )
    return RowPlan(
        steps, ColumnSet((name, Column(token=TOKENS[kind])) for name, kind in zip(names, kinds, strict=True))
    )


def undeclared_image(cells: dict[str, Any]) -> tuple[Texts, Mapping[str, Column]]:
    """An image of a feed without types: its canonical text, and its columns with the token of each value."""
    plan = _undeclared_plan(*cell_signature(cells)) if is_narrow(cells) else None
    if plan is not None:
        return plan.texts(cells), plan.columns
    return image_cell_by_cell(
        cells, lambda name, token, text: (undeclared_text(token, text), Column(token=token))
    )


def image_cell_by_cell(
    cells: Cells, read: Callable[[str, Token, str | None], tuple[str | None, Column | None]]
) -> tuple[Texts, Mapping[str, Column]]:
    """An image that has no plan: the canonical text of each cell and the columns, as `read` gives them.

    `read(name, token, text)` returns a cell's canonical text, and its column or None. Raises `Malformed` for
    an image that has more columns than a table can have.
    """
    checked_width(cells)
    texts: Texts = {}
    columns: dict[str, Column] = {}
    for name, cell in cells.items():
        texts[name], column = read(name, *read_cell(cell))
        if column is not None:
            columns[name] = column
    return texts, columns


def is_narrow(columns: Sized, others: Sized = ()) -> bool:
    """Whether a plan for images with these columns may be cached."""
    return len(columns) <= _MAX_CACHED_COLUMNS and len(others) <= _MAX_CACHED_COLUMNS


def joined_columns(*parts: Mapping[str, Column]) -> Mapping[str, Column]:
    """The columns of several images, in the order in which they first occur.

    Where images differ in a column, the first one that is not null gives it.
    """
    sets = [part for part in parts if part]
    if all(map(_is_set, sets)):
        if len(sets) == 1 or (len(sets) == 2 and sets[0] is sets[1]):
            return sets[0]
        if sum(map(len, sets)) <= _MAX_CACHED_COLUMNS:
            return _joined_sets(*sets)
    return _joined(*sets)


def source_columns(
    declared: Mapping[str, Column],
    shown: Sequence[Mapping[str, Column]],
    images: Iterable[Mapping[str, object] | None],
) -> Mapping[str, Column]:
    """The columns of a row in the source's order: those that its message declares, and those that it shows.

    The declared columns keep their order. One that the message does not declare comes before the declared
    column that follows it in an image, and last where none does.
    """
    columns = joined_columns(declared, *shown)
    if not declared or len(columns) == len(declared):
        return columns
    ahead: dict[str, list[str]] = {}
    placed = set(declared)
    for image in images:
        waiting: list[str] = []
        for name in image or ():
            if name in declared:
                ahead.setdefault(name, []).extend(waiting)
                placed.update(waiting)
                waiting = []
            elif name in columns and name not in placed:
                waiting.append(name)
    names = tuple(dict.fromkeys((*(n for name in declared for n in (*ahead.get(name, ()), name)), *columns)))
    if isinstance(columns, ColumnSet):
        return _ordered_set(columns, names)
    return {name: columns[name] for name in names}


@lru_cache(maxsize=1024)
def _ordered_set(columns: ColumnSet, names: tuple[str, ...]) -> ColumnSet:
    return ColumnSet({name: columns[name] for name in names})


def _is_set(part: object) -> bool:
    return type(part) is ColumnSet


@lru_cache(maxsize=1024)
def _joined_sets(*parts: ColumnSet) -> ColumnSet:
    return ColumnSet(_joined(*parts))


def _joined(*parts: Mapping[str, Column]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for part in parts:
        for name, column in part.items():
            if name not in columns or columns[name].token is Token.NULL:
                columns[name] = column
    return columns
