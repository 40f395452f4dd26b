"""The profile of a table in `ops/tables`: what it says, as it was written before, and how long it gets."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from framework.contracts.events import Token
from gold.changes.profile import Profile
from gold.planning.stored_profiles import profile_of_values, profile_values
from gold.schema.columns import ColumnOrder, needed_orders
from gold.schema.type_inference import ColumnEvidence, infer_type

BIGINT = ColumnEvidence(frozenset({"bigint"}), frozenset({"bigint(20)"}), digits=20, high=2**31 - 1)
TEXT = ColumnEvidence(frozenset({"string"}), frozenset({"text"}))


def stored(profile: Profile) -> Profile:
    """The profile as it is read again."""
    return profile_of_values(json.loads(json.dumps(profile_values(profile))), profile.event_time)


def added(count: int) -> Profile:
    """Rows after each of so many statements that add a column; ids become larger from row to row."""
    names = [f"c{n}" for n in range(count + 10)]
    ids = [replace(BIGINT, digits=9, high=200_000_000 + n) for n in range(count + 1)]
    return Profile(
        rows=count,
        min_sequence="011",
        max_sequence="012",
        evidence={
            (naming, name): ids[naming] if name == "c0" else TEXT
            for naming in range(count + 1)
            for name in names[: naming + 10]
        },
        column_orders=tuple(ColumnOrder(n, f"011.{n:04d}", tuple(names[: n + 10])) for n in range(count + 1)),
    )


def test_a_profile_grows_with_columns_and_statements_and_not_with_their_product() -> None:
    few, some, many = (len(json.dumps(profile_values(added(count)))) for count in (10, 100, 1_000))
    assert many - some < 12 * (some - few)


def test_a_profile_is_read_as_it_was_written() -> None:
    """Columns come, go and come back, one stands in the middle, and some namings have no rows."""
    orders = [
        ColumnOrder(0, "011", ("id", "a", "b")), ColumnOrder(0, "012", ("id",)), ColumnOrder(3, "013", ()),
        ColumnOrder(4, "014", ("id", "new", "a", "b")), ColumnOrder(7, "015", ("id", "id2", "id", "b", "b")),
    ]  # fmt: skip
    evidence = {
        (0, "id"): BIGINT, (4, "id"): BIGINT, (7, "id"): TEXT, (9, "id"): BIGINT,
        (0, "b"): TEXT, (7, "b"): TEXT, (4, "new"): ColumnEvidence(tokens=frozenset({str(Token.NULL)})),
    }  # fmt: skip
    profile = Profile(
        rows=4, min_sequence="011", max_sequence="015", keys=("id",), keys_naming=7, keys_sequence="015",
        seen_keys={(0, ("id",)): "011"}, has_partials=True, column_orders=tuple(orders), evidence=evidence,
    )  # fmt: skip
    assert stored(profile) == profile
    assert stored(Profile()) == Profile()
    assert profile_of_values({}, None) == Profile()
    assert stored(added(20)).column_orders == needed_orders(added(20).column_orders)


def test_the_profile_of_an_earlier_release_is_read() -> None:
    values: dict[str, Any] = {
        "rows": 2, "sequences": ["011", "012"], "keys": [["id"], 0, "012"], "has_partials": True,
        "has_moves": True, "shapes": [[0, "011", ["id", "n"]], [1, "012", ["id"]]],
        "seen": [
            [0, "id", ["bigint"], ["bigint(20)"], [], 3, 0, -5, 700, False],
            [1, "n", [], [], ["number"], 1, 2, 0, 9, True],
        ],
    }  # fmt: skip
    found = profile_of_values(values, None)
    assert found.column_orders == (ColumnOrder(0, "011", ("id", "n")), ColumnOrder(1, "012", ("id",)))
    assert found.evidence == {
        (0, "id"): replace(BIGINT, digits=3, low=-5, high=700),
        (1, "n"): ColumnEvidence(tokens=frozenset({"number"}), digits=1, scale=2, high=9, has_others=True),
    }
    assert found.has_partial_key_changes
    assert stored(found).column_orders == found.column_orders


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint", None])
def test_rounded_widths_lead_to_the_same_types_alone_and_with_others(kind: str | None) -> None:
    draw = Random(5)
    edges = [
        0,
        1,
        *(side + (1 << bits) for bits in (7, 15, 31, 63) for side in (-2, -1, 0, 1)),
        10**25,
        10**37,
    ]

    def shown() -> ColumnEvidence:
        low, high = -draw.choice(edges), draw.choice(edges)
        digits = max(len(str(-low)), len(str(high)), draw.randint(1, 30))
        return ColumnEvidence(
            types=frozenset({kind} if kind else ()),
            tokens=frozenset(() if kind else {Token.NUMBER}),
            digits=digits,
            scale=draw.choice((0, 0, 0, 3, 15)),
            low=low,
            high=high,
            has_others=draw.random() < 0.05,
        )

    for _ in range(2_000):
        one, other = shown(), shown()
        assert infer_type(one.rounded()) == infer_type(one)
        assert infer_type(one.rounded() | other) == infer_type(one | other)
        assert one.rounded().rounded() == one.rounded()
        assert (one | other).rounded() == one.rounded() | other.rounded()
