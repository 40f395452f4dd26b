"""Questions: what is counted of a table in one row, so that many tables can be counted by one Spark job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.quality.finding import Finding
from framework.quality.rules import Rule


@dataclass(frozen=True, slots=True)
class Look:
    """With what a table is looked at: a session, and whether the table is small enough for one task to read it whole."""

    spark: SparkSession
    is_small: bool

    def whole(self, rows: DataFrame) -> DataFrame:
        """The rows; of a small table in one partition, so that grouping and joining them moves nothing."""
        return rows.coalesce(1) if self.is_small else rows


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a table.

    `frame` gives one row of one column, an array of counts, and `answer` makes the findings of the rules from them; it
    may look again where a count says that a rule fails. `parts` are the same rules asked one by one, for the case that
    one of them cannot be counted.
    """

    rules: tuple[Rule, ...]
    frame: Callable[[], DataFrame]
    answer: Callable[[Sequence[int]], Sequence[Finding]]
    parts: tuple[Question, ...] = ()


def asked(question: Question) -> Sequence[Finding]:
    """The findings of one question; a rule that cannot be counted says so, and the others are."""
    try:
        row = question.frame().first()
        return question.answer([int(count or 0) for count in row[0]] if row else [])
    except Exception as error:
        if question.parts:
            return [finding for part in question.parts for finding in asked(part)]
        return [unjudged(rule, error) for rule in question.rules]


def asked_together(questions: Sequence[Question]) -> list[Sequence[Finding]]:
    """The findings of each question, counted by one job; each is asked alone where one of them cannot be counted."""
    if len(questions) < 2:
        return [asked(question) for question in questions]
    try:
        frames = [question.frame().toDF("counts").select(F.lit(i).alias("i"), "counts") for i, question in enumerate(questions)]
        counts = {row["i"]: [int(count or 0) for count in row["counts"]] for row in reduce(DataFrame.unionAll, frames).collect()}
    except Exception:
        return [asked(question) for question in questions]
    return [_answered(question, counts[i]) for i, question in enumerate(questions)]


def _answered(question: Question, counts: Sequence[int]) -> Sequence[Finding]:
    try:
        return question.answer(counts)
    except Exception as error:
        return [unjudged(rule, error) for rule in question.rules]


def unjudged(rule: Rule, error: Exception) -> Finding:
    """A rule that could not be judged is broken: nobody knows whether it holds."""
    text = str(error).splitlines()[0][:300] if str(error) else ""
    return Finding(rule, 0, 1, (), "could not be judged", f"{type(error).__name__}: {text}")
