"""Alerts: receivers are told of each problem of a run once, and when it is over.

An alert has names of tables, rules and counts, and no key or value of a row. A receiver that cannot be
reached does not change the exit code; the next run tells it.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from framework.config.alerts import Alert, Topic
from framework.config.model import Config
from framework.contracts.table_names import ALERTS_TABLE
from framework.errors import MainstemError, brief, place_of
from framework.lakehouse.lakehouse import Lakehouse, lakehouse_of
from framework.lakehouse.small_files import is_local, read_local_note, read_note, write_note
from framework.naming import dotted_name
from framework.observability.alert_memory import AlertMemory, Receiver, memory_of
from framework.observability.alert_message import AlertMessage, Problem, subject
from framework.observability.delivery import not_sent, send_all
from framework.observability.observers import note_of
from framework.observability.steps import type_of
from framework.pipeline.layer import LayerReport, Run
from framework.private_files import replace_text
from framework.spark.local_frame import local_frame
from framework.text.formatting import one_line, quantity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALERTS_SCHEMA = (
    "run_id string, sent_at timestamp, host string, exit_code int, problems int, digest string, "
    "failure string"
)
_NOTE = "alerts.memory"
_now = time.time
_LAYER = re.compile(r"layer (\w+)")


def problems_of(reports: Sequence[LayerReport]) -> list[Problem]:
    """The problems in the reports of the layers: errors, parked tables, failed rules of severity error."""
    errors = [_problem_of(error, report.layer) for report in reports for error in report.errors]
    parked = [
        Problem(
            Topic.PARKED,
            line.name,
            "parked",
            f"{subject(line.name, line.source)}: parked",
            report.layer,
            line.source,
        )
        for report in reports
        for line in report.tables
        if line.state == "PARKED"
    ]
    # a parked table also breaks the rule that the table is applied: it counts once
    stopped = {(problem.source, problem.table) for problem in parked}
    broken = []
    for report in reports:
        for result in report.failures:
            table = dotted_name(result.database, result.schema, result.table)
            if result.is_error and not (result.rule == "applied" and (result.source, table) in stopped):
                about = table or result.source or result.layer
                source = result.source if table else None
                text = f"{result.rule} ({result.failed_count:,} fail)"
                name = f"{subject(about, source)}: {result.rule}"
                broken.append(Problem(Topic.QUALITY, about, text, name, report.layer, source))
    return [*errors, *parked, *broken]


def _problem_of(error: Exception, layer: str | None) -> Problem:
    """The problem that an error is; one of bronze or silver that did not end the run stops a source."""
    kind = Topic.STOPPED if layer in ("bronze", "silver") else Topic.FAILED
    text = one_line(str(error) if isinstance(error, MainstemError) else brief(error))
    place = error.where if isinstance(error, MainstemError) else place_of(error)
    return Problem(kind, None, text, f"{type_of(error)}{f' ({one_line(place)})' if place else ''}", layer)


@dataclass(frozen=True, slots=True)
class _Draft:
    """What one receiver is to be told, and what is noted once it knows."""

    at: int
    alert: Alert
    message: AlertMessage
    note: Callable[[], None]


def is_quiet(work: Run) -> bool:
    """Whether a run without problems has nothing to tell to anybody."""
    if not work.config.alerts:
        return True
    kept = memory_of(_kept(work, f"{work.lake.checkpoints}/{_NOTE}"))
    return kept.is_empty and memory_of(_read(_failure_note(work.config, work.lake))).is_empty


def send_alerts(work: Run, reports: Sequence[LayerReport], exit_code: int) -> list[str]:
    """Tell each receiver what it does not know of a run: problems that are new, and those that are over.

    A problem is over when a run of all tables has looked for it in its layer and does not find it. A run of
    one table tells errors alone. Returns a note for each receiver that could not be reached.
    """
    alerts, lake = work.config.alerts, work.lake
    if not alerts:
        return []
    problems = problems_of(reports)
    layers: set[str | None] = {None}
    if work.table is None:
        layers |= {report.layer for report in reports if _has_looked(report)}
    else:
        problems = [one for one in problems if one.kind in (Topic.FAILED, Topic.STOPPED)]
    count = sum(report.counts.get("quarantined", 0) for report in reports)
    path = f"{lake.checkpoints}/{_NOTE}"
    kept, failures = _kept(work, path), _failure_note(work.config, lake)
    memory, failed = memory_of(kept), memory_of(_read(failures))
    if not problems and not count and memory.is_empty and failed.is_empty:
        return []
    receivers = [memory.receiver(alert) for alert in alerts]
    memory.keep(receivers)
    drafts = []
    for at, (alert, receiver) in enumerate(zip(alerts, receivers, strict=True)):
        message = AlertMessage(work.config.pipeline, work.run_id, exit_code, ())
        if not work.config.is_judged:
            receiver.forget(Topic.QUALITY)
        if Topic.QUARANTINE in alert.about:
            receiver.quarantined += count
        before = Receiver() if failed.is_empty else failed.receiver(alert)
        draft = _draft((at, alert, message), (receiver, before), problems, layers)
        drafts += [] if draft is None else [draft]
    sent = _deliver(drafts)
    if memory.text() != kept and not (kept is None and memory.is_empty):
        with suppress(Exception):  # without it, the next run tells again
            write_note(work.spark, path, memory.text())
    _write(failures, failed)
    _log(work.spark, lake, sent)
    return _notes(sent)


def _has_looked(report: LayerReport) -> bool:
    """Whether a layer has looked for all its problems; the quality step judges nothing where it fails."""
    return report.layer != "quality" or not report.errors


def _draft(
    to: tuple[int, Alert, AlertMessage],
    known: tuple[Receiver, Receiver],
    problems: Sequence[Problem],
    layers: Container[str | None],
) -> _Draft | None:
    """What a receiver is to be told; None where it knows everything.

    It knows of problems of runs that came to their end, and of runs that failed before.
    """
    (at, alert, message), (receiver, failures), now = to, known, _now()
    mine = [problem for problem in problems if problem.kind in alert.about]
    over = receiver.over(problems, layers) | failures.over((), layers)
    is_due = receiver.is_due(now)
    if not (receiver.news(mine) or over or is_due):
        return None
    quarantined = f"{quantity(receiver.quarantined, 'message', 'messages')} more in quarantine"
    others = [Problem(Topic.QUARANTINE, None, quarantined, "quarantine")] if is_due else []
    names = tuple(dict.fromkeys(told.name for told in over.values()))

    def note() -> None:
        receiver.note(mine, over)
        failures.note((), over)
        if is_due:
            receiver.quarantined, receiver.quarantine_told = 0, now

    return _Draft(at, alert, replace(message, problems=(*mine, *others), over=names), note)


def send_failure_alerts(config: Config, error: Exception) -> list[str]:
    """Tell that a run has failed before its end, once for the same error until a run comes to its end.

    Returns notes as `send_alerts` does.
    """
    if not config.alerts:
        return []
    layer = _LAYER.match(place_of(error) or "")
    problem = replace(_problem_of(error, None), layer=layer[1] if layer else None)
    code = error.exit_code if isinstance(error, MainstemError) else 1
    path = _failure_note(config, lakehouse_of(config))
    failed, drafts = memory_of(_read(path)), []
    for at, alert in enumerate(config.alerts):
        receiver = failed.receiver(alert)
        if Topic.FAILED in alert.about and receiver.news([problem]):
            message = AlertMessage(config.pipeline, None, code, (problem,))
            drafts.append(_Draft(at, alert, message, partial(receiver.note, [problem], ())))
    sent = _deliver(drafts)
    _write(path, failed)
    return _notes(sent)


def send_test_alerts(config: Config) -> list[tuple[Alert, MainstemError | None]]:
    """Send each receiver a message that says it is a test; returns them with what failed, or None."""
    text = "a test: whoever reads this is told of problems"
    message = AlertMessage(config.pipeline, None, 0, (), test=text)
    sent = _deliver([_Draft(at, alert, message, lambda: None) for at, alert in enumerate(config.alerts)])
    return [(d.alert, None if failure is None else not_sent(d.alert, d.at, failure)) for d, failure in sent]


_Sent = Sequence[tuple[_Draft, str | None]]


def _deliver(drafts: Sequence[_Draft]) -> _Sent:
    """Send the messages; who has got one knows of it."""
    failures = send_all([(draft.alert, draft.message) for draft in drafts])
    for draft, failure in zip(drafts, failures, strict=True):
        if failure is None:
            draft.note()
    return list(zip(drafts, failures, strict=True))


def _notes(sent: _Sent) -> list[str]:
    return [note_of(not_sent(d.alert, d.at, failure)) for d, failure in sent if failure is not None]


def _log(spark: SparkSession, lake: Lakehouse, sent: _Sent) -> None:
    """Write into `ops/alerts` what was sent."""
    if not sent:
        return
    from pyspark.sql import functions as F

    rows = [
        (m.run_id, None, draft.alert.host, m.exit_code, len(m.problems), m.digest, failure)
        for draft, failure in sent
        for m in (draft.message,)
    ]
    frame = local_frame(spark, rows, ALERTS_SCHEMA).withColumn("sent_at", F.current_timestamp())
    lake.create(spark, ALERTS_TABLE, ALERTS_SCHEMA)
    lake.append(frame.coalesce(1), ALERTS_TABLE)


def _failure_note(config: Config, lake: Lakehouse) -> Path:
    """The file with what receivers know of runs that failed before their end.

    Such a run has no session and no lease, so the file is another one, and on this machine.
    """
    name = f"alerts-failed-{config.pipeline}.memory"
    if is_local(lake.checkpoints):
        return Path(lake.checkpoints, name)
    place = hashlib.sha256(lake.checkpoints.encode()).hexdigest()[:16]
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state, "mainstem", place, name)


def _kept(work: Run, path: str) -> str | None:
    try:
        return read_note(work.spark, path)
    except Exception:  # what cannot be read is as good as gone
        return None


def _read(path: Path) -> str | None:
    try:
        return read_local_note(str(path))
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path, memory: AlertMemory) -> None:
    """Keep a memory, where the file can be written; without it, a failure is told again."""
    with suppress(OSError):
        if not memory.is_empty:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(path, memory.text())
        elif path.exists():
            path.unlink()
