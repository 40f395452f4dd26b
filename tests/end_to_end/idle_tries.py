"""Runs that try to do without a session, although this process has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from framework.config.model import Config
from framework.pipeline import idle_run
from framework.pipeline.layer import LayerReport


@contextmanager
def without_open_session() -> Iterator[None]:
    """Runs inside of this do not see that there is a session."""
    with mock.patch.object(idle_run, "has_session", return_value=False):
        yield


def try_idle(config: Config, through: str = "gold") -> Sequence[LayerReport] | None:
    """What a run says that needs no session; None where it needs one."""
    with without_open_session():
        return idle_run.run_idle(config, "idle", through, None)
