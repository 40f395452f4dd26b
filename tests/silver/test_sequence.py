from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.sequence import joined, number_part, sequence_of

NUMBERS = st.one_of(st.integers(0, 120), st.integers(0, 10**30), st.integers(0, 10**99 - 1))


@pytest.mark.parametrize(("number", "text"), [(0, "010"), (7, "017"), (10, "0210"), (120, "03120"), (10**98, "99" + str(10**98))])
def test_a_number_is_its_length_and_its_digits(number: int, text: str) -> None:
    assert number_part(number) == text


@pytest.mark.parametrize("number", [-1, 10**99])
def test_numbers_below_zero_or_beyond_99_digits_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="0 to 99 digits"):
        number_part(number)


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(*[st.tuples(*[NUMBERS] * n)] * 2)))
def test_order_of_bytes_is_the_numeric_order_of_positions(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    one, other = pair
    first, second = joined(one).encode(), joined(other).encode()
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)


@given(
    st.tuples(st.integers(0, 10**6), st.tuples(NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.integers(0, 10**6), st.tuples(NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
)
def test_epoch_comes_first_then_position_then_tie_breakers(
    one: tuple[int, tuple[int, ...], tuple[int, ...]], other: tuple[int, tuple[int, ...], tuple[int, ...]]
) -> None:
    assert (sequence_of(*one).encode() < sequence_of(*other).encode()) == (one < other)


def test_numbers_of_19_and_more_digits_order_as_numbers() -> None:
    ordered = [9, 10, 999_999, 1_000_000, 1605339516000000004, 9223372036854775807, 18446744073709551616]
    assert sorted(sequence_of(1, (n,), ()) for n in reversed(ordered)) == [sequence_of(1, (n,), ()) for n in ordered]


def test_a_snapshot_row_without_a_position_comes_first_in_its_epoch() -> None:
    last_of_epoch_1 = sequence_of(1, (10**30,), ())
    snapshot = sequence_of(2, None, (3, 99, 0))
    first_of_epoch_2 = sequence_of(2, (0,), ())
    assert last_of_epoch_1 < snapshot < first_of_epoch_2


def test_snapshot_rows_keep_their_place_in_the_broker() -> None:
    assert sequence_of(1, None, (0, 9, 0)) < sequence_of(1, None, (0, 10, 0)) < sequence_of(1, None, (1, 0, 0))


def test_sequences_are_written_out() -> None:
    assert sequence_of(1, (120, 7), ()) == "011.011.03120.017"
    assert sequence_of(1, (120,), (0, 15, 2)) == "011.011.03120.010.0215.012"
    assert sequence_of(1, None, (0, 15, 2)) == "011.010.010.0215.012"
    assert sequence_of(12, None, ()) == "0212.010.010"
