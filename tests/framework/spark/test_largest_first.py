from __future__ import annotations

import pytest

from framework.spark.largest_first import largest_first


def test_the_largest_begins_and_results_keep_the_order_of_the_items() -> None:
    begun: list[str] = []

    def work(item: str) -> str:
        begun.append(item)
        return item.upper()

    items = ["a", "bb", "c", "dddd", "ee"]
    assert largest_first(work, items, len, 1) == ["A", "BB", "C", "DDDD", "EE"]
    assert begun == ["dddd", "bb", "ee", "a", "c"]
    assert largest_first(work, [], len, 1) == []


def test_an_error_of_an_item_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        largest_first(lambda item: 1 // item, [1, 0, 2], int, 2)
