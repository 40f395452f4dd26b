"""Runs measurements: one job counts several small tables; each large one has a session of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from framework.contracts.expectations import (
    CheckTarget,
    Finding,
    KnownFindings,
    Measurement,
    MeasurementContext,
    PreviousResults,
    Rule,
)
from framework.quality.measurement import measure, measure_together, unjudged
from framework.quality.row_checks import PASS_KINDS, row_measurement
from framework.spark.tuning import SMALL_ROWS, tune_for_rows
from framework.spark.worker_threads import in_threads
from framework.text.formatting import quantity

TOGETHER = 8
"""The number of small tables that one job counts: a larger plan costs more to make than it saves."""

_Task = Callable[[SparkSession], list[list[Finding]]]


def findings_of(
    spark: SparkSession, targets: Sequence[CheckTarget], previous: PreviousResults
) -> list[list[Finding]]:
    """The findings of each target; a rule that cannot be judged does not stop the others.

    Spark measures only those targets whose findings are not known without it.
    """
    known = [_known_findings(target) for target in targets]
    unknown = [found.rest for found in known if found.rest is not None]
    measured = iter(_measured_findings(spark, unknown, previous) if unknown else ())
    return [[*found.findings, *(next(measured) if found.rest is not None else ())] for found in known]


def _known_findings(target: CheckTarget) -> KnownFindings:
    try:
        found = target.known_findings()
    except Exception:  # Spark measures the target then, and says what is wrong
        found = None
    return KnownFindings((), target) if found is None else found


def _measured_findings(
    spark: SparkSession, targets: Sequence[CheckTarget], previous: PreviousResults
) -> list[list[Finding]]:
    tables = [i for i, target in enumerate(targets) if target.rows is not None]
    small = [i for i in tables if targets[i].size <= SMALL_ROWS]
    large = [i for i in tables if targets[i].size > SMALL_ROWS]
    groups = [small[start : start + TOGETHER] for start in range(0, len(small), TOGETHER)] + [
        [i] for i in large
    ]
    counted: list[_Task] = [
        partial(_counted, targets=[targets[i] for i in group], previous=previous) for group in groups
    ]
    measured: list[_Task] = [partial(_own_findings, target=target) for target in targets]
    answers = in_threads(spark, [*counted, *measured], lambda session, task: task(session))
    found: list[list[Finding]] = [[] for _ in targets]
    for group, answer in zip(groups, answers, strict=False):
        for i, findings in zip(group, answer, strict=True):
            found[i] = findings
    return [[*first, *rest[0]] for first, rest in zip(found, answers[len(counted) :], strict=True)]


def _counted(
    spark: SparkSession, targets: Sequence[CheckTarget], previous: PreviousResults
) -> list[list[Finding]]:
    size = max(target.size for target in targets)
    tune_for_rows(spark, size)
    context = MeasurementContext(spark, size <= SMALL_ROWS)
    measurements = [_measurements(target, context, previous) for target in targets]
    everything = [measurement for mine in measurements for measurement in mine]
    answers = iter(
        measure_together(everything)
        if context.is_small
        else [measure(measurement) for measurement in everything]
    )
    return [[finding for _ in mine for finding in next(answers)] for mine in measurements]


def _own_findings(spark: SparkSession, target: CheckTarget) -> list[list[Finding]]:
    tune_for_rows(spark, target.size)
    try:
        return [list(target.own_findings(spark))]
    except Exception as error:
        return [[unjudged(Rule("judged", "judged"), error)]]


def _measurements(
    target: CheckTarget, context: MeasurementContext, previous: PreviousResults
) -> list[Measurement]:
    rules = [rule for rule in target.rules if rule.kind in PASS_KINDS]
    changes = [rule for rule in target.rules if rule.kind == "row_count_change"]
    found = list(target.measurements(context))
    if target.rows is None or not (rules or changes):
        return found
    rows = partial(target.rows, context.spark)
    counted = row_measurement(rows, rules, target.keys, context)
    if changes:
        judged = partial(_row_counts, changes, previous=previous, target=target)
        counted = _both(
            counted,
            replace(row_measurement(rows, (), target.keys, context), rules=tuple(changes), answer=judged),
        )
    return [_with_judged_rows(counted, target.judged_rows), *found]


def _with_judged_rows(measurement: Measurement, judged: int) -> Measurement:
    """The measurement of some rows of a table, whose findings are about these and the judged ones."""
    return replace(
        measurement,
        answer=lambda counts: measurement.answer([counts[0] + judged, *counts[1:]]),
        parts=tuple(_with_judged_rows(part, judged) for part in measurement.parts),
    )


def _both(measurement: Measurement, other: Measurement) -> Measurement:
    """One measurement for two that can share a query; `other` uses the first of its counts alone.

    If the query fails, its two parts are measured one by one.
    """
    if not measurement.rules:
        return other
    rules = (*measurement.rules, *other.rules)
    return replace(
        measurement,
        rules=rules,
        answer=lambda n: [*measurement.answer(n), *other.answer(n)],
        parts=(measurement, other),
    )


def _row_counts(
    rules: Sequence[Rule], counts: Sequence[int], previous: PreviousResults, target: CheckTarget
) -> list[Finding]:
    return [_row_count(rule, counts[0], previous, target) for rule in rules]


def _row_count(rule: Rule, total: int, previous: PreviousResults, target: CheckTarget) -> Finding:
    last = previous.of(target.id, rule.name)
    if last is None or last.is_unmeasured:
        return Finding(rule, total, 0, (), f"{quantity(total, 'row')}, for the first time")
    judged = (last.version, last.batch, last.suite, last.checked_count)
    if judged == (target.version, target.batch, target.suite, total):
        return Finding(rule, total, last.failed_count, (), last.observed)  # nothing has changed since
    change = abs(total - last.checked_count) * 100 / max(last.checked_count, 1)
    failed = int(rule.percent is not None and change > rule.percent)
    return Finding(
        rule,
        total,
        failed,
        (),
        f"{quantity(last.checked_count, 'row')} before, {total:,} now ({change:.1f} %)",
    )
