"""Sends an alert to all its receivers at once, with repetitions, within a limited time."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import partial

from framework.config.alerts import Alert
from framework.errors import MainstemError
from framework.observability.alert_message import AlertMessage
from framework.observability.in_time import answers_in_time

MOST_SECONDS = 20.0
"""How long all receivers together may hold a run, with all repetitions."""
PAUSES = (1.0, 3.0)
"""The seconds before each repetition."""
_REQUEST_SECONDS = 10.0
_ANSWER = re.compile(r"\berror=(\d{3})\b")

APPRISE_MISSING = "apprise is not installed"


class _Refused(Exception):
    """The receiver does not take the alert, and a repetition would change nothing."""


def send_all(messages: Sequence[tuple[Alert, AlertMessage]]) -> list[str | None]:
    """Send each receiver its message; returns in their order why that failed (no address), or None."""
    limit = time.monotonic() + MOST_SECONDS
    sends = [partial(_repeated, alert, message, limit) for alert, message in messages]
    return answers_in_time(sends, MOST_SECONDS, "alert")


def not_sent(alert: Alert, at: int, failure: str) -> MainstemError:
    """The warning for an alert that was not sent; `at` is the receiver's place in the configuration."""
    if failure == APPRISE_MISSING:
        action = (
            "install Mainstem's extra `alerts`, for instance `pip install 'apprise>=1.9,<2'` beside it, "
            "or write `webhook:`"
        )
    else:
        action = "check the address, and try it with `mainstem alerts --test`; the next run sends it again"
    return MainstemError(
        "ALERT_NOT_SENT",
        found=f"the alert to {alert.host} was not sent: {failure}",
        where=f"alerts[{at}]",
        action=action,
    )


def _repeated(alert: Alert, message: AlertMessage, limit: float) -> str | None:
    """Send until it succeeds, is refused, or the time is over; returns the last failure."""
    for pause in (*PAUSES, None):
        try:
            failure = _post(alert, message) if alert.webhook is not None else _notify(alert, message)
        except _Refused as refused:
            return str(refused)
        except Exception as error:  # a receiver that does not answer must not fail a run
            failure = _cause(error)
        if failure is None or pause is None or time.monotonic() + pause >= limit:
            return failure
        time.sleep(pause)
    return None


def _cause(error: Exception) -> str:
    """What failed, without the address: the system's words for it where it has any."""
    reason = getattr(error, "reason", None)  # of an error of urllib
    cause = reason if isinstance(reason, Exception) else error
    words = cause.strerror if isinstance(cause, OSError) else None
    return f"{type(cause).__name__}: {words}" if words else type(cause).__name__


def _post(alert: Alert, message: AlertMessage) -> str | None:
    body = json.dumps(message.body(alert.style), ensure_ascii=False).encode()
    request = urllib.request.Request(alert.address, body, {"Content-Type": "application/json; charset=utf-8"})
    try:
        with _OPENER.open(request, timeout=_REQUEST_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        if 300 <= error.code < 400:
            raise _Refused(f"HTTP {error.code}, the address leads to another one: write that") from None
        if error.code < 500 and error.code not in (408, 425, 429):
            raise _Refused(f"HTTP {error.code}") from None
        return f"HTTP {error.code}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the redirected request would have no body, and count as sent."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """Returns None, so that the redirect is the answer."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def _notify(alert: Alert, message: AlertMessage) -> str | None:
    try:
        from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
    except ImportError:
        raise _Refused(APPRISE_MISSING) from None
    kinds = {0: NotifyType.SUCCESS, 1: NotifyType.FAILURE}
    with _Log() as log:
        sender = Apprise(asset=AppriseAsset(app_id="mainstem", async_mode=False))
        if not sender.add(alert.address):
            raise _Refused("the address is none that Apprise knows, or lacks a part")
        is_sent = sender.notify(
            title=message.title,
            body=message.text,
            body_format=NotifyFormat.TEXT,
            notify_type=kinds.get(message.exit_code, NotifyType.WARNING),
        )
    return None if is_sent else log.problem


class _Log(logging.Handler):
    """Takes what Apprise logs in one thread: addresses may be in it, and one warning of ours says it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.problem = "Apprise could not send it"
        self._thread = threading.get_ident()
        self._logger = logging.getLogger("apprise")

    def __enter__(self) -> _Log:
        self._logger.propagate = False  # and stays so: other threads may still be sending
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the code of an HTTP answer."""
        found = _ANSWER.search(record.getMessage())
        if found is not None and record.thread == self._thread:
            self.problem = f"HTTP {found[1]}"
