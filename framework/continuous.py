"""Rounds of a run, one after the other, until a signal asks for the end: the round then running is finished first."""

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
    """The exit code of the last round. Rounds begin `every` apart; one that takes longer is followed at once.

    What a round raises ends the loop: a round can always be repeated.
    """
    while True:
        started = time.monotonic()
        code = work()
        left = every.total_seconds() - (time.monotonic() - started)
        if ended.wait(max(left, 0)):
            return code


@contextmanager
def until_asked_to_end() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second signal does what it does elsewhere. For the main thread alone."""
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
