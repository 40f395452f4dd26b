"""Runs measurements: one Spark job counts many tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.expectations import Finding, Measurement, Rule
from framework.contracts.quality import UNMEASURED
from framework.errors import cause_of


def measure(measurement: Measurement) -> Sequence[Finding]:
    """The findings of one measurement; a rule that cannot be counted does not stop the others."""
    try:
        row = measurement.frame().first()
        return measurement.answer([int(count or 0) for count in row[0]] if row else [])
    except Exception as error:
        if measurement.parts:
            return [finding for part in measurement.parts for finding in measure(part)]
        return [unjudged(rule, error) for rule in measurement.rules]


def measure_together(measurements: Sequence[Measurement]) -> list[Sequence[Finding]]:
    """The findings of each measurement, from one job; from a job each where one cannot be counted."""
    if len(measurements) < 2:
        return [measure(measurement) for measurement in measurements]
    try:
        frames = [
            measurement.frame().toDF("counts").select(F.lit(i).alias("i"), "counts")
            for i, measurement in enumerate(measurements)
        ]
        counts = {
            row["i"]: [int(count or 0) for count in row["counts"]]
            for row in reduce(DataFrame.unionAll, frames).collect()
        }
    except Exception:
        return [measure(measurement) for measurement in measurements]
    return [_findings(measurement, counts[i]) for i, measurement in enumerate(measurements)]


def _findings(measurement: Measurement, counts: Sequence[int]) -> Sequence[Finding]:
    try:
        return measurement.answer(counts)
    except Exception as error:
        return [unjudged(rule, error) for rule in measurement.rules]


def unjudged(rule: Rule, error: Exception) -> Finding:
    """The finding of a rule that could not be judged: it counts as broken, since it may be."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    observed = f"{UNMEASURED}: {condition}" if condition else UNMEASURED
    detail = f"{type(error).__name__}: {cause_of(error)[:300]}"
    return Finding(rule, 0, 1, (), observed, detail, is_measured=False)
