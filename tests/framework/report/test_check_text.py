from __future__ import annotations

from dataclasses import replace

import pytest

from framework.contracts.expectations import Rule
from framework.contracts.quality import QualityResult
from framework.report.check_text import claim, failing_key, outcome
from silver.values.sequence import sequence_of
from tests.framework.report.reports import check


def checked(rule: Rule, observed: str = "", success: bool | None = True, failed: int = 0) -> QualityResult:
    found = check("shop.orders", rule.name, success, kind=rule.kind, columns=rule.columns, failed=failed)
    return replace(found, expected=rule.expected, observed=observed)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule("r", "not_null", ("id",)), "id is never null"),
        (Rule("r", "not_null", ("id", "line")), "id and line are never null"),
        (Rule("r", "unique", ("a", "b", "c")), "no two rows have the same a, b and c"),
        (Rule("r", "accepted", ("country",), values=("DE", "FR")), "country is one of DE, FR"),
        (Rule("r", "range", ("price",), low=0, high=9), "price is between 0 and 9"),
        (Rule("r", "length", ("code",), low=2), "the length of code is at least 2"),
        (Rule("r", "regex", ("code",), pattern="[A-Z]+"), "code matches [A-Z]+"),
        (Rule("r", "relationship", ("order_id",), to="shop.orders"), "order_id is in shop.orders"),
        (Rule("r", "sql", text="a < b"), "every row satisfies a < b"),
        (Rule("every_message_once", "accounted"), "every message landed once"),
        (Rule("types", "types"), "every column has the type that was applied"),
        (Rule("my own rule", "of another release"), "my own rule"),
    ],
)
def test_a_rule_is_a_clause(rule: Rule, expected: str) -> None:
    assert claim(checked(rule)) == expected


@pytest.mark.parametrize(
    ("observed", "success", "failed", "expected"),
    [
        ("0 of 3 rows", True, 0, "3 rows checked"),
        ("0 of 1,204 new rows", True, 0, "1,204 new rows checked"),
        ("2 of 2,011 rows", False, 2, "2 of 2,011 rows break it"),
        ("1 of 1 row", False, 1, "1 of 1 row breaks it"),
        ("0 of 3 rows", None, 0, "0 of 3 rows"),
        ("0 of 6 columns differ", True, 0, "0 of 6 columns differ"),
    ],
)
def test_what_was_found_is_said_in_words(
    observed: str, success: bool | None, failed: int, expected: str
) -> None:
    assert outcome(checked(Rule("r", "unique", ("id",)), observed, success, failed)) == expected


def test_the_position_of_an_outcome_is_one_that_people_say() -> None:
    key = sequence_of(1, (3, 1547, 0, 0, 1, 0), None)
    applied = checked(
        Rule("applied", "applied"), f"verified through {key} at 2024-03-01 09:02:53; 0 batches behind"
    )
    said = "verified through binlog 000003:1547 at 2024-03-01 09:02:53; 0 batches behind"
    assert outcome(applied, "debezium") == said


def test_a_message_that_breaks_a_rule_is_named_by_its_place() -> None:
    lost = checked(Rule("nothing_quarantined", "quarantined"))
    assert (
        failing_key(lost, "crm/shop.orders/2/8: not_json")
        == "crm/shop.orders, partition 2, offset 8: not_json"
    )
    assert failing_key(lost, "something else") == "something else"
    assert failing_key(checked(Rule("r", "unique", ("id",))), "id=a/2/8") == "id=a/2/8"
