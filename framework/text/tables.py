"""Tables as text: in columns, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from framework.text.formatting import one_line


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text under their heads, each beginning `indent` characters from the left.

    A terminal shows it in its own width; elsewhere each row is a line of `lines`, which one can search.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    indent: int = 0

    def lines(self) -> list[str]:
        """A line for the heads, if there are any, and for each row, with columns below each other."""
        lines = aligned(self.heads, self.rows)
        return [f"{' ' * self.indent}{line}" for line in (lines if any(self.heads) else lines[1:])]


def aligned(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines with the cells of each column under its head."""
    table = [[one_line(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; the first column is code."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join((f"`{row[0]}`", *row[1:])) + " |" for row in rows]
