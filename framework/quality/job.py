"""The quality step: judges every target that has changed, and writes the verdicts once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from framework.config.quality import QualityRule, Scan
from framework.config.tables import unmatched
from framework.contracts.expectations import CheckTarget, Finding, PreviousResults
from framework.contracts.quality import QualityResult
from framework.lakehouse.local_tables import Mark
from framework.pipeline.layer import Layer, Run
from framework.quality.great_expectations import GreatExpectations, counted, has_expectation
from framework.quality.memory import keep, recall
from framework.quality.results import append_results, by_target
from framework.quality.runner import findings_of


@dataclass(frozen=True, slots=True)
class QualityOutcome:
    """The outcome of the quality step.

    Attributes:
        results: New verdicts.
        failures: Failed verdicts that are valid, old and new.
        notes: Notes for people.
        holds: Every rule holds.
        replicas: The locations of gold's tables.
    """

    results: tuple[QualityResult, ...] = ()
    failures: tuple[QualityResult, ...] = ()
    notes: tuple[str, ...] = ()
    holds: bool = False
    replicas: tuple[str, ...] = ()


def judge(run: Run, layers: Iterable[Layer]) -> QualityOutcome:
    """Judge the targets that have changed since they were judged; the others keep their verdicts.

    A run without new verdicts writes none. One with some also writes those of which only the numbers and
    texts are others.
    """
    memory = recall(run)
    previous = memory.previous
    targets = [
        target for layer in layers if layer.expectations for target in layer.expectations(run, previous)
    ]
    changed = [target for target in targets if _is_due(target, previous)]
    is_heavy = run.config.quality.scan is not Scan.COUNTED and any(
        target.version is not None for target in changed
    )
    judge = GreatExpectations() if is_heavy else None
    found = list(zip(changed, findings_of(run.spark, changed, previous), strict=True))
    mine = {t.id for t, now in found if _has_changed(t, previous) or _is_new(t, now, previous)}
    if mine:  # a commit of their own would be one in nearly every run
        mine |= {target.id for target, findings in found if _is_told_anew(target, findings, previous)}
    news = [one for one in found if one[0].id in mine]
    results = _results(run, news, judge) if news else ()
    commits = append_results(run.spark, run.lake, results) if results else 0
    seen = {target.id: findings for target, findings in found}
    standing = [
        result
        for target in targets
        if target.id not in mine
        for result in _as_now(previous.results.get(target.id, ()), seen.get(target.id, ()))
    ]
    failures = tuple(result for result in (*results, *standing) if result.success is False)
    for target in targets:
        if target.reads and target.batch is not None:
            memory.marks = {name: Mark(*mark) for name, mark in target.reads.items()}
            memory.batch = target.batch
    newest = {**previous.results, **by_target(results)}
    keep(memory, [result for found in newest.values() for result in found], commits)
    notes = () if run.table else _unmatched(run.config.quality.rules, targets)
    holds = all(result.success for result in (*results, *standing)) and not notes
    return QualityOutcome(
        results, failures, notes, holds, tuple(target.replica for target in targets if target.replica)
    )


def _unmatched(rules: Sequence[QualityRule], targets: Sequence[CheckTarget]) -> tuple[str, ...]:
    """Notes on rules that match no table: a misspelled name would be a rule that always holds."""
    tables = {target.name for target in targets if target.name and target.layer in ("gold", "source")}
    return unmatched((rule.match for rule in rules), tables, "quality.rules")


def _is_due(target: CheckTarget, previous: PreviousResults) -> bool:
    """Whether a target is judged in this run: what could not be measured may be measurable now."""
    return (
        target.version is None
        or target.reads_beyond
        or _has_changed(target, previous)
        or any(result.is_unmeasured for result in previous.results.get(target.id, ()))
    )


def _has_changed(target: CheckTarget, previous: PreviousResults) -> bool:
    """Whether a target with a version is another one than its last verdicts are about."""
    if target.version is None:
        return False
    last = previous.results.get(target.id, ())
    return not last or any(
        (r.version, r.batch, r.suite) != (target.version, target.batch, target.suite) for r in last
    )


def _is_new(target: CheckTarget, findings: Sequence[Finding], previous: PreviousResults) -> bool:
    """Whether the verdicts, their reasons or the rules are others than those of the last run."""
    past = previous.results.get(target.id, ())
    last = {r.rule: (r.success, r.failing_keys, _reason(r.kind, r.detail)) for r in past}
    now = {
        f.rule.name: ((f.failed == 0 if f.is_judged else None), f.keys, _reason(f.rule.kind, f.detail))
        for f in findings
    }
    return last != now or any(result.suite != target.suite for result in past)


def _is_told_anew(target: CheckTarget, findings: Sequence[Finding], previous: PreviousResults) -> bool:
    """Whether the numbers or texts of a target's verdicts are others than those of the last run."""
    last = {
        r.rule: (r.observed, r.checked_count, r.failed_count) for r in previous.results.get(target.id, ())
    }
    return last != {f.rule.name: (f.observed, f.checked, f.failed) for f in findings}


