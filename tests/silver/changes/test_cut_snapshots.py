"""Snapshots of a table without a key, format by format: where they are cut makes no difference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from silver.formats import FORMATS
from tests.silver.changes.silver_in_memory import Silver
from tests.silver.changes.test_decode import plan
from tests.silver.changes.test_equal_rows import SNAPSHOTS, STREAMED
from tests.silver.changes.test_random_sequences import arrow_batches
from tests.silver.changes.written_messages import Sent

FEEDS = 2
Message = dict[str, Any]


def drawn(case: str, draw: Random) -> tuple[list[Message], Counter[str]]:
    """A snapshot, once or twice more from its begin behind other changes; and how often it has which row."""
    _, message = SNAPSHOTS[case]
    text = json.dumps(message)
    for one, two in (('"v": 1', '"v": 2'), ('"v": "1"', '"v": "2"'), ('"v": "x"', '"v": "y"')):
        text = text.replace(one, two)
    other: Message = json.loads(text)
    values = draw.choices("112", k=draw.randint(2, 7))
    table: Message = json.loads(json.dumps(message).replace(': "t"', ': "other"'))
    snapshot = [
        row for value in values for row in [message if value == "1" else other, table][: draw.randint(1, 2)]
    ]
    between = STREAMED.get(case, {"no": "change"})
    found = list(snapshot)
    for length in draw.choice([[], [2], [99], [3, 99]]):
        found += [between, *snapshot[:length]]
    return found, Counter(values)


def outcomes(case: str, messages: Sequence[Message], draw: Random | None) -> Counter[tuple[str, str]]:
    """The rows of the table with their ids; in one batch, or in batches that are drawn."""
    silver = Silver(replace(plan(FORMATS[SNAPSHOTS[case][0]]), by_partition=True))
    sent = [(0, offset, Sent(json.dumps(message).encode())) for offset, message in enumerate(messages)]
    while sent:
        size = draw.choice((1, 2, 5)) if draw else len(sent)
        silver.take(arrow_batches(sent[:size], draw or Random(1)))
        sent = sent[size:]
    rows = [
        row for row in silver.rows if row["kind"] == "row" and row["table"] == "t" and row["op"] == "read"
    ]
    values = {"x": "1", "y": "2"}
    return Counter((values.get(row["after"]["v"], row["after"]["v"]), row["change_id"]) for row in rows)


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_a_snapshot_has_as_many_rows_wherever_it_is_cut_and_however_often_it_comes(case: str) -> None:
    for seed in range(FEEDS):
        draw = Random(f"{case} {seed}")
        messages, expected = drawn(case, draw)
        whole = outcomes(case, messages, None)
        assert Counter(value for value, _ in whole.elements()) == expected, seed
        assert max(whole.values()) == 1, seed
        assert outcomes(case, messages, draw) == whole, seed
