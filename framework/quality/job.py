"""The quality step: every subject that has changed is judged, some at a time; the verdicts are written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from framework.config_quality import Scan
from framework.contracts.quality import QualityResult
from framework.layer import Layer, Run
from framework.quality.log import append_results, read_past
from framework.quality.measure import PASS_KINDS, measured
from framework.quality.rules import Rule
from framework.quality.subject import Finding, Past, Subject
from framework.quality.verdict import SCANNED_KINDS, Judge

THREADS = 4


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run of the step came to: new verdicts, and the failed ones that stand, old and new."""

    results: tuple[QualityResult, ...] = ()
    failures: tuple[QualityResult, ...] = ()


def judge(run: Run, layers: Iterable[Layer]) -> Judged:
    """Judge what has changed since it was judged; what has not keeps its verdicts, and a run without news writes none."""
    past = read_past(run.spark, run.lake)
    subjects = [subject for layer in layers if layer.expectations for subject in layer.expectations(run, past)]
    changed = [subject for subject in subjects if not _is_known(subject, past)]
    judge = Judge() if any(subject.version is not None for subject in changed) else None
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        measures = list(pool.map(lambda subject: _measured(run, subject, past), changed))
    news = [(s, found) for s, found in zip(changed, measures, strict=True) if s.version is not None or _is_news(s, found, past)]
    results = _judged(run, news, judge or Judge()) if news else ()
    if results:
        append_results(run.spark, run.lake, results)
    mine = {subject.place for subject, _ in news}
    standing = [result for subject in subjects if subject.place not in mine for result in past.results.get(subject.place, ())]
    return Judged(results, tuple(result for result in (*results, *standing) if result.success is False))


def _is_known(subject: Subject, past: Past) -> bool:
    if subject.version is None:
        return False
    last = past.results.get(subject.place, ())
    return bool(last) and all((r.version, r.batch, r.suite) == (subject.version, subject.batch, subject.suite) for r in last)


def _is_news(subject: Subject, findings: Sequence[Finding], past: Past) -> bool:
    last = {result.rule: (result.success, result.failing_keys) for result in past.results.get(subject.place, ())}
    return last != {f.rule.name: ((f.failed == 0 if f.is_judged else None), f.keys) for f in findings}


def _judged(run: Run, measured_subjects: Sequence[tuple[Subject, list[Finding]]], judge: Judge) -> tuple[QualityResult, ...]:
    started = datetime.now(UTC)
    results: list[QualityResult] = []
    for subject, found in measured_subjects:
        findings = _scanned(run, subject, found, judge)
        verdicts = judge.verdicts(subject.title, findings) if findings else []
        results += [_result(run, subject, finding, held, started) for finding, held in zip(findings, verdicts, strict=True)]
    return tuple(results)


def _measured(run: Run, subject: Subject, past: Past) -> list[Finding]:
    """What the subject's rules come to; a rule that cannot be judged says so, and the others are judged."""
    findings = _passed(run, subject, past)
    try:
        return [*findings, *subject.measured(run.spark)]
    except Exception as error:
        return [*findings, _unjudged(Rule("judged", "judged"), error)]


def _passed(run: Run, subject: Subject, past: Past) -> list[Finding]:
    rules = [rule for rule in subject.rules if rule.kind in PASS_KINDS]
    changes = [rule for rule in subject.rules if rule.kind == "row_count_change"]
    if subject.rows is None or not (rules or changes):
        return []
    try:
        total, findings = measured(subject.rows(run.spark), rules, subject.keys)
    except Exception as error:
        if len(rules) < 2:
            return [_unjudged(rule, error) for rule in (*rules, *changes)]
        alone = [*((rule,) for rule in rules), *((rule,) for rule in changes)]
        return [finding for one in alone for finding in _passed(run, replace(subject, rules=one), past)]
    return findings + [_row_count(rule, total, past, subject) for rule in changes]


def _unjudged(rule: Rule, error: Exception) -> Finding:
    text = str(error).splitlines()[0][:300] if str(error) else ""
    return Finding(rule, 0, 1, (), "could not be judged", f"{type(error).__name__}: {text}")


def _row_count(rule: Rule, total: int, past: Past, subject: Subject) -> Finding:
    last = past.of(subject.place, rule.name)
    if last is None:
        return Finding(rule, total, 0, (), f"{total:,} rows, for the first time")
    change = abs(total - last.checked_count) * 100 / max(last.checked_count, 1)
    failed = int(rule.percent is not None and change > rule.percent)
    return Finding(rule, total, failed, (), f"{last.checked_count:,} rows before, {total:,} now ({change:.1f} %)")


def _scanned(run: Run, subject: Subject, findings: list[Finding], judge: Judge) -> list[Finding]:
    """With `scan: full`, what Great Expectations finds itself stands in place of what was measured."""
    if run.config.quality.scan is not Scan.FULL or subject.rows is None:
        return findings
    rules = [f.rule for f in findings if f.rule.kind in SCANNED_KINDS and not f.observed.startswith(("no column", "could not"))]
    found = {f.rule.name: f for f in judge.scanned(subject.title, subject.rows(run.spark), rules, subject.keys)}
    return [found.get(f.rule.name, f) for f in findings]


def _result(run: Run, subject: Subject, finding: Finding, held: bool | None, started: datetime) -> QualityResult:
    rule, name = finding.rule, subject.name
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
        engine="great_expectations" if held is not None else "mainstem",
        version=subject.version,
        batch=subject.batch,
        suite=subject.suite,
    )
