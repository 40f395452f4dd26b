from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import NumberText, named_cells


def test_a_list_of_names_and_values_becomes_an_image_in_its_order() -> None:
    assert list(named_cells([("id", 1), ("note", None)]).items()) == [("id", 1), ("note", None)]


def test_a_column_may_come_twice_with_the_same_value() -> None:
    assert named_cells([("id", 1), ("id", 1)]) == {"id": 1}
    assert named_cells([("id", Raw(b"1")), ("id", Raw(b"1"))]) == {"id": Raw(b"1")}


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), (1, "1"), (1, True), (NumberText("1.0"), "1.0"), (None, 0), (Raw(b"1"), Raw(b'"1"'))],
)
def test_a_column_with_two_values_is_refused(first: Any, second: Any) -> None:
    with pytest.raises(Malformed) as caught:
        named_cells([("id", first), ("id", second)])
    assert caught.value.reason is Reason.DUPLICATE_NAME
