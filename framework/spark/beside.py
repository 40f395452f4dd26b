"""Work in a thread of its own beside a block of code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[], None], name: str) -> Iterator[None]:
    """Does this work in a thread with a name; at the end of the context the thread has ended.

    An error of the context goes on when the thread has ended. The work must catch its own.
    """
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
