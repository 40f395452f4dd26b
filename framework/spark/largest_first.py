"""Work in threads that begins with the largest item: as the last one it would run alone at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def largest_first(
    work: Callable[[_Item], _Result], items: Sequence[_Item], size: Callable[[_Item], int], threads: int
) -> list[_Result]:
    """What `work` gives for each item, in the order of the items; those of equal size begin in it, too.

    Where an item fails, or the wait is interrupted, no other one begins.
    """
    by_size = sorted(range(len(items)), key=lambda place: -size(items[place]))
    with ThreadPoolExecutor(max_workers=threads) as pool:
        begun = {place: pool.submit(work, items[place]) for place in by_size}
        try:
            wait(begun.values(), return_when=FIRST_EXCEPTION)
        finally:
            left = [future for future in begun.values() if not future.cancel()]
    ended = {future: future.result() for future in left}  # raises the error of the item that failed
    return [ended[begun[place]] for place in range(len(items))]
