"""Repeats a run until a signal asks it to end; the current round is finished first."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def repeat(work: Callable[[], int], every: timedelta, ended: threading.Event) -> int:
    """Repeat a run and return the exit code of its last round.

    Rounds start `every` apart; the next one starts at once after one that takes longer. An exception ends the
    loop: a round can always be repeated.
    """
    while True:
        started = time.monotonic()
        code = work()
        left = every.total_seconds() - (time.monotonic() - started)
        if ended.wait(max(left, 0)):
            return code


@contextmanager
def until_asked_to_end() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second signal acts as usual. Only for the main thread."""
    ended = threading.Event()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        ended.set()
        for other, handler in before.items():
            signal.signal(other, handler)

    for number in _SIGNALS:
        signal.signal(number, ask)
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
