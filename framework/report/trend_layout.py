"""The last runs as bars. Pure. Lengths are shares of the drawing, in percent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from framework.report.model import Report
from framework.text.formatting import moment, number, short_number, span


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a trend; `height` is a share of the greatest, and `is_marked` one that needs attention."""

    x: float
    width: float
    y: float
    height: float
    title: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Trend:
    """Bars over time, oldest first, with title, newest value, greatest value, first and last time."""

    title: str
    newest: str
    greatest: str
    first: str
    last: str
    bars: tuple[Bar, ...]
    kind: str = "plain"


def trends(report: Report) -> list[Trend]:
    """The trends of the last runs; none for fewer than two runs."""
    runs = list(reversed(report.runs))
    if len(runs) < 2:
        return []
    at = [run.finished_at for run in runs]
    found = [
        _trend("Messages", at, [run.counts.get("messages", 0) for run in runs]),
        _trend("Changes applied", at, [run.counts.get("applied", 0) for run in runs]),
        _trend("Late changes", at, [sum(table.late for table in run.tables) for run in runs], kind="warn"),
        _trend("Quarantined", at, [run.counts.get("quarantined", 0) for run in runs], kind="warn"),
        _trend(
            "Parked or failed",
            at,
            [_troubles(run.outcome, [t.state for t in run.tables]) for run in runs],
            kind="fail",
        ),
    ]
    timed = [run for run in runs if run.seconds is not None]
    if len(timed) > 1:
        found.insert(
            2,
            _trend(
                "Duration",
                [run.finished_at for run in timed],
                [run.seconds or 0.0 for run in timed],
                kind="time",
            ),
        )
    if len(report.verdicts) > 1:
        verdicts = list(reversed(report.verdicts))
        found.append(
            _trend(
                "Failed checks",
                [v.started_at for v in verdicts],
                [v.errors + v.warnings for v in verdicts],
                kind="fail",
            )
        )
    landed = [batch for batch in reversed(report.batches) if batch.newest_event_at is not None]
    if len(landed) > 1:
        delays = [
            max((b.landed_at - (b.newest_event_at or b.landed_at)).total_seconds(), 0.0) for b in landed
        ]
        found.append(
            _trend("Delay from event to landing", [batch.landed_at for batch in landed], delays, kind="time")
        )
    return found


def _troubles(outcome: str, states: Sequence[str]) -> int:
    return max(sum(state == "PARKED" for state in states), int(outcome == "failed"))


def _trend(title: str, times: Sequence[datetime], values: Sequence[float], kind: str = "plain") -> Trend:
    greatest = max(values)
    say = span if kind == "time" else short_number
    step = 100 / max(len(values), 12)
    bars = []
    for at, value in enumerate(values):
        height = 0.0 if greatest <= 0 else max(value / greatest * 100, 1.5 if value > 0 else 0.0)
        exact = span(value) if kind == "time" else number(round(value))
        bars.append(
            Bar(
                round(at * step, 3),
                round(step * 0.72, 3),
                round(100 - height, 2),
                round(height, 2),
                f"{moment(times[at])}  {exact}",
            )
        )
    return Trend(
        title,
        say(values[-1]),
        say(greatest),
        moment(times[0])[:10],
        moment(times[-1])[:10],
        tuple(bars),
        kind,
    )
