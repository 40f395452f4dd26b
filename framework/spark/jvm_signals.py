"""The JVM of a local session ends with the process that started it, and not by a signal of its own.

Who asks a service to end often asks all its processes: systemd, `timeout`, schedulers that end a process
group. A JVM that ends at once takes away the session in which the round at work is to be completed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_IS_STARTING = ContextVar("_IS_STARTING", default=False)


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that this thread starts meanwhile through Python code in the child ignore SIGTERM.

    PySpark starts the JVM so, and already lets it ignore SIGINT. The JVM ends when its standard input does:
    when the process that started it ends, whatever ends that one.
    """
    token = _IS_STARTING.set(True)
    try:
        yield
    finally:
        _IS_STARTING.reset(token)


def _ignore_sigterm() -> None:
    if _IS_STARTING.get():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ignore_sigterm)
