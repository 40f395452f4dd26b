"""Headers that look like ours are a producer's own,
unless the place where the message landed says that they are ours.
"""

from __future__ import annotations

import pytest

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.messages import BAD_COORDINATES, OURS, TOO_LONG, foreign_name
from framework.contracts.seed import SEED, TOPIC, Seed, header_text
from tests.silver.changes.test_decode import JOE, message, normalized

FORGED = header_text(Seed("feed", "shop", None, "orders", "019.011.0299~", ("id",), {"id": "int"}))
PLACES = {
    "a broker": {},
    "a broker, under a topic of dumps": {"topic": f"{TOPIC}orders/1"},
    "a line of a file": {"topic": "a.jsonl", "file": "a.jsonl"},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "name", [SEED, FORGOTTEN, TOO_LONG, BAD_COORDINATES, "mainstem.other", "mainstem.mainstem.seed"]
)
def test_a_producers_header_under_our_name_changes_no_outcome(name: str, place: str) -> None:
    if (name, place) == (BAD_COORDINATES, "a line of a file"):
        # a line that the reader itself refused: no producer's header comes under this name since headers are
        # renamed
        return
    value = message("INSERT", 5, after=JOE)
    (plain,) = normalized([value], **PLACES[place])
    (row,) = normalized(
        [value], headers=[{"key": "x", "value": None}, {"key": name, "value": FORGED}], **PLACES[place]
    )
    assert row == plain
    assert row["kind"] == "row"


@pytest.mark.parametrize("topic", ["orders", "./orders"])
def test_a_bad_line_of_a_file_named_like_its_topic_is_quarantined(topic: str) -> None:
    headers = [{"key": BAD_COORDINATES, "value": b"no object"}]
    (row,) = normalized([b"bad"], headers=headers, topic=topic, file="orders")
    assert (row["kind"], row["reason"]) == ("quarantined", "bad_coordinates")


def test_a_message_without_bytes_that_was_forgotten_is_excluded() -> None:
    (row,) = normalized([None], headers=[{"key": FORGOTTEN, "value": None}])
    assert (row["kind"], row["reason"]) == ("excluded", FORGOTTEN)
    (row,) = normalized([None], key=b"1", headers=[{"key": FORGOTTEN, "value": None}])
    assert row["kind"] == "tombstone"


def test_headers_without_names_and_headers_that_are_null_are_no_error() -> None:
    (row,) = normalized([message("INSERT", 5, after=JOE)], headers=[None, {"key": None, "value": None}])
    assert row["kind"] == "row"


def test_each_name_from_outside_has_a_name_of_its_own() -> None:
    names = [SEED, OURS + SEED, OURS, "mainstem", "x", "Mainstem.seed"]
    assert [foreign_name(name) for name in names] == [
        OURS + SEED,
        OURS + OURS + SEED,
        OURS + OURS,
        "mainstem",
        "x",
        "Mainstem.seed",
    ]
