"""The counts of few changes are compared in this process, however many batches they came in."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from framework.contracts.table_schemas import CHANGES
from silver.batches.outcome_places import outcomes_in
from silver.epochs.event_clock import AHEAD
from silver.stream import derived_here

BATCHES = 5_000
START = datetime(2024, 3, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)


def change(number: int, **cells: Any) -> dict[str, Any]:
    """A row change in a batch of its own."""
    at = {"source": "feed", "topic": "t", "partition": 0, "offset": number, "epoch": 0, "ordinal": 0}
    own = {"batch": number, "kind": "row", "op": "update", "database": "shop", "table": "item"}
    times = {"sequence": f"{number:08d}", "event_time": START + timedelta(seconds=number)}
    return dict.fromkeys(CHANGES.names) | at | own | times | cells


def counted(number: int, **cells: Any) -> dict[str, Any]:
    """What the log says of `change`."""
    sums = {"rows": 1, "merged": 0, "snapshots": 0}
    ends = dict.fromkeys(("min_sequence", "max_sequence"), f"{number:08d}")
    newest = (START - datetime(1970, 1, 1, tzinfo=UTC)) // MICRO + number * 1_000_000
    of = {"batch": number, "source": "feed", "database": "shop", "schema": None, "table": "item"}
    return of | {"kind": "row", "reason": None, "max_event_time": newest} | sums | ends | cells


def agrees(changes: list[dict[str, Any]], log: list[dict[str, Any]], clocks: dict[int, int]) -> bool:
    rows = pa.Table.from_pylist(changes, to_arrow_schema(CHANGES))
    names = {name: pa.int64() if name == "max_event_time" else kind for name, kind in KINDS.items()}
    held = pa.Table.from_pylist(log, pa.schema(names))
    read = derived_here._Source("feed", rows, outcomes_in(rows), frozenset(), held, clocks)
    return derived_here._counts_agree(read, 0)


KINDS: dict[str, pa.DataType] = {
    **{name: pa.int64() for name in ("batch", "rows", "merged", "snapshots", "max_event_time")},
    **{name: pa.string() for name in ("source", "database", "schema", "table", "kind", "reason")},
    **{name: pa.string() for name in ("min_sequence", "max_sequence")},
}


def test_the_counts_of_many_small_batches_are_compared_in_little_time() -> None:
    changes, log = [change(n) for n in range(BATCHES)], [counted(n) for n in range(BATCHES)]
    begun = time.process_time()
    assert agrees(changes, log, {})
    assert time.process_time() - begun < 8  # one look for each batch takes several times as long
    assert not agrees(changes, [*log[:-1], counted(BATCHES - 1, rows=2)], {})


@pytest.mark.parametrize(
    "differ",
    [
        lambda one: one | {"min_sequence": None},
        lambda one: one | {"max_sequence": "1"},
        lambda one: one | {"max_event_time": 7},
        lambda one: one | {"merged": 1},
        lambda one: one | {"snapshots": 1},
        lambda one: one | {"reason": "late"},
    ],
)
def test_each_count_and_end_is_compared(differ: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    assert agrees([change(1)], [counted(1)], {})
    assert not agrees([change(1)], [differ(counted(1))], {})


def test_kinds_and_impossible_times_count_as_in_a_batch() -> None:
    pair = {"source": "feed", "topic": "t", "partition": 0, "offset": 8}
    assert agrees([change(1, paired_with=pair)], [counted(1, merged=1)], {})
    assert agrees([change(1, kind="duplicate")], [counted(1, kind="duplicate", min_sequence=None)], {})
    newest = counted(1)["max_event_time"] - AHEAD // MICRO
    assert agrees([change(1)], [counted(1)], {1: newest})
    assert agrees([change(1)], [counted(1, max_event_time=None)], {1: newest - 1})
    assert agrees([change(1, event_time=None)], [counted(1, max_event_time=None)], {1: newest})
    doubled = [change(1), change(1, offset=2, sequence="00000000")]
    assert agrees(doubled, [counted(1, rows=2, min_sequence="00000000")], {1: newest})
