from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.full_loads import epoch_part
from silver.values.sequence import (
    Tie,
    after_position,
    epoch_of,
    epoch_position_of,
    is_sequence,
    name_part,
    number_part,
    sequence_of,
    with_position,
)

NUMBERS = st.one_of(st.integers(0, 120), st.integers(0, 10**30), st.integers(0, 10**99 - 1))


@pytest.mark.parametrize(
    ("number", "text"), [(0, "010"), (7, "017"), (10, "0210"), (120, "03120"), (10**98, "99" + str(10**98))]
)
def test_a_number_is_its_length_and_its_digits(number: int, text: str) -> None:
    assert number_part(number) == text


@pytest.mark.parametrize("number", [-1, 10**99])
def test_numbers_below_zero_or_beyond_99_digits_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="0 to 99 digits"):
        number_part(number)


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(*[st.tuples(*[NUMBERS] * n)] * 2)))
def test_order_of_bytes_is_the_numeric_order_of_positions(
    pair: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    one, other = pair
    first, second = (sequence_of(1, numbers, None).encode() for numbers in (one, other))
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)


@given(
    st.tuples(
        st.integers(0, 10**6),
        st.tuples(NUMBERS, NUMBERS),
        st.tuples(st.just("orders"), NUMBERS, NUMBERS, NUMBERS),
    ),
    st.tuples(
        st.integers(0, 10**6),
        st.tuples(NUMBERS, NUMBERS),
        st.tuples(st.just("orders"), NUMBERS, NUMBERS, NUMBERS),
    ),
)
def test_epoch_comes_first_then_position_then_tie_breakers(
    one: tuple[int, tuple[int, ...], Tie], other: tuple[int, tuple[int, ...], Tie]
) -> None:
    assert (sequence_of(*one).encode() < sequence_of(*other).encode()) == (one < other)


def test_numbers_of_19_and_more_digits_order_as_numbers() -> None:
    ordered = [9, 10, 999_999, 1_000_000, 1605339516000000004, 9223372036854775807, 18446744073709551616]
    assert sorted(sequence_of(1, (n,), None) for n in reversed(ordered)) == [
        sequence_of(1, (n,), None) for n in ordered
    ]


def test_a_snapshot_row_without_a_position_comes_first_in_its_epoch() -> None:
    last_of_epoch_1 = sequence_of(1, (10**30,), None)
    snapshot = sequence_of(2, None, ("orders", 3, 99, 0))
    first_of_epoch_2 = sequence_of(2, (0,), None)
    assert last_of_epoch_1 < snapshot < first_of_epoch_2


def test_snapshot_rows_keep_their_place_in_the_broker() -> None:
    assert (
        sequence_of(1, None, ("t", 0, 9, 0))
        < sequence_of(1, None, ("t", 0, 10, 0))
        < sequence_of(1, None, ("t", 1, 0, 0))
    )


def test_sequences_are_written_out() -> None:
    assert sequence_of(1, (120, 7), None) == "011.011.03120.017"
    assert sequence_of(1, (120,), ("orders", 0, 15, 2)) == "011.011.03120.orders.010.0215.012"
    assert sequence_of(1, None, ("orders", 0, 15, 2)) == "011.010.orders.010.0215.012"
    assert (
        sequence_of(1, (120,), ("2024/part-7.jsonl", 0, 15, 2))
        == "011.011.03120.042024010/part-017010%2Ejsonl.010.0215.012"
    )
    assert sequence_of(12, None, None) == "0212.010.010"


@pytest.mark.parametrize(
    ("sequence", "part", "number", "numbers"),
    [
        ("011.011.03120.017", "011", 1, (1, 120, 7)),
        ("0212.011.03120.orders.010.0215.012", "0212", 12, (12, 120)),
        ("0212.010.orders.010.0215.012", "0212", 12, (12,)),
    ],
)
def test_a_sequence_is_read(sequence: str, part: str, number: int, numbers: tuple[int, ...]) -> None:
    assert is_sequence(sequence)
    assert (epoch_part(sequence), epoch_of(sequence), epoch_position_of(sequence)) == (part, number, numbers)


@pytest.mark.parametrize("text", ["", "4711", "binlog.000003:1547", "011.012.017", "011"])
def test_other_texts_are_no_sequences(text: str) -> None:
    assert not is_sequence(text)


def test_a_position_is_replaced_and_the_tie_breaker_stays() -> None:
    sequence, position, other = "011.011.015.t.010.017.010", "011.011.015", "011.011.0212"
    assert with_position(sequence, position, other) == "011.011.0212.t.010.017.010"


def test_a_sequence_after_a_position_is_before_the_next_position() -> None:
    position, tied, following = "011.011.015", "011.011.015.zzz.010.017.010", "011.011.016"
    assert position < tied < after_position(position) < following
    assert after_position(after_position(position)) == after_position(position)


@pytest.mark.parametrize(
    "names",
    [
        ["part-9", "part-10", "part-011"],
        ["2024-02-29/a.log", "2024-03-01/a.log"],
        ["a", "a.b"],
        ["7", "07", "007", "8"],
    ],
)
def test_numbers_in_names_count_as_numbers(names: list[str]) -> None:
    assert [name_part(name).encode() for name in names] == sorted(name_part(name).encode() for name in names)


@given(st.text(max_size=120), st.text(max_size=120))
def test_two_names_never_have_one_text_and_no_point_is_left_in_it(one: str, other: str) -> None:
    assert (name_part(one) == name_part(other)) == (one == other)
    assert "." not in name_part(one)


def test_numbers_of_more_than_99_digits_stay_apart_in_names() -> None:
    names = ["9" * 99, "9" * 100, "9" * 100 + "0", "9" * 250]
    assert len({name_part(name) for name in names}) == len(names)


def test_a_name_of_very_many_digits_has_its_text() -> None:
    assert name_part("9" * 200_000) == ("99" + "9" * 99 + "010") * 2_020 + "20" + "9" * 20 + "010"
