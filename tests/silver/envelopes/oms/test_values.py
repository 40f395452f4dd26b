from __future__ import annotations

import pytest

from framework.contracts.events import Column, Token
from silver.decoding.row_plans import ColumnSet
from silver.envelopes.oms.values import Reading, read_image, read_value

DECLARED = ColumnSet(
    {
        "d": Column("date", "DATE"),
        "made": Column("timestamp_ntz", "DATETIME"),
        "paid": Column("timestamp", "TIMESTAMP WITH LOCAL TIME ZONE"),
    }
)
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


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2020-11-25 00:01:02.012345 America/New_York", "2020-11-25T05:01:02.012345Z"),
        ("2020-11-25 00:01:02 Etc/GMT+8", "2020-11-25T08:01:02Z"),
        ("2020-11-25 00:01:02 GMT+08:00", "2020-11-24T16:01:02Z"),
        ("2020-11-25 00:01:02.5-03:30", "2020-11-25T03:31:02.5Z"),
        ("2020-11-25 00:01:02 +0100", "2020-11-24T23:01:02Z"),
        ("2020-11-25 00:01:02 Z", "2020-11-25T00:01:02Z"),
        ("2020-11-25T00:01:02Z", "2020-11-25T00:01:02Z"),
        ("2020-11-25 00:01 UTC", "2020-11-25T00:01:00Z"),
        ("2020-11-25 00:01:02", "2020-11-24T16:01:02Z"),
    ],
)
def test_an_instant_may_be_a_wall_time_of_the_zone_that_it_names(text: str, instant: str) -> None:
    check("paid", text, instant)


@pytest.mark.parametrize(
    "text",
    [
        "2020-11-25 00:01:02 Asia/Nowhere",
        "2020-11-25 00:01:02 Asia",
        "2020-11-25 00:01:02 localtime",
        "2020-11-25 00:01:02 +99:00",
        "0000-00-00 00:00:00 UTC",
        "0001-01-01 00:00:00 +08:00",
        "20201125T000102 UTC",
        "Asia/Shanghai",
    ],
)
def test_a_text_that_is_no_instant_stays_as_it_was_sent(text: str) -> None:
    check("paid", text, text)


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
