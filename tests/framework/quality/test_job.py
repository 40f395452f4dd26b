"""Which targets a run judges, and which verdicts it writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, Finding, KnownFindings, PreviousResults, Rule
from framework.contracts.quality import QualityResult, Severity
from framework.quality import job
from framework.quality.job import QualityOutcome, judge
from framework.quality.memory import Memory
from framework.quality.results import by_target
from framework.quality.runner import _row_count
from tests.framework.quality.test_unchanged import configured

SNAPSHOT = Rule("snapshot", "snapshot")
HOLDS, BROKEN = Finding(SNAPSHOT, 3, 0), Finding(SNAPSHOT, 3, 1, ("id=2",))
UNMEASURED = Finding(SNAPSHOT, 0, 1, (), "could not be judged", "TimeoutException: no answer")
TABLE = CheckTarget("gold", "feed", TableName("shop", None, "item"), version=4, batch=2, suite="s")


class Runs:
    """Runs of the quality step over one target; each knows the results of those before."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run = configured(folder, "quality: {scan: counted}\n")
        self.known: dict[Any, list[QualityResult]] = {}
        self.written: list[QualityResult] = []
        monkeypatch.setattr(job, "recall", lambda run: Memory(run, PreviousResults(self.known)))
        monkeypatch.setattr(job, "append_results", lambda *given: self._write(given[2]))
        monkeypatch.setattr(job, "keep", lambda *_: None)

    def _write(self, results: Sequence[QualityResult]) -> int:
        self.written = list(results)
        self.known |= by_target(results)
        return 1

    def judge(self, target: CheckTarget, *findings: Finding) -> tuple[bool, Iterable[str], int]:
        """Whether a run looks at the target, the rules that fail then, and how many verdicts it writes."""
        looked: list[bool] = []

        def found() -> KnownFindings:
            looked.append(True)
            return KnownFindings(findings)

        outcome = self.judge_all(replace(target, known_findings=found))
        return bool(looked), [one.rule for one in outcome.failures], len(self.written)

    def judge_all(self, *targets: CheckTarget) -> QualityOutcome:
        """The outcome of a run over targets whose findings are known."""
        self.written = []
        layer: Any = SimpleNamespace(expectations=lambda *_: targets)
        return judge(self.run, [layer])


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def test_a_table_that_has_not_changed_keeps_its_verdicts(runs: Runs) -> None:
    assert runs.judge(TABLE, BROKEN) == (True, ["snapshot"], 1)
    assert runs.judge(TABLE, HOLDS) == (False, ["snapshot"], 0)
    assert runs.judge(replace(TABLE, version=5), HOLDS) == (True, [], 1)


def test_what_reads_beyond_the_lakehouse_is_judged_in_every_run_and_written_when_it_changes(
    runs: Runs,
) -> None:
    table = replace(TABLE, reads_beyond=True)
    assert runs.judge(table, HOLDS) == (True, [], 1)
    assert runs.judge(table, HOLDS) == (True, [], 0)
    assert runs.judge(table, BROKEN) == (True, ["snapshot"], 1)
    assert runs.judge(table, HOLDS) == (True, [], 1)


def test_a_rule_that_could_not_be_measured_is_measured_again_in_the_next_run(runs: Runs) -> None:
    assert runs.judge(TABLE, UNMEASURED) == (True, ["snapshot"], 1)
    assert runs.judge(TABLE, HOLDS) == (True, [], 1)
    assert runs.judge(TABLE, BROKEN) == (False, [], 0)


def test_the_number_of_rows_is_compared_with_one_that_was_counted(runs: Runs) -> None:
    rule = Rule("row_count_change", "row_count_change", percent=20)

    def counted(total: int, target: CheckTarget = TABLE) -> Finding:
        found = _row_count(rule, total, PreviousResults(runs.known), target)
        runs.judge(replace(target, reads_beyond=True), found)
        return found

    runs.judge(TABLE, replace(UNMEASURED, rule=rule))
    assert counted(10).failed == 0
    assert counted(20, replace(TABLE, version=5)).failed == 1
    # the same table once more is no change that would make the rule hold
    assert counted(20, replace(TABLE, version=5)).failed == 1
    assert counted(20, replace(TABLE, version=6)).failed == 0


@pytest.mark.parametrize("rule", [Rule("freshness", "freshness"), Rule("applied", "applied")])
def test_what_is_judged_in_every_run_is_written_again_when_its_rules_change(runs: Runs, rule: Rule) -> None:
    source = replace(TABLE, layer="source", version=None, batch=None)
    broken = Finding(rule, 1, 1, ("shop.item",), "old", "1 hour")
    assert runs.judge(source, broken) == (True, [rule.name], 1)
    assert runs.judge(source, broken) == (True, [rule.name], 0)
    lenient = replace(broken, rule=replace(rule, severity=Severity.WARN))
    assert runs.judge(replace(source, suite="other"), lenient) == (True, [rule.name], 1)
    assert [result.severity for result in runs.written] == ["warn"]


def test_another_reason_is_written_but_not_each_age(runs: Runs) -> None:
    source = replace(TABLE, layer="source", version=None, batch=None)
    for kind, written in (("applied", 1), ("freshness", 0)):
        old = Finding(Rule(kind, kind), 1, 1, ("shop.item",), "so it is", "one")
        runs.judge(source, old)
        assert runs.judge(source, replace(old, detail="two"))[2] == written


def test_numbers_of_a_verdict_are_shown_at_once_and_written_with_the_next_verdicts(runs: Runs) -> None:
    rule = Rule("applied", "applied")
    parked = replace(TABLE, layer="source", version=None, batch=None)

    def behind(batches: int) -> CheckTarget:
        finding = Finding(rule, 9, 1, (), f"parked, {batches} batches behind", "a reason")
        return replace(parked, known_findings=lambda: KnownFindings([finding]))

    def item(version: int) -> CheckTarget:
        return replace(TABLE, version=version, known_findings=lambda: KnownFindings([HOLDS]))

    runs.judge_all(behind(1), item(4))
    (failure,) = runs.judge_all(behind(500), item(4)).failures
    assert (failure.observed, runs.written) == ("parked, 500 batches behind", [])
    runs.judge_all(behind(501), item(5))
    assert [one.observed for one in runs.written if one.rule == "applied"] == ["parked, 501 batches behind"]
    runs.judge_all(behind(501), item(6))
    assert [one.rule for one in runs.written] == ["snapshot"]
