"""Usual spellings take a short way: it must lead to the same place as the long one, which odd spellings still take."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from silver.types import epoch_parts, instant_of_wall, number_text, wall_of_text

MANY = settings(max_examples=400, derandomize=True, deadline=None)
DIGITS = st.text("0123456789", max_size=45)
NEARLY_WALLS = st.builds(
    lambda day, mark, time, rest: f"{day}{mark}{time}{rest}",
    st.sampled_from(
        ("2024-02-29", "2023-02-29", "0000-00-00", "0001-01-01", "9999-12-31", "2024-2-9", "2024-W09", "20240229", "2024-02-2x")
    ),
    st.sampled_from((" ", "T", "t", "  ", "-", "")),
    st.sampled_from(
        ("10:00:00", "24:00:00", "23:59:60", "23:59:59", "1:02:03", "10:00", "", "00:00:0x", "+1:00:00", "2²:00:00", "01:30:00Z")
    ),
    st.sampled_from(("", ".", ".0", ".123456789", ",5", ".5Z", ".٣", "Z", "+08:00", " UTC", "\n")),
)


@MANY
@given(NEARLY_WALLS)
def test_a_wall_time_is_read_alike_with_and_without_a_space_behind_it(text: str) -> None:
    assert wall_of_text(f"{text} ").rstrip(" ") == wall_of_text(text)
    for zone in ("UTC", "Asia/Shanghai", "America/New_York"):
        assert instant_of_wall(f"{text} ", zone).rstrip(" ") == instant_of_wall(text, zone)


@MANY
@given(DIGITS, st.sampled_from(("", ".", "e", ".0", "E+")), DIGITS)
def test_a_number_is_read_alike_with_and_without_a_plus(whole: str, point: str, rest: str) -> None:
    text = f"{whole}{point}{rest}"
    assert number_text(f"+{text}").removeprefix("+") == number_text(text)


@MANY
@given(DIGITS, st.sampled_from(("s", "ms", "us", "ns")))
def test_a_count_is_read_alike_with_and_without_a_fraction(digits: str, unit: str) -> None:
    found, longer = epoch_parts(digits, unit), epoch_parts(f"{digits}.0", unit)
    assert longer == (None if found is None else (found[0], f"{found[1]}0"))
