"""Asks several receivers at once, for a limited time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence


def answers_in_time(
    sends: Sequence[Callable[[], str | None]], most_seconds: float, name: str
) -> list[str | None]:
    """Call each of them in a thread of this name; returns in their order why that failed, or None.

    What does not return by then is given up: the time limit of a connection starts again with each byte. They
    must not raise.
    """
    answers: list[str | None] = [f"no answer within {most_seconds:g} s"] * len(sends)
    limit = time.monotonic() + most_seconds

    def ask(at: int) -> None:
        answers[at] = sends[at]()

    threads = [threading.Thread(target=ask, args=(at,), name=name, daemon=True) for at in range(len(sends))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(limit - time.monotonic(), 0))
    return list(answers)
