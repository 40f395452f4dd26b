"""Alerts: who is named in the configuration hears of a run that failed or found what is wrong, once, and when it is right again.

What is told names tables, rules and counts, and no key or value of a row. A webhook that cannot be reached changes no exit code.
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.config_alerts import Alert, Style
from framework.errors import MainstemError, brief
from framework.layer import LayerReport, Run
from framework.names import dotted_name
from framework.quality.log import is_error
from framework.tables import Lakehouse
from framework.words import one_line

ALERTS_TABLE = "ops/alerts"
_SCHEMA = "run_id string, sent_at timestamp, host string, exit_code int, problems int, digest string, failure string"
_SECONDS = 10
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `kind` is error, parked or rule; `table` None where it concerns no one table."""

    kind: str
    table: str | None
    text: str


@dataclass(frozen=True, slots=True)
class News:
    """What is told of a run; `run_id` None of one that ended before it had one."""

    pipeline: str
    run_id: str | None
    exit_code: int
    problems: tuple[Problem, ...]

    @property
    def digest(self) -> str:
        """A short text that changes with what is wrong."""
        return hashlib.sha256(repr((self.exit_code, sorted(map(repr, self.problems)))).encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The same for people, a line a problem."""
        head = {0: "all is well again", 1: "failed", 3: "ran, and found what is wrong"}.get(self.exit_code, "failed")
        lines = [f"• {problem.table + ': ' if problem.table else ''}{problem.text}" for problem in self.problems[:_SHOWN]]
        more = [f"… and {len(self.problems) - _SHOWN:,} more"] if len(self.problems) > _SHOWN else []
        run = f" (run {self.run_id})" if self.run_id else ""
        return "\n".join([f"mainstem {self.pipeline}: {head}{run}", *lines, *more])


def news_of(pipeline: str, run_id: str, reports: Sequence[LayerReport], exit_code: int) -> News:
    """What the layers' reports come to: errors, parked tables, failed rules of severity error."""
    errors = [Problem("error", None, one_line(str(error))) for report in reports for error in report.errors]
    parked = [Problem("parked", line.name, "parked") for report in reports for line in report.tables if line.state == "PARKED"]
    stopped = {problem.table for problem in parked}  # which breaks the rule that the table is applied: told once
    broken = [
        Problem("rule", dotted_name(r.database, r.schema, r.table) or r.source or r.layer, f"{r.rule} ({r.failed_count:,} fail)")
        for report in reports
        for r in report.failures
        if is_error(r) and not (r.rule == "applied" and dotted_name(r.database, r.schema, r.table) in stopped)
    ]
    return News(pipeline, run_id, exit_code, (*errors, *parked, *broken))


def tell(work: Run, reports: Sequence[LayerReport], exit_code: int) -> list[str]:
    """Send what is wrong, unless it was sent before; and once that it is right again. Only whole runs know whether it is.

    Returns a note for each webhook that could not be reached.
    """
    alerts = work.config.alerts
    is_whole = bool(reports) and reports[-1].layer == "quality" and work.table is None
    if not alerts or not (is_whole or exit_code == 1):
        return []
    news = news_of(work.config.pipeline, work.run_id, reports, exit_code)
    last = _last(work.spark, work.lake)
    if news.digest == last or (last is None and not exit_code):
        return []
    sent = [(alert.host, send(alert, news)) for alert in alerts]
    rows = [(news.run_id, None, host, exit_code, len(news.problems), news.digest, failure) for host, failure in sent]
    frame = work.spark.createDataFrame(rows, _SCHEMA).withColumn("sent_at", F.current_timestamp())
    work.lake.create(work.spark, ALERTS_TABLE, _SCHEMA)
    work.lake.append(frame.coalesce(1), ALERTS_TABLE)
    return _notes(sent)


def tell_failure(config: Config, error: Exception) -> list[str]:
    """Send that a run has ended before it could say what it found; returns notes as `tell` does."""
    text = one_line(str(error) if isinstance(error, MainstemError) else brief(error))
    code = error.exit_code if isinstance(error, MainstemError) else 1
    news = News(config.pipeline, None, code, (Problem("error", None, text),))
    return _notes([(alert.host, send(alert, news)) for alert in config.alerts])


def send(alert: Alert, news: News) -> str | None:
    """Post the news; returns what went wrong where it could not be, without the address."""
    body = json.dumps(_body(alert.style, news), ensure_ascii=False).encode()
    request = urllib.request.Request(alert.webhook, body, {"Content-Type": "application/json; charset=utf-8"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS):
            return None
    except Exception as error:  # an address that does not answer is no reason to fail a run
        return f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__


def _notes(sent: Sequence[tuple[str, str | None]]) -> list[str]:
    return [f"the alert to {host} was not sent: {failure}" for host, failure in sent if failure is not None]


def _body(style: Style, news: News) -> dict[str, Any]:
    if style is Style.SLACK:
        return {"text": news.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    return {**asdict(news), "text": news.text}


def _last(spark: SparkSession, lake: Lakehouse) -> str | None:
    """What was last told, None where nothing ever was; what reached nobody was not."""
    if not lake.exists(spark, ALERTS_TABLE):
        return None
    row = lake.read(spark, ALERTS_TABLE).where("failure IS NULL").agg(F.max_by("digest", "sent_at")).first()
    return str(row[0]) if row and row[0] is not None else None