def _as_now(results: Iterable[QualityResult], findings: Iterable[Finding]) -> Iterator[QualityResult]:
    """The verdicts of a target, with the numbers and texts of what was found in this run."""
    now = {finding.rule.name: finding for finding in findings}
    for result in results:
        found = now.get(result.rule)
        yield (
            result
            if found is None
            else replace(
                result,
                observed=found.observed,
                checked_count=found.checked,
                failed_count=found.failed,
                detail=found.detail,
            )
        )


def _reason(kind: str, detail: str | None) -> str | None:
    """The detail of a verdict; that of freshness is an age, which is another one in each run."""
    return None if kind == "freshness" else detail


def _results(
    run: Run, measured_subjects: Sequence[tuple[CheckTarget, list[Finding]]], judge: GreatExpectations | None
) -> tuple[QualityResult, ...]:
    started = datetime.now(UTC)
    if run.config.quality.scan is Scan.COUNTED:
        judge = None
    elif judge is None:
        judge = GreatExpectations()
    engine = "great_expectations" if judge else "mainstem"
    judged = [
        (target, finding)
        for target, found in measured_subjects
        for finding in (_scanned(run, target, found, judge) if judge else found)
    ]
    findings = [finding for _, finding in judged]
    verdicts = judge.verdicts(findings) if judge else counted(findings)
    return tuple(
        _result(run, target, finding, (holds, engine), started)
        for (target, finding), holds in zip(judged, verdicts, strict=True)
    )


def _scanned(
    run: Run, target: CheckTarget, findings: list[Finding], judge: GreatExpectations
) -> list[Finding]:
    """The findings; with `scan: full`, those of Great Expectations replace the measured ones.

    The keys stay those that were measured where there are some: they are the first that fail, in every run.
    """
    if run.config.quality.scan is not Scan.FULL or target.rows is None:
        return findings
    rules = [f.rule for f in findings if f.is_measured and has_expectation(f.rule)]
    found = {f.rule.name: f for f in judge.scanned(target.title, target.rows(run.spark), rules, target.keys)}
    return [
        replace(mine, keys=f.keys or mine.keys) if (mine := found.get(f.rule.name)) is not None else f
        for f in findings
    ]


def _result(
    run: Run, target: CheckTarget, finding: Finding, verdict: tuple[bool | None, str], started: datetime
) -> QualityResult:
    rule, name, (holds, engine) = finding.rule, target.name, verdict
    return QualityResult(
        run_id=run.run_id,
        started_at=started,
        checked_at=datetime.now(UTC),
        layer=target.layer,
        source=target.source,
        database=name.database if name else None,
        schema=name.schema if name else None,
        table=name.table if name else None,
        rule=rule.name,
        kind=rule.kind,
        columns=rule.columns,
        severity=str(rule.severity),
        success=holds,
        expected=rule.expected,
        observed=finding.observed,
        checked_count=finding.checked,
        failed_count=finding.failed,
        failing_keys=finding.keys,
        detail=finding.detail,
        is_gate=rule.is_gate,
        engine=engine if holds is not None else "mainstem",
        version=target.version,
        batch=target.batch,
        suite=target.suite,
    )
