"""What alerts say: the problems that stand, and those that are over. No key or value of a row is in them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from framework.config.alerts import Style, Topic

_SHOWN = 10
_HEADS = {1: "failed", 3: "ran, and found what is wrong"}


def subject(table: str, source: str | None) -> str:
    """A table for people, with its source, as another source may have a table of this name."""
    return f"{table} (source {source})" if source else table


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Attributes:
        kind: What it is about.
        table: The table; None where it concerns no one table.
        text: What is wrong; it may have counts that change while the problem stands.
        name: The same problem has the same name in every run; shown when it is over.
        layer: The layer that finds it; None for a run that failed before its end.
        source: The source of the table; None where there is no table.
    """

    kind: Topic
    table: str | None
    text: str
    name: str
    layer: str | None = None
    source: str | None = None

    @property
    def identity(self) -> str:
        """A short text that is the same for the same problem, and has nothing of it."""
        return hashlib.sha256(repr((str(self.kind), self.table, self.name)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """The content of an alert; `run_id` is None for a run that failed before it had one.

    `over` has the names of problems that were told before and are over. `test` is the text of a message that
    only tries a receiver.
    """

    pipeline: str
    run_id: str | None
    exit_code: int
    problems: tuple[Problem, ...]
    over: tuple[str, ...] = ()
    test: str = ""

    @property
    def digest(self) -> str:
        """A short text that changes with what the alert says."""
        said = (self.exit_code, sorted(problem.identity for problem in self.problems), sorted(self.over))
        return hashlib.sha256(repr(said).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """The alert in one line."""
        return f"mainstem {self.pipeline}: {self._head}"

    @property
    def text(self) -> str:
        """The alert for people, one line for each problem."""
        lines = [
            f"• {subject(problem.table, problem.source) + ': ' if problem.table else ''}{problem.text}"
            for problem in self.problems
        ]
        lines += [f"✓ right again: {name}" for name in self.over]
        more = [f"… and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
        run = f" (run {self.run_id})" if self.run_id else ""
        return "\n".join([f"{self.title}{run}", *lines[:_SHOWN], *more])

    def body(self, style: Style) -> dict[str, Any]:
        """The JSON object for a webhook."""
        if style is Style.SLACK:
            return {"text": self.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
        return {
            "pipeline": self.pipeline,
            "run_id": self.run_id,
            "exit_code": self.exit_code,
            "problems": [
                {"kind": str(each.kind), "table": each.table, "source": each.source, "text": each.text}
                for each in self.problems
            ],
            "over": list(self.over),
            "text": self.text,
        }

    @property
    def _head(self) -> str:
        if self.test:
            return self.test
        if self.exit_code:
            return _HEADS.get(self.exit_code, "failed") if self.problems else "a problem is over"
        return "messages are in quarantine" if self.problems else "all is well again"
