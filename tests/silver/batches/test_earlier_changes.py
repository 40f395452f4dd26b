"""The earlier changes that matter to a batch: they are in few batches, and this process reads them there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.spark.local_frame import arrow_frame
from framework.spark.session import is_connect
from silver.batches import earlier_changes as earlier
from silver.batches.contents import Summary
from silver.batches.earlier_changes import EarlierChanges, earlier_changes
from silver.batches.run_state import Progress, RunState
from silver.batches.source_tops import SourceTops
from silver.changes.staged_rows import Row
from tests.silver.batches.test_few_outcomes import changes
from tests.silver.changes.test_pairing import ANN, JOE, update

UNPAIRED, BROKEN = str(Reason.UNPAIRED_BEFORE_IMAGE), str(Reason.RULE_BROKEN)


def _row(source: str, place: int, **more: object) -> Row:
    named = {"source": source, "sequence": f"011.011.0{place}", "change_id": f"{source}{place}", "half": None}
    return {**update(JOE, ANN, place), **named, **more}


def _commit(spark: SparkSession, lake: Lakehouse, batch: int, rows: list[Row]) -> None:
    frame = arrow_frame(spark, changes(rows), CHANGES).withColumn("batch", F.lit(batch).cast("long"))
    lake.append(frame.select(*CHANGES.names).coalesce(1), CHANGES_TABLE)


def _found(spark: SparkSession, state: RunState, lowest: Mapping[str, int]) -> EarlierChanges | None:
    empty: dict[str, Any] = dict.fromkeys(Summary.__slots__)
    summaries = [
        Summary(**{**empty, "source": source, "min_sequence": f"011.011.0{place}"})
        for source, place in lowest.items()
    ]
    shown = {
        source: Progress(sequence=max([tops.before, *(top for _, top in tops.batches)]))
        for source, tops in state.tops.items()
    }
    return earlier_changes(spark, state, summaries, shown)


def test_they_are_read_in_this_process_from_the_batches_that_can_have_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_connect(spark):
        pytest.skip("Spark reads them there")
    lake, nothing = Lakehouse(str(tmp_path)), None
    state = RunState(lake, nothing, {})  # type: ignore[arg-type]
    for batch in range(4):  # the positions of b are all above those of a
        of_a, of_b = 20 + 2 * batch, 70 + 2 * batch
        rows = [_row("a", of_a), _row("a", of_a + 1, kind="quarantined", reason=UNPAIRED), _row("b", of_b)]
        _commit(spark, lake, batch, [*rows, _row("a", of_a + 1, kind="quarantined", reason=BROKEN)])
        for source, top in (("a", of_a + 1), ("b", of_b)):
            state.tops.setdefault(source, SourceTops()).note(batch, f"011.011.0{top}")
    assert _found(spark, state, {"a": 28, "b": 77}) is None
    for lowest, since, ids in (
        ({"a": 26}, 3, ["a26", "a27"]),
        ({"a": 25}, 2, ["a25", "a26", "a27"]),
        ({"a": 27, "b": 72}, 1, ["a27", "b72", "b74", "b76"]),
        ({"b": 75}, 3, ["b76"]),
    ):
        found = _found(spark, state, lowest)
        assert found is not None
        assert found.since == since
        assert sorted(row["change_id"] for row in found.frame.collect()) == ids
        few = found.read_few(state)
        assert few is not None
        assert sorted(few["change_id"].to_pylist()) == ids
    monkeypatch.setattr(earlier, "MOST_ROWS", 7)
    known = _found(spark, state, {"a": 26})
    assert known is not None
    assert known.read_few(state) is not None
    state.tops["a"] = SourceTops("011.011.027")  # by a note that does not tell its batches
    unknown = _found(spark, state, {"a": 26})
    assert unknown is not None
    assert unknown.since == 0
    assert unknown.read_few(state) is None
    assert sorted(row["change_id"] for row in unknown.frame.collect()) == ["a26", "a27"]


def test_any_number_of_sources_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition for each of them ended the process, because it nested too deeply."""
    sources = [f"feed_{number}" for number in range(20_000)]
    rows = [_row(source, place) for source in (*sources[:2], "other") for place in (24, 25, 26)]
    there = [*rows, _row(sources[1], 27, sequence=None), _row(sources[1], 28, kind="excluded")]
    monkeypatch.setattr(earlier, "rows_above", lambda *_: changes(there))
    nothing: Any = None
    lowest = dict.fromkeys(sources, "011.011.025") | {sources[1]: "011.011.026"}
    found = EarlierChanges(nothing, lowest, 0).read_few(RunState(Lakehouse(str(tmp_path)), nothing, {}))
    assert found is not None
    assert found["change_id"].to_pylist() == ["feed_025", "feed_026", "feed_126"]
