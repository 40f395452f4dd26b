"""Which tables are read otherwise than their rows were, by what the configuration says of their columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.config.tables import ColumnRule, TableRule
from silver.changes.readings import OtherReading, Readings, Table, differing, readings_in, readings_of

ITEM, NOTE = ("feed", "shop", None, "item"), ("feed", "shop", None, "note")
OTHER = ("feed", "shop", None, "other")
"""Has no column `text`."""


def rules(match: str = "shop.item", **columns: dict[str, Any]) -> list[TableRule]:
    return [TableRule.model_validate({"match": match, "columns": columns}), TableRule(match="*.*")]


UTF8, GBK = rules(text={"decode": "utf8"}), rules(text={"decode": "gbk"})


def under(before: Readings, now: list[TableRule]) -> Readings:
    columns = {ITEM: {"id", "text"}, NOTE: {"id", "text"}, OTHER: {"id"}}
    return readings_in(json.loads(json.dumps(before.facts()))).under(now, lambda: columns)


def names(readings: Readings) -> list[tuple[str, bool]]:
    return [(other.table[-1], other.is_kept) for other in readings.others]


def test_the_tables_whose_columns_are_read_otherwise_are_told_until_they_are_decoded_again() -> None:
    before = readings_of([])
    found = under(before, UTF8)
    assert names(found) == [("item", True)]
    assert {name: rule.decode for name, rule in found.former()[ITEM].items()} == {"text": None}
    assert found.former([ITEM]) == {}
    assert under(found, UTF8) == readings_in(found.facts())
    assert names(under(found, GBK)) == [("item", True)]
    assert names(under(found, [])) == []
    assert names(under(before, rules("shop.*", text={"decode": "utf8"}))) == [("item", True), ("note", True)]
    done = found.without([ITEM])
    assert names(done) == []
    assert names(under(done, rules("shop.*", text={"decode": "utf8"}))) == [("note", True)]


def test_a_table_that_is_being_decoded_again_stays_so_until_it_is() -> None:
    begun = under(readings_of(UTF8), GBK).begun([ITEM], "5")
    assert names(under(begun, UTF8)) == [("item", False)], "some rows may be read by the other rules"
    kept = begun.kept([ITEM])
    assert kept.former()[ITEM]["text"].decode == "utf8"
    assert names(under(kept, UTF8)) == []
    # also where the same rules were noted while it was being decoded
    assert names(under(under(begun, UTF8).kept([ITEM]), UTF8)) == []


def test_a_table_of_which_nothing_was_replaced_is_read_as_before() -> None:
    begun = under(readings_of(UTF8), GBK).begun([ITEM], "5")
    again = readings_in(json.loads(json.dumps(begun.facts())))
    assert again.others == begun.others
    assert names(again.settled(lambda: "5")) == [("item", True)]
    assert names(under(again.settled(lambda: "5"), UTF8)) == []
    assert names(again.settled(lambda: "6")) == [("item", False)]
    # the next try begins at a later commit, but some rows may be read otherwise since the first one
    assert names(again.begun([ITEM], "6").settled(lambda: "6")) == [("item", False)]
    assert names(again.kept([ITEM]).begun([ITEM], "6").settled(lambda: "6")) == [("item", True)]
    unknown = begun.kept([ITEM]).begun([ITEM], None)
    assert names(unknown.settled(lambda: pytest.fail("nothing tells from when on"))) == [("item", False)]


def test_a_table_that_is_read_as_before_has_the_types_of_now() -> None:
    now = rules(text={"type": "timestamp", "encoding": "milliseconds"}, more={"type": "int"})
    found = under(readings_of(rules(text={"type": "date"})), now).former()[ITEM]
    assert {name: (rule.type, rule.encoding) for name, rule in found.items()} == {
        "text": ("timestamp", None),
        "more": ("int", None),
    }


def test_what_only_a_newer_release_knows_of_the_rules_is_left_out() -> None:
    facts = readings_of(UTF8).facts()
    facts["rules"][0] |= {"novel": 1, "columns": {"text": {"decode": "utf8", "novel": 1}}}
    assert readings_in(facts) == readings_in(readings_of(UTF8).facts())


def test_nothing_is_asked_while_the_rules_stay() -> None:
    def tables() -> dict[Table, set[str]]:
        raise AssertionError("the changes were asked for their tables")

    found = readings_of(UTF8)
    again = found.under([*UTF8, TableRule(match="shop.item", history=True)], tables)
    assert again.facts() == found.facts()
    typed = found.under(rules(text={"decode": "utf8", "type": "string"}, more={"type": "int"}), tables)
    assert typed.facts() != found.facts()
    assert typed.under(UTF8, tables).facts() == found.facts()
    assert not readings_of([TableRule(match="shop.item")]).rules


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {"type": "date"}, set()),
        ({"type": "int"}, {"type": "int", "unsigned": True}, {"a"}),
        ({"type": "int", "unsigned": False}, {"type": "int"}, set()),
        ({"type": "string"}, {"type": "string", "decode": "utf8"}, {"a"}),
        ({"encoding": "hex", "decode": "utf8"}, {"decode": "utf8"}, set()),
        ({"encoding": "hex"}, {"encoding": "base64"}, {"a"}),
    ],
)
def test_what_reads_a_column_otherwise(
    before: dict[str, Any], now: dict[str, Any], expected: set[str]
) -> None:
    one, other = ({"a": ColumnRule.model_validate(text)} for text in (before, now))
    assert differing(one, other) == differing(other, one) == expected


def test_a_reading_is_equal_after_it_was_put_down() -> None:
    found = Readings(tuple(UTF8[:1]), (OtherReading(NOTE, GBK[0].columns, is_kept=True),))
    again = readings_in(json.loads(json.dumps(found.facts())))
    assert (again.facts(), again.others) == (found.facts(), found.others)
