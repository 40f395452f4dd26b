"""The quality step: every subject that has changed is judged, some at a time; the verdicts are written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from framework.config_quality import QualityRule, Scan
from framework.config_rules import matches
from framework.contracts.quality import QualityResult
from framework.errors import nearest
from framework.layer import Layer, Run
from framework.quality.finding import Finding
from framework.quality.inquiry import findings_of
from framework.quality.log import append_results, read_past
from framework.quality.subject import Past, Subject
from framework.quality.verdict import SCANNED_KINDS, Judge, counted


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run of the step came to: new verdicts, the failed ones that stand, old and new, and notes for people.

    `holds` says that every rule does, `replicas` at which places gold's tables are.
    """

    results: tuple[QualityResult, ...] = ()
    failures: tuple[QualityResult, ...] = ()
    notes: tuple[str, ...] = ()
    holds: bool = False
    replicas: tuple[str, ...] = ()


def judge(run: Run, layers: Iterable[Layer]) -> Judged:
    """Judge what has changed since it was judged; what has not keeps its verdicts, and a run without news writes none."""
    past = read_past(run.spark, run.lake)
    subjects = [subject for layer in layers if layer.expectations for subject in layer.expectations(run, past)]
    changed = [subject for subject in subjects if not _is_known(subject, past)]
    is_heavy = run.config.quality.scan is not Scan.COUNTED and any(subject.version is not None for subject in changed)
    judge = Judge() if is_heavy else None
    found = zip(changed, findings_of(run.spark, changed, past), strict=True)
    news = [(subject, findings) for subject, findings in found if subject.version is not None or _is_news(subject, findings, past)]
    results = _judged(run, news, judge) if news else ()
    if results:
        append_results(run.spark, run.lake, results)
    mine = {subject.place for subject, _ in news}
    standing = [result for subject in subjects if subject.place not in mine for result in past.results.get(subject.place, ())]
    failures = tuple(result for result in (*results, *standing) if result.success is False)
    notes = () if run.table else _unmatched(run.config.quality.rules, subjects)
    holds = all(result.success for result in (*results, *standing)) and not notes
    return Judged(results, failures, notes, holds, tuple(subject.replica for subject in subjects if subject.replica))


def _unmatched(rules: Sequence[QualityRule], subjects: Sequence[Subject]) -> tuple[str, ...]:
    """Notes on rules that no table has: a misspelled name would be a rule that always holds."""
    tables = {subject.name for subject in subjects if subject.name and subject.layer in ("gold", "source")}
    found = []
    for pattern in dict.fromkeys(rule.match for rule in rules) if tables else ():
        if not any(matches(pattern, name.database, name.schema, name.table) for name in tables):
            near = nearest(pattern, [name.dotted for name in tables])
            found.append(f"quality.rules: no table matches {pattern!r} so far" + (f"; did you mean {near!r}?" if near else ""))
    return tuple(found)


def _is_known(subject: Subject, past: Past) -> bool:
    if subject.version is None:
        return False
    last = past.results.get(subject.place, ())
    return bool(last) and all((r.version, r.batch, r.suite) == (subject.version, subject.batch, subject.suite) for r in last)


def _is_news(subject: Subject, findings: Sequence[Finding], past: Past) -> bool:
    last = {result.rule: (result.success, result.failing_keys) for result in past.results.get(subject.place, ())}
    return last != {f.rule.name: ((f.failed == 0 if f.is_judged else None), f.keys) for f in findings}


def _judged(run: Run, measured_subjects: Sequence[tuple[Subject, list[Finding]]], judge: Judge | None) -> tuple[QualityResult, ...]:
    started = datetime.now(UTC)
    is_counted = run.config.quality.scan is Scan.COUNTED
    judge = judge or (None if is_counted else Judge())
    results: list[QualityResult] = []
    for subject, found in measured_subjects:
        findings = _scanned(run, subject, found, judge) if judge else found
        verdicts = judge.verdicts(subject.title, findings) if judge and findings else counted(findings)
        engine = "great_expectations" if judge else "mainstem"
        results += [_result(run, subject, finding, (held, engine), started) for finding, held in zip(findings, verdicts, strict=True)]
    return tuple(results)


def _scanned(run: Run, subject: Subject, findings: list[Finding], judge: Judge) -> list[Finding]:
    """With `scan: full`, what Great Expectations finds itself stands in place of what was measured."""
    if run.config.quality.scan is not Scan.FULL or subject.rows is None:
        return findings
    rules = [f.rule for f in findings if f.rule.kind in SCANNED_KINDS and not f.observed.startswith(("no column", "could not"))]
    found = {f.rule.name: f for f in judge.scanned(subject.title, subject.rows(run.spark), rules, subject.keys)}
    return [found.get(f.rule.name, f) for f in findings]


def _result(run: Run, subject: Subject, finding: Finding, verdict: tuple[bool | None, str], started: datetime) -> QualityResult:
    rule, name, (held, engine) = finding.rule, subject.name, verdict
    return QualityResult(
        run_id=run.run_id,
        started_at=started,
        checked_at=datetime.now(UTC),
        layer=subject.layer,
        source=subject.source,
        database=name.database if name else None,
        schema=name.schema if name else None,
        table=name.table if name else None,
        rule=rule.name,
        kind=rule.kind,
        columns=rule.columns,
        severity=str(rule.severity),
        success=held,
        expected=rule.expected,
        observed=finding.observed,
        checked_count=finding.checked,
        failed_count=finding.failed,
        failing_keys=finding.keys,
        detail=finding.detail,
        is_gate=rule.is_gate,
        engine=engine if held is not None else "mainstem",
        version=subject.version,
        batch=subject.batch,
        suite=subject.suite,
    )
