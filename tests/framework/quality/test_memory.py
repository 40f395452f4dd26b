"""What a run of the quality step leaves, and with which the next begins unless others have written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from framework.contracts.expectations import PreviousResults
from framework.contracts.table_names import CHANGES_TABLE
from framework.lakehouse.local_tables import Mark
from framework.quality import memory as kept_memory
from framework.quality.memory import forget, keep, memory_of, recall
from framework.quality.results import by_target
from tests.framework.lakehouse.test_local_tables import Table
from tests.framework.quality.test_unchanged import configured
from tests.silver.operations.test_new_outcomes import Judged

RESULT = replace(Judged.result("unique(id)"), failing_keys=("id=1", "id=é"), columns=("id",), failed_count=2)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """`ops/quality_results` in version 1; a run that reads it with Spark finds no results."""
    monkeypatch.setattr(kept_memory, "read_previous_results", lambda *_: PreviousResults())
    table = Table(tmp_path / "lakehouse/ops/quality_results")
    table.commit([1])
    table.commit([2])
    return table


def leave(folder: Path, table: Table, commits: int = 1) -> None:
    """A run of the step that writes one result."""
    memory = recall(configured(folder))
    memory.marks, memory.batch, memory.batches = {CHANGES_TABLE: Mark("changes", 7)}, 5, {"top": 5}
    table.commit([3])
    keep(memory, [RESULT], commits)


def test_the_next_run_has_the_results_and_what_they_are_about(tmp_path: Path, results: Table) -> None:
    leave(tmp_path, results)
    run = configured(tmp_path)
    memory = recall(run)
    assert memory.previous.results == by_target([RESULT])
    assert memory.marks == {CHANGES_TABLE: Mark("changes", 7)}
    assert (memory.batch, memory.kept_batches, memory.batches) == (5, {"top": 5}, {"top": 5})
    assert memory_of(run) is memory
    assert memory_of(configured(tmp_path)).previous.results == {}


def test_after_somebody_else_has_written_results_nothing_is_kept(tmp_path: Path, results: Table) -> None:
    leave(tmp_path, results)
    results.commit([4])
    assert recall(configured(tmp_path)).previous.results == {}


def test_what_was_written_between_is_not_taken_for_the_runs_own(tmp_path: Path, results: Table) -> None:
    leave(tmp_path, results, commits=0)
    assert recall(configured(tmp_path)).previous.results == {}


def test_forgotten_keys_are_gone(tmp_path: Path, results: Table) -> None:
    leave(tmp_path, results)
    assert "id=1" in (tmp_path / "lakehouse/_mainstem/quality.memory").read_text()
    forget(configured(tmp_path))
    assert recall(configured(tmp_path)).previous.results == {}
    assert not list((tmp_path / "lakehouse/_mainstem").glob("quality.memory*"))
    forget(configured(tmp_path))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"form": 1}', '{"form": 0, "mark": ["one", 2]}'])
def test_a_file_that_is_none_of_ours_is_nothing(tmp_path: Path, results: Table, text: str) -> None:
    leave(tmp_path, results)
    file = tmp_path / "lakehouse/_mainstem/quality.memory"
    assert json.loads(file.read_text())["mark"] == ["one", 2]
    file.write_text(text)
    assert recall(configured(tmp_path)).previous.results == {}
