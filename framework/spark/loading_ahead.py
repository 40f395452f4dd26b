"""Imports in a thread what a command needs next, while it waits for the JVM to start."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module


@contextmanager
def loading_ahead(modules: Sequence[str]) -> Iterator[None]:
    """Import these modules in a thread meanwhile; at the end of the context it has ended.

    So no module is half loaded in one thread while another one uses it. An import that fails is left out: it
    fails again where the module is needed.
    """
    if not modules:
        yield
        return
    thread = threading.Thread(target=_load, args=(tuple(modules),), daemon=True, name="imports")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _load(modules: Sequence[str]) -> None:
    for name in modules:
        with suppress(BaseException):
            import_module(name)
