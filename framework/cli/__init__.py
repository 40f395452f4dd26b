"""The command line and its entry points, which import it on demand."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see `framework.cli.parser.main`."""
    from framework.cli import parser

    return parser.main(arguments)


def job(arguments: Sequence[str] | None = None) -> None:
    """Run one command as a task of a job; see `framework.cli.parser.job`."""
    from framework.cli import parser

    parser.job(arguments)


def step(arguments: Sequence[str] | None = None) -> None:
    """Run one command as a task of a job whose last task fails for it; see `framework.cli.parser.step`."""
    from framework.cli import parser

    parser.step(arguments)
