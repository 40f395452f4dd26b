"""Numbers in place of what many rows of Arrow repeat: the parts of several tables become comparable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import compute

pc: Any = compute  # its types lack some functions


class Numbers:
    """A number for each combination of values in some columns, the same one wherever it occurs.

    `values` has the combinations by their numbers. Nulls are values too.
    """

    def __init__(self) -> None:
        self.values: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def of(self, columns: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
        """The number of each row (int32), given the columns of the rows: at least one."""
        first, *others = columns
        codes, found = _encoded(first)
        combinations = [(value,) for value in found]
        for column in others:
            more, found = _encoded(column)
            pairs: Any = pc.add(pc.multiply(codes, len(found)), more).dictionary_encode()
            # pairs are numbered anew: with many columns, a product of their sizes would grow too large
            combinations = [
                (*combinations[pair // len(found)], found[pair % len(found)])
                for pair in pairs.dictionary.to_pylist()
            ]
            codes = pairs.indices.cast(pa.int64())
        numbers = [self._number(combination) for combination in combinations]
        return pa.array(numbers, pa.int32()).take(codes)

    def _number(self, combination: tuple[Any, ...]) -> int:
        number = self._numbers.setdefault(combination, len(self.values))
        if number == len(self.values):
            self.values.append(combination)
        return number


def _encoded(column: Any) -> tuple[Any, list[Any]]:
    """The place of each value among the distinct ones, and these: null is the last one."""
    encoded = column.dictionary_encode()
    found = [*encoded.dictionary.to_pylist(), None]
    return pc.fill_null(encoded.indices.cast(pa.int64()), len(found) - 1), found
