"""Combinations of values as numbers, the same ones in all parts."""

from __future__ import annotations

import random

import pyarrow as pa

from framework.lakehouse.numbered_rows import Numbers


def test_a_combination_has_the_same_number_in_each_part_and_null_is_a_value() -> None:
    numbers = Numbers()
    first = numbers.of([pa.array(["a", None, "a"]), pa.array([1, 1, None], pa.int32())])
    second = numbers.of([pa.array([None, "a", "b"]), pa.array([1, 1, 1], pa.int32())])
    assert first.to_pylist()[0] == second.to_pylist()[1]
    assert first.to_pylist()[1] == second.to_pylist()[0]
    assert len({*first.to_pylist(), *second.to_pylist()}) == 4
    assert [numbers.values[number] for number in first.to_pylist()] == [("a", 1), (None, 1), ("a", None)]


def test_texts_may_come_as_dictionaries_and_parts_may_be_empty() -> None:
    numbers = Numbers()
    texts = pa.array(["a", None, "b"]).dictionary_encode()
    assert numbers.of([texts]).to_pylist() == numbers.of([pa.array(["a", None, "b"])]).to_pylist()
    assert numbers.of([pa.array([], pa.string()), pa.array([], pa.int32())]).to_pylist() == []


def test_many_distinct_values_in_many_columns_do_not_mix() -> None:
    """The product of the columns' sizes is far beyond 64 bits."""
    draw = random.Random(3)
    rows = [tuple(draw.randrange(5_000) for _ in range(8)) for _ in range(20_000)]
    numbers = Numbers()
    found = numbers.of([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)])
    assert [numbers.values[number] for number in found.to_pylist()] == rows
