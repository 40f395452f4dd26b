from __future__ import annotations

import pytest

from framework.text.positions import place_text, position_text, with_positions_as_text
from silver.values.sequence import after_position, sequence_of


@pytest.mark.parametrize(
    ("numbers", "tie", "format_name", "expected"),
    [
        ((4711,), None, "datahub_blob", "position 4711"),
        ((0,), None, "datahub_blob", "position 0"),
        ((3, 1547, 0, 0, 1, 0), None, "debezium", "binlog 000003:1547"),
        ((3, 1547, 9, 2, 0), None, "maxwell", "binlog 000003:1547"),
        ((3, 1547, 1), None, "arcion", "binlog 000003:1547"),
        ((1709283700, 12), None, "oms_shareplex", "position 1709283700:12"),
        ((26_885_920, 0, 0, 0, 1, 0), None, "debezium", "position 26885920:0:0:0:1"),
        ((1709283700, 12), ("orders-1.jsonl", 0, 8, 0), "canal", "offset 8 of orders-1.jsonl"),
        ((1709283700,), ("shop.a%b.007.v10", 2, 15, 3), "", "offset 15 of partition 2 of shop.a%b.007.v10"),
        (None, ("orders", 0, 8, 0), "debezium", "offset 8 of orders"),
        (None, None, "debezium", "rows of a snapshot"),
    ],
)
def test_a_position_is_said_as_people_say_it(
    numbers: tuple[int, ...] | None, tie: tuple[str, int, int, int] | None, format_name: str, expected: str
) -> None:
    assert position_text(sequence_of(1, numbers, tie), format_name) == expected


@pytest.mark.parametrize(
    "name", ["0", "00", "a0", "x" * 5 + "1" * 250, "7.8", "100%25", "%2E", "été-٣", "a b;c"]
)
def test_a_name_is_the_name_that_the_topic_has(name: str) -> None:
    assert position_text(sequence_of(1, (5,), (name, 0, 8, 0))) == f"offset 8 of {name}"


def test_a_later_epoch_is_named() -> None:
    assert position_text(sequence_of(2, (7,), None)) == "epoch 2, position 7"


def test_the_position_of_a_dump_is_that_of_its_feed() -> None:
    assert position_text(after_position(sequence_of(1, (7,), None))) == "position 7"


@pytest.mark.parametrize(
    "text", ["", "4711", "011", "011.015", "a.b.c", "011.012.017", "011.011.0x", "..", "~"]
)
def test_another_text_is_left_alone(text: str) -> None:
    assert position_text(text) == text


def test_the_outcome_of_a_check_has_positions_to_read() -> None:
    key = sequence_of(1, (1709283773,), ("accounts part-1.jsonl", 0, 6, 0))
    outcome = f"verified through {key} at 2024-03-01 09:02:53; 0 batches behind"
    said = "verified through offset 6 of accounts part-1.jsonl at 2024-03-01 09:02:53; 0 batches behind"
    assert with_positions_as_text(outcome) == said
    assert with_positions_as_text("3 of 7 rows") == "3 of 7 rows"


def test_the_place_of_a_message() -> None:
    assert place_text("shop.orders", 2, 8) == "shop.orders, partition 2, offset 8"
    assert place_text("orders-1.jsonl", 0, 8, is_file=True) == "orders-1.jsonl, offset 8"
