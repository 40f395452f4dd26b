"""The change table judged by its new rows: what holds is told, and everything else is left to Spark."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.ddl_actions import TableName
from framework.contracts.epochs import EpochRow
from framework.contracts.expectations import CheckTarget, PreviousResults
from framework.contracts.quality import QualityResult
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_tables import DataFile, LocalTable, Mark
from framework.pipeline.layer import Run
from framework.quality.batch_log import BatchLog
from framework.quality.memory import Memory
from silver.batches.source_epochs import SourceEpochs
from silver.epochs.history import History
from silver.layer import LAYER as SILVER
from silver.operations.expectations import RULES
from silver.operations.new_outcomes import known_findings
from silver.operations.offset_spans import Span, keep_spans
from tests.amounts import IS_LARGE

FILES = "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
KAFKA = FILES.replace("files: ./landing", "kafka: {bootstrap_servers: 'nowhere:9092', topics: [t]}")
TARGET = CheckTarget("silver", None, TableName(None, None, "changes"), RULES, version=2)
MARKS = {CHANGES_TABLE: Mark("changes", 1), MESSAGES_TABLE: Mark("messages", 1)}
NAMES = ("every_message_has_a_fate", "every_fate_has_its_message", "every_message_once")
LANDED = datetime(2026, 1, 1, tzinfo=UTC)
_KINDS = {
    "batch": pa.int64(), "partition": pa.int32(), "offset": pa.int64(), "ordinal": pa.int32(),
    "epoch": pa.int32(),
    "after": pa.map_(pa.string(), pa.string()), "line": pa.int64(), "value": pa.binary(),
    "ingested_at": pa.timestamp("us", "UTC"), "timestamp": pa.timestamp("us", "UTC"),
    "paired_with": pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]),
}  # fmt: skip
_MESSAGE = ("source", "topic", "partition", "offset", "timestamp", "value", "file", "line", "ingested_at")


def landed(offset: int, **more: Any) -> dict[str, Any]:
    return {"source": "feed", "topic": "t", "partition": 0, "offset": offset, "ingested_at": LANDED} | more


def outcome(offset: int, **more: Any) -> dict[str, Any]:
    row = {
        "change_id": "1",
        "batch": 5,
        "kind": "row",
        "op": "insert",
        "table": "item",
        "after": [("id", "1")],
    }
    return {"source": "feed", "topic": "t", "partition": 0, "offset": offset, "epoch": 1} | row | more


def arrow(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> pa.Table:
    schema = pa.schema([(name, _KINDS.get(name, pa.string())) for name in names])
    return pa.Table.from_pylist([dict(row) for row in rows], schema)


class Judged:
    """The new rows of bronze and silver after batch 4, of which everything held."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str = FILES) -> None:
        (folder / "mainstem.yml").write_text(text)
        config = load_config(folder / "mainstem.yml", formats=SILVER.options())
        run = Run(cast("SparkSession", None), Lakehouse(config.root), config, "run")
        past = {name: self.result(name) for name in (*(rule.name for rule in RULES), *NAMES)}
        self.past, self.epochs = past, SourceEpochs(config, History())
        self.memory = Memory(run, PreviousResults(), MARKS, 4)
        self.folder, self.files = folder, dict[str, Sequence[DataFile]]()
        self.counted: list[dict[str, Any]] = []
        monkeypatch.setattr(Memory, "new_files", lambda _, name, mark: self.files.get(name) if mark else None)
        monkeypatch.setattr(Memory, "table", lambda _, name: LocalTable("", Mark("messages", 2), {}, ()))

    @staticmethod
    def result(name: str, **more: Any) -> QualityResult:
        values = {
            "run_id": "", "started_at": LANDED, "checked_at": LANDED, "layer": "silver", "source": None,
            "database": None, "schema": None, "table": "changes", "rule": name, "kind": "", "columns": (),
            "severity": "error", "success": True, "expected": "", "observed": "", "checked_count": 10,
            "failed_count": 0, "failing_keys": (), "detail": None, "is_gate": False, "engine": "",
            "version": 1, "batch": 4, "suite": "",
        }  # fmt: skip
        return QualityResult(**(values | more))

    def told(
        self, messages: Sequence[Mapping[str, Any]], outcomes: Sequence[Mapping[str, Any]]
    ) -> dict[str, tuple[int, int]] | None:
        """How many rows or messages each rule checked, and how many failed; None where Spark must look."""
        self.memory._rows.clear()
        self.files = {
            MESSAGES_TABLE: self._file("messages", arrow(messages, _MESSAGE)),
            CHANGES_TABLE: self._file("changes", arrow(outcomes, CHANGES.names)),
        }
        counted = self.counted or [{"batch": 5, "kind": "row", "rows": len(outcomes)}]
        self.memory.previous = PreviousResults({TARGET.id: list(self.past.values())})
        log = BatchLog(5, 10 + len(outcomes), counted, None)
        found = known_findings(self.memory, TARGET, self.epochs, log, RULES)
        return None if found is None else {f.rule.name: (f.checked, f.failed) for f in found}

    def _file(self, name: str, rows: pa.Table) -> Sequence[DataFile]:
        """A file with two row groups; none without rows."""
        place = self.folder / f"{name}.parquet"
        parquet.write_table(rows, place, row_group_size=max((rows.num_rows + 1) // 2, 1))
        return [DataFile(place, rows.num_rows, place.stat().st_size)] if rows.num_rows else []


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    return Judged(tmp_path, monkeypatch)


def test_new_messages_that_all_have_an_outcome_hold_all_rules(judged: Judged) -> None:
    found = judged.told([landed(1), landed(2)], [outcome(1), outcome(2, kind="tombstone", after=None)])
    assert found == {
        **{rule.name: (2, 0) for rule in RULES},
        "every_message_has_a_fate": (12, 0),
        "every_fate_has_its_message": (2, 0),
        "every_message_once": (2, 0),
        "offsets_without_gaps": (0, 0),
    }


def test_both_halves_of_a_change_and_several_rows_of_a_message_have_an_outcome(judged: Judged) -> None:
    half = {"topic": "t", "partition": 0, "offset": 1}
    rows = [outcome(2, paired_with=half), outcome(3), outcome(3, ordinal=1)]
    found = judged.told([landed(1), landed(2), landed(3)], rows)
    assert found is not None
    assert found["every_fate_has_its_message"] == (3, 0)


@pytest.mark.parametrize(
    ("messages", "outcomes"),
    [
        ([landed(1), landed(2)], [outcome(1)]),
        ([landed(1)], [outcome(1), outcome(2)]),
        ([landed(1), landed(1)], [outcome(1)]),
        ([landed(1)], [outcome(1, epoch=2)]),
        ([landed(1)], [outcome(1, partition=None)]),
        ([landed(1)], [outcome(1, kind="unheard")]),
        ([landed(1)], [outcome(1, kind=None)]),
        ([landed(1)], [outcome(1, table=None)]),
        ([landed(1)], [outcome(1, op=None)]),
        ([landed(1)], [outcome(1, after=None)]),
        ([landed(1)], [outcome(1, batch=4)]),
    ],
)
def test_what_breaks_a_rule_or_was_not_written_by_silver_is_left_to_spark(
    judged: Judged, messages: list[dict[str, Any]], outcomes: list[dict[str, Any]]
) -> None:
    assert judged.told(messages, outcomes) is None


def test_outcomes_that_silver_has_not_counted_are_left_to_spark(judged: Judged) -> None:
    judged.counted = [{"batch": 5, "kind": "row", "rows": 1}]
    assert judged.told([landed(1), landed(2)], [outcome(1), outcome(2)]) is None
    judged.counted += [{"batch": 5, "kind": "ddl", "rows": 1}, {"batch": 4, "kind": "row", "rows": 7}]
    assert judged.told([landed(1), landed(2)], [outcome(1), outcome(2)]) is not None


@pytest.mark.parametrize("more", [{"success": False}, {"success": None}, {"version": 0}, {"batch": 3}])
@pytest.mark.parametrize("rule", ["every_message_once", "not_null(kind)"])
def test_after_other_verdicts_spark_looks_at_everything(
    judged: Judged, rule: str, more: dict[str, Any]
) -> None:
    judged.past[rule] = replace(judged.past[rule], **more)
    assert judged.told([landed(1)], [outcome(1)]) is None


def test_a_rule_that_was_not_judged_before_is_left_to_spark(judged: Judged) -> None:
    del judged.past["rows_are_whole"]
    assert judged.told([landed(1)], [outcome(1)]) is None


def test_messages_of_a_stopped_source_and_of_no_source_wait(judged: Judged) -> None:
    stopped = EpochRow("feed", 1, "stopped", "t", 0, 2, "offsets_restarted", "", batch=5)
    judged.epochs = replace(judged.epochs, history=History((stopped,)))
    found = judged.told([landed(2), landed(3), landed(1, source="other")], [])
    assert found is not None
    assert (found["every_message_has_a_fate"], found["every_fate_has_its_message"]) == ((13, 0), (0, 0))


def test_messages_belong_to_the_epoch_of_their_place(judged: Judged) -> None:
    begun = (EpochRow("feed", 1, "begun"), EpochRow("feed", 2, "begun", "t", 0, 5))
    judged.epochs = replace(judged.epochs, history=History(begun))
    assert judged.told([landed(4), landed(5)], [outcome(4), outcome(5, epoch=2)]) is not None
    assert judged.told([landed(4), landed(5)], [outcome(4), outcome(5)]) is None


def test_drawn_messages_and_outcomes_are_told_where_each_has_the_other(judged: Judged) -> None:
    draw, told = random.Random(11), 0
    count = 300 if IS_LARGE else 100
    for _ in range(count):
        places = [(draw.choice(("t", "u")), draw.randrange(2), draw.randrange(4)) for _ in range(6)]
        messages = places[: draw.randrange(1, 7)]
        outcomes = [place for place in messages if draw.random() < 0.97]
        outcomes += draw.sample(places, draw.randrange(3))
        pairs = [(place, draw.choice(outcomes) if draw.random() < 0.5 else None) for place in outcomes]
        rows = [
            outcome(offset, topic=topic, partition=partition, paired_with=half and _half(*half))
            for (topic, partition, offset), half in pairs
        ]
        found = judged.told(
            [landed(offset, topic=topic, partition=partition) for topic, partition, offset in messages], rows
        )
        holds = set(messages) == set(outcomes) and len(set(messages)) == len(messages)
        assert (found is not None) is holds, (messages, pairs)
        if found is not None:
            told += 1
            assert found["every_message_has_a_fate"] == (10 + len(messages), 0)
    assert count // 15 < told < count - count // 15


def _half(topic: str, partition: int, offset: int) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": offset}


def test_a_transaction_has_as_many_changes_as_its_end_counts(judged: Judged) -> None:
    end = landed(3, value=b'{"status": "END", "event_count": 2}')
    rows = [outcome(1, transaction_id="a"), outcome(2, transaction_id="a")]
    last = outcome(3, kind="transaction", transaction_id="a", after=None)
    judged.counted = [{"batch": 5, "kind": "row", "rows": 2}, {"batch": 5, "kind": "transaction", "rows": 1}]
    found = judged.told([landed(1), landed(2), end], [*rows, last])
    assert found is not None
    assert found["transactions_complete"] == (1, 0)
    rows[0]["transaction_id"] = "b"
    assert judged.told([landed(1), landed(2), end], [*rows, last]) is None


def test_a_transaction_that_lacks_changes_is_told_until_new_changes_may_be_its_own(judged: Judged) -> None:
    lack = {"success": False, "failed_count": 1, "failing_keys": ("feed/a/1: 1 of 2",)}
    judged.past["transactions_complete"] = judged.result("transactions_complete", **lack)
    other = outcome(1, transaction_id="b")
    found = judged.told([landed(1)], [other])
    assert found is not None
    assert found["transactions_complete"] == (1, 1)
    assert judged.told([landed(1)], [outcome(1, transaction_id="a/1")]) is None
    # a second one, which the verdict does not name, may be the one of the new change
    judged.past["transactions_complete"] = replace(judged.past["transactions_complete"], failed_count=2)
    assert judged.told([landed(1)], [other]) is None
    assert judged.told([landed(1)], [outcome(1)]) is not None


def test_a_gap_between_a_brokers_offsets_is_told_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Judged(tmp_path, monkeypatch, KAFKA)
    assert judged.told([landed(9)], [outcome(9)]) is None  # nothing is kept of earlier offsets
    keep_spans(judged.memory, judged.epochs, {("feed", "t", 0, 1): Span(1, 8, 0)})
    judged.memory.kept_offsets = judged.memory.offsets
    judged.memory.marks = {**MARKS, MESSAGES_TABLE: Mark("messages", 2)}
    for offset, gap in ((9, 0), (11, 1), (12, 1)):
        found = judged.told([landed(offset)], [outcome(offset)])
        assert found is not None
        assert found["offsets_without_gaps"] == (1, gap)
        judged.memory.kept_offsets = judged.memory.offsets
    assert judged.told([landed(10)], [outcome(10)]) is None
