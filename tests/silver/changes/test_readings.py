"""Which tables are read otherwise than their rows were, by what the configuration says of their columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.config.tables import ColumnRule, TableRule
from silver.changes.readings import OtherReading, Readings, Table, differing, readings_in, readings_of

ITEM, NOTE = ("feed", "shop", None, "item"), ("feed", "shop", None, "note")


def rules(match: str = "shop.item", **columns: dict[str, Any]) -> list[TableRule]:
    return [TableRule.model_validate({"match": match, "columns": columns}), TableRule(match="*.*")]


UTF8, GBK = rules(text={"decode": "utf8"}), rules(text={"decode": "gbk"})


def under(before: Readings, now: list[TableRule]) -> Readings:
    return readings_in(json.loads(json.dumps(before.facts()))).under(now, lambda: [ITEM, NOTE])


def names(readings: Readings) -> list[tuple[str, bool]]:
    return [(other.table[-1], other.is_kept) for other in readings.others]


def test_the_tables_whose_columns_are_read_otherwise_are_told_until_they_are_decoded_again() -> None:
    before = readings_of([])
    found = under(before, UTF8)
    assert names(found) == [("item", False)]
    assert found.former() == {ITEM: {}}
    assert found.former([ITEM]) == {}
    assert under(found, UTF8) == readings_in(found.facts())
    assert names(under(found, GBK)) == [("item", False)]
    assert names(under(found, [])) == [("item", False)], "some rows may be read by the other rules"
    done = found.without([ITEM])
    assert names(done) == []
    assert names(under(done, rules("shop.*", text={"decode": "utf8"}))) == [("note", False)]


def test_of_a_table_that_is_read_as_before_nothing_is_left_once_its_settings_are_taken_back() -> None:
    kept = under(readings_of(UTF8), GBK).with_kept([ITEM], is_kept=True)
    assert kept.former()[ITEM]["text"].decode == "utf8"
    assert names(under(kept, GBK)) == [("item", True)]
    assert names(under(kept, [])) == [("item", True)]
    assert names(under(kept, UTF8)) == []


def test_nothing_is_asked_while_the_rules_stay() -> None:
    def tables() -> list[Table]:
        raise AssertionError("the changes were asked for their tables")

    found = readings_of(UTF8)
    assert found.under([*UTF8, TableRule(match="shop.item", history=True)], tables) is found
    assert not readings_of([TableRule(match="shop.item")]).rules


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {"type": "date"}, {"a": True}),
        ({"type": "int"}, {"type": "int", "unsigned": True}, {"a": False}),
        ({"type": "int", "unsigned": False}, {"type": "int"}, {}),
        ({"type": "string"}, {"type": "string", "decode": "utf8"}, {"a": False}),
        ({"type": "int", "decode": "utf8"}, {"decode": "utf8"}, {}),
        ({"encoding": "hex"}, {"encoding": "base64"}, {"a": False}),
    ],
)
def test_what_reads_a_column_otherwise(
    before: dict[str, Any], now: dict[str, Any], expected: dict[str, bool]
) -> None:
    one, other = ({"a": ColumnRule.model_validate(text)} for text in (before, now))
    assert differing(one, other) == differing(other, one) == expected


def test_a_reading_is_equal_after_it_was_put_down() -> None:
    found = Readings(tuple(UTF8[:1]), (OtherReading(NOTE, GBK[0].columns, is_kept=True),))
    again = readings_in(json.loads(json.dumps(found.facts())))
    assert (again.facts(), again.others) == (found.facts(), found.others)
