from __future__ import annotations

import pytest

from framework.contracts.events import Column, Token
from silver.decoding.row_plans import ColumnSet
from silver.envelopes.oms.values import Reading, read_image, read_value

DECLARED = ColumnSet({"d": Column("date", "DATE"), "made": Column("timestamp_ntz", "DATETIME")})
READING = Reading("Asia/Shanghai", DECLARED)


def check(name: str, text: str, expected: str) -> None:
    """A text is read alike in a row of plain values and alone."""
    assert read_image({name: text}, READING)[0] == {name: expected}
    assert read_value(name, Token.TEXT, text, READING)[0] == expected


@pytest.mark.parametrize(
    "zone",
    [
        " Asia/Shanghai",
        " America/Port-au-Prince",
        " Etc/GMT+8",
        " UTC",
        " Z",
        " GMT+08:00",
        " UTC+08:00",
        " UT-03:30",
        " +08:00",
        "+08:00",
        " +0800",
        " +08:05:43",
        " GMT-08:05:43",
    ],
)
@pytest.mark.parametrize("fraction", ["", ".5", ".123456789"])
def test_the_zone_behind_a_datetime_is_left_out(zone: str, fraction: str) -> None:
    check("made", f"2020-11-25 00:01:02{fraction}{zone}", f"2020-11-25T00:01:02{fraction}")


@pytest.mark.parametrize(
    "text",
    [
        "0000-00-00 00:00:00 GMT+08:00",
        "2020-02-30 00:00:00 +08:00",
        "2020-11-25 at:12:30",
        "2020-11-25 +08:00:00:00",
    ],
)
def test_a_text_that_is_no_datetime_stays_as_it_was_sent(text: str) -> None:
    check("made", text, text)


def test_a_datetime_may_be_a_day_alone() -> None:
    check("made", "2020-11-25", "2020-11-25T00:00:00")


@pytest.mark.parametrize(
    "text",
    [
        "2020-11-25",
        "2020-11-25T00:00",
        "2020-11-25T00:00:00",
        "2020-11-25 00:00:00",
        "2020-11-25 00:00:00.000",
    ],
)
def test_a_date_with_midnight_is_the_day(text: str) -> None:
    check("d", text, "2020-11-25")


@pytest.mark.parametrize(
    "text",
    ["2020-11-25T00:01", "2020-11-25 00:00:00.5", "2020-02-30T00:00", "0000-00-00 00:00:00", "2020-11", ""],
)
def test_a_date_with_another_time_or_none_stays_as_it_was_sent(text: str) -> None:
    check("d", text, text)
