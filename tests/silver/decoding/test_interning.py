from __future__ import annotations

from silver.decoding.interning import ReadOnce


class Block:
    def __init__(self) -> None:
        self.count = 0

    @ReadOnce
    def number(self) -> int:
        """How often it was read."""
        self.count += 1
        return self.count


def test_a_property_is_read_when_it_is_first_used_and_kept() -> None:
    block = Block()
    assert block.count == 0
    assert [block.number, block.number, block.count] == [1, 1, 1]


def test_each_object_reads_its_own() -> None:
    one, other = Block(), Block()
    assert (one.number, other.number) == (1, 1)
