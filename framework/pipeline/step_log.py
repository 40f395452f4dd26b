"""The step log: one JSON line for each step on standard error, on demand, and never with a payload."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_LOGGER = logging.getLogger("mainstem.steps")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


def show_steps(stream: TextIO | None = None) -> None:
    """Write the steps from now on to `stream`, by default standard error; a repeated call adds nothing."""
    target = stream or sys.stderr
    if any(
        isinstance(handler, logging.StreamHandler) and handler.stream is target
        for handler in _LOGGER.handlers
    ):
        return
    handler = logging.StreamHandler(target)
    handler.setFormatter(_JsonLine())
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)


def log_step(step: str, **facts: str | int | float | bool | None) -> None:
    """Log a completed step; facts are names and numbers, never keys, row values, payloads or secrets."""
    _LOGGER.info(step, extra={"facts": facts})


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = (
            datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
        facts = getattr(record, "facts", {})
        return json.dumps({"time": moment, "step": record.getMessage(), **facts}, ensure_ascii=False)
