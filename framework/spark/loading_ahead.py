"""Imports in a thread what a command needs next, while it waits for the JVM to start."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from importlib import import_module

from framework.spark.beside import beside


def loading_ahead(modules: Sequence[str]) -> AbstractContextManager[None]:
    """Import these modules in a thread meanwhile; at the end of the context it has ended.

    So no module is half loaded in one thread while another one uses it. An import that fails is left out: it
    fails again where the module is needed.
    """
    return beside(partial(_load, tuple(modules)), "imports") if modules else nullcontext()


def _load(modules: Sequence[str]) -> None:
    for name in modules:
        with suppress(BaseException):
            import_module(name)
