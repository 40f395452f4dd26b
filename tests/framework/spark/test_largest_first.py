from __future__ import annotations

import time

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


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_nothing_begins_after_an_item_that_fails(error: type[BaseException]) -> None:
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 100:
            raise error
        time.sleep(0.01)

    with pytest.raises(error):
        largest_first(work, range(101), int, 2)
    assert len(begun) < 50
