"""Alerts: webhooks receive the problems of a run once, and a message when they are over.

An alert has names of tables, rules and counts, and no key or value of a row. A webhook that cannot be reached
does not change the exit code.
"""

from __future__ import annotations

import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from framework.config.alerts import Alert, Style
from framework.config.model import Config
from framework.contracts.table_names import ALERTS_TABLE
from framework.errors import MainstemError, brief
from framework.lakehouse.lakehouse import Lakehouse
from framework.naming import dotted_name
from framework.pipeline.layer import LayerReport, Run
from framework.text.formatting import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALERTS_SCHEMA = (
    "run_id string, sent_at timestamp, host string, exit_code int, problems int, digest string, "
    "failure string"
)
_SECONDS = 10
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: `kind` is error, parked or rule; `table` is None where it concerns no one table.

    `ops/alerts` holds a digest of the text of problems: a new name of this class or of a field changes it.
    """

    kind: str
    table: str | None
    text: str


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """The content of an alert; `run_id` is None for a run that failed before it had one."""

    pipeline: str
    run_id: str | None
    exit_code: int
    problems: tuple[Problem, ...]

    @property
    def digest(self) -> str:
        """A short text that changes with the problems."""
        return hashlib.sha256(repr((self.exit_code, sorted(map(repr, self.problems)))).encode()).hexdigest()[
            :16
        ]

    @property
    def text(self) -> str:
        """The alert for people, one line for each problem."""
        head = {0: "all is well again", 1: "failed", 3: "ran, and found what is wrong"}.get(
            self.exit_code, "failed"
        )
        lines = [
            f"• {problem.table + ': ' if problem.table else ''}{problem.text}"
            for problem in self.problems[:_SHOWN]
        ]
        more = [f"… and {len(self.problems) - _SHOWN:,} more"] if len(self.problems) > _SHOWN else []
        run = f" (run {self.run_id})" if self.run_id else ""
        return "\n".join([f"mainstem {self.pipeline}: {head}{run}", *lines, *more])


def message_of(pipeline: str, run_id: str, reports: Sequence[LayerReport], exit_code: int) -> AlertMessage:
    """The problems in the reports of the layers: errors, parked tables, failed rules of severity error."""
    errors = [Problem("error", None, one_line(str(error))) for report in reports for error in report.errors]
    parked = [
        Problem("parked", line.name, "parked")
        for report in reports
        for line in report.tables
        if line.state == "PARKED"
    ]
    # a parked table also breaks the rule that the table is applied: it counts once
    stopped = {problem.table for problem in parked}
    broken = [
        Problem(
            "rule",
            dotted_name(r.database, r.schema, r.table) or r.source or r.layer,
            f"{r.rule} ({r.failed_count:,} fail)",
        )
        for report in reports
        for r in report.failures
        if r.is_error and not (r.rule == "applied" and dotted_name(r.database, r.schema, r.table) in stopped)
    ]
    return AlertMessage(pipeline, run_id, exit_code, (*errors, *parked, *broken))


def send_alerts(work: Run, reports: Sequence[LayerReport], exit_code: int) -> list[str]:
    """Send the problems of a run, unless the last alert was the same, and once that they are over.

    Only a run of all layers and tables knows that. Returns a note for each webhook that could not be reached.
    """
    alerts = work.config.alerts
    is_whole = bool(reports) and reports[-1].layer == "quality" and work.table is None
    if not alerts or not (is_whole or exit_code == 1):
        return []
    message = message_of(work.config.pipeline, work.run_id, reports, exit_code)
    last = _last_digest(work.spark, work.lake)
    if message.digest == last or (last is None and not exit_code):
        return []
    sent = [(alert.host, send(alert, message)) for alert in alerts]
    rows = [
        (message.run_id, None, host, exit_code, len(message.problems), message.digest, failure)
        for host, failure in sent
    ]
    from pyspark.sql import functions as F

    frame = work.spark.createDataFrame(rows, ALERTS_SCHEMA).withColumn("sent_at", F.current_timestamp())
    work.lake.create(work.spark, ALERTS_TABLE, ALERTS_SCHEMA)
    work.lake.append(frame.coalesce(1), ALERTS_TABLE)
    return _notes(sent)


def send_failure_alerts(config: Config, error: Exception) -> list[str]:
    """Send that a run has failed before its end; returns notes as `send_alerts` does."""
    text = one_line(str(error) if isinstance(error, MainstemError) else brief(error))
    code = error.exit_code if isinstance(error, MainstemError) else 1
    message = AlertMessage(config.pipeline, None, code, (Problem("error", None, text),))
    return _notes([(alert.host, send(alert, message)) for alert in config.alerts])


def send(alert: Alert, message: AlertMessage) -> str | None:
    """Post an alert; returns why that failed, without the address, or None."""
    body = json.dumps(_body(alert.style, message), ensure_ascii=False).encode()
    request = urllib.request.Request(alert.webhook, body, {"Content-Type": "application/json; charset=utf-8"})
    answers: list[str | None] = []
    posting = threading.Thread(target=lambda: answers.append(_post(request)), name="alert", daemon=True)
    posting.start()
    posting.join(_SECONDS)  # the timeout of a connection starts again with each byte
    return answers[0] if answers else f"no answer within {_SECONDS} s"


def _post(request: urllib.request.Request) -> str | None:
    try:
        with _OPENER.open(request, timeout=_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        moved = ", the address leads to another one: write that" if 300 <= error.code < 400 else ""
        return f"HTTP {error.code}{moved}"
    except Exception as error:  # a webhook that does not answer must not fail a run
        return type(error).__name__


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the redirected request would have no body, and count as sent."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """Returns None, so that the redirect is the answer."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def _notes(sent: Sequence[tuple[str, str | None]]) -> list[str]:
    return [f"the alert to {host} was not sent: {failure}" for host, failure in sent if failure is not None]


def _body(style: Style, message: AlertMessage) -> dict[str, Any]:
    if style is Style.SLACK:
        return {"text": message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    return {**asdict(message), "text": message.text}


def _last_digest(spark: SparkSession, lake: Lakehouse) -> str | None:
    """The digest of the last alert that reached a webhook, None if none ever did."""
    from pyspark.sql import functions as F

    if not lake.exists(spark, ALERTS_TABLE):
        return None
    row = lake.read(spark, ALERTS_TABLE).where("failure IS NULL").agg(F.max_by("digest", "sent_at")).first()
    return str(row[0]) if row and row[0] is not None else None
