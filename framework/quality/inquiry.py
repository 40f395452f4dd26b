"""Asking: small tables are counted together, each large one in a session with settings for its size; some at a time."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from framework.pace import SMALL_ROWS, set_pace
from framework.quality.finding import Finding
from framework.quality.measure import PASS_KINDS, question_of
from framework.quality.question import Look, Question, asked, asked_together, unjudged
from framework.quality.rules import Rule
from framework.quality.subject import Past, Subject
from framework.session import worker_sessions

THREADS = 4
TOGETHER = 8
"""How many small tables one job counts: a larger plan costs more to make than it saves."""

_Task = Callable[[SparkSession], list[list[Finding]]]


def findings_of(spark: SparkSession, subjects: Sequence[Subject], past: Past) -> list[list[Finding]]:
    """What the rules of each subject come to; a rule that cannot be judged says so, and the others are judged."""
    tables = [i for i, subject in enumerate(subjects) if subject.rows is not None]
    small = [i for i in tables if subjects[i].size <= SMALL_ROWS]
    large = [i for i in tables if subjects[i].size > SMALL_ROWS]
    groups = [small[start : start + TOGETHER] for start in range(0, len(small), TOGETHER)] + [[i] for i in large]
    counted: list[_Task] = [partial(_counted, subjects=[subjects[i] for i in group], past=past) for group in groups]
    looked: list[_Task] = [partial(_looked, subject=subject) for subject in subjects]
    answers = _in_threads(spark, [*counted, *looked])
    found: list[list[Finding]] = [[] for _ in subjects]
    for group, answer in zip(groups, answers, strict=False):
        for i, findings in zip(group, answer, strict=True):
            found[i] = findings
    return [[*first, *rest[0]] for first, rest in zip(found, answers[len(counted) :], strict=True)]


def _in_threads(spark: SparkSession, tasks: Sequence[_Task]) -> list[list[list[Finding]]]:
    """What the tasks find, each in a session that no other task uses meanwhile: their settings differ."""
    sessions: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()
    for session in worker_sessions(spark, min(THREADS, len(tasks))):
        sessions.put(session)

    def one(task: _Task) -> list[list[Finding]]:
        session = sessions.get()
        try:
            return task(session)
        finally:
            sessions.put(session)

    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        return list(pool.map(one, tasks))


def _counted(spark: SparkSession, subjects: Sequence[Subject], past: Past) -> list[list[Finding]]:
    size = max(subject.size for subject in subjects)
    set_pace(spark, size)
    look = Look(spark, size <= SMALL_ROWS)
    questions = [_questions(subject, look, past) for subject in subjects]
    everything = [question for mine in questions for question in mine]
    answers = iter(asked_together(everything) if look.is_small else [asked(question) for question in everything])
    return [[finding for _ in mine for finding in next(answers)] for mine in questions]


def _looked(spark: SparkSession, subject: Subject) -> list[list[Finding]]:
    set_pace(spark, subject.size)
    try:
        return [list(subject.measured(spark))]
    except Exception as error:
        return [[unjudged(Rule("judged", "judged"), error)]]


def _questions(subject: Subject, look: Look, past: Past) -> list[Question]:
    rules = [rule for rule in subject.rules if rule.kind in PASS_KINDS]
    changes = [rule for rule in subject.rules if rule.kind == "row_count_change"]
    found = list(subject.questions(look))
    if subject.rows is None or not (rules or changes):
        return found
    rows = partial(subject.rows, look.spark)
    counted = question_of(rows, rules, subject.keys, look)
    if changes:
        judged = partial(_row_counts, changes, past=past, subject=subject)
        counted = _both(counted, replace(question_of(rows, (), subject.keys, look), rules=tuple(changes), answer=judged))
    return [counted, *found]


def _both(question: Question, other: Question) -> Question:
    """One question instead of two whose counts begin alike; asked one by one where it cannot be counted."""
    if not question.rules:
        return other
    rules = (*question.rules, *other.rules)
    return replace(question, rules=rules, answer=lambda n: [*question.answer(n), *other.answer(n)], parts=(question, other))


def _row_counts(rules: Sequence[Rule], counts: Sequence[int], past: Past, subject: Subject) -> list[Finding]:
    return [_row_count(rule, counts[0], past, subject) for rule in rules]


def _row_count(rule: Rule, total: int, past: Past, subject: Subject) -> Finding:
    last = past.of(subject.place, rule.name)
    if last is None:
        return Finding(rule, total, 0, (), f"{total:,} rows, for the first time")
    change = abs(total - last.checked_count) * 100 / max(last.checked_count, 1)
    failed = int(rule.percent is not None and change > rule.percent)
    return Finding(rule, total, failed, (), f"{last.checked_count:,} rows before, {total:,} now ({change:.1f} %)")
