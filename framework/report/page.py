"""The report as one HTML page: no request leaves it, and whatever messages held is text in it. Pure, but for its own assets."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from framework import words
from framework.contracts.quality import QualityResult
from framework.names import dotted_name
from framework.report.facts import findings, level, source_facts, table_facts, totals
from framework.report.flow import flow
from framework.report.records import Refused, Report
from framework.report.trends import trends

_ASSETS = Path(__file__).resolve().parent / "assets"
_VERDICTS = {
    "ok": "All is well",
    "warn": "Worth a look",
    "fail": "Needs attention",
    "empty": "Nothing has run yet",
}
_PREVIEW = 220


def html(report: Report) -> str:
    """The page. It needs no network, runs its one script only where scripts may run, and reads well without."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    found = findings(report)
    checks = report.checks or ()
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            report=report,
            style=Markup(style),
            script=Markup(script),
            policy=policy,
            level=level(report),
            verdict=_VERDICTS[level(report)],
            findings=found,
            totals=totals(report),
            tables=table_facts(report),
            sources=source_facts(report),
            flow=flow(report),
            trends=trends(report),
            failed=_by_severity([check for check in checks if not check.success]),
            passed=sorted((check for check in checks if check.success), key=_order),
            samples=_by_reason(report.refused),
            days=_by_day(report),
        )
    )


def shown(text: object) -> Markup:
    """Foreign text, escaped, and what cannot be seen in it by name; it never changes the direction of what is around it."""
    return Markup("<bdi>{}</bdi>").format(_spelled(str(text)))


def raw(text: str) -> Markup:
    """Foreign text in a block of its own, line by line."""
    return _spelled(text)


def preview(text: str) -> Markup:
    """The beginning of foreign text on one line."""
    start = text[:_PREVIEW].replace("\n", " ").replace("\t", " ")
    return Markup("<bdi>{}</bdi>").format(_spelled(start) + ("…" if len(text) > _PREVIEW else ""))


def _spelled(text: str) -> Markup:
    return Markup("").join(Markup("<i class=u>{}</i>").format(piece) if is_name else escape(piece) for piece, is_name in words.pieces(text))


def _by_severity(checks: Sequence[QualityResult]) -> list[tuple[str, list[QualityResult]]]:
    """Failed checks, errors first, then the other severities by name; last those that could not be judged."""

    def group(check: QualityResult) -> str:
        return "not judged" if check.success is None else check.severity

    order = sorted(checks, key=lambda c: (c.success is None, group(c) != "error", group(c), -c.failed_count, _order(c)))
    return [(name, list(some)) for name, some in groupby(order, key=group)]


def _order(check: QualityResult) -> tuple[str, ...]:
    return subject(check), check.layer, check.rule


def subject(check: QualityResult) -> str:
    """What a check is about: the table's dotted name, else its source."""
    return dotted_name(check.database, check.schema, check.table) or check.source or ""


def _by_reason(samples: Sequence[Refused]) -> dict[tuple[str, str], list[Refused]]:
    found: defaultdict[tuple[str, str], list[Refused]] = defaultdict(list)
    for sample in samples:
        found[sample.source, sample.reason].append(sample)
    return found


def _by_day(report: Report) -> list[tuple[str, list[object]]]:
    """The schema changes by the day on which they happened, newest first as they come."""

    def day(happened: datetime | None) -> str:
        return "No time" if happened is None else words.moment(happened)[:10]

    return [(name, list(some)) for name, some in groupby(report.schema_changes, key=lambda change: day(change.happened_at))]


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    found = Environment(loader=FileSystemLoader(_ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters.update(
        shown=shown, raw=raw, preview=preview, n=words.number, short=words.short_number, moment=words.moment, span=words.span,
        size=words.byte_size, one_line=words.one_line, subject=subject,
    )  # fmt: skip
    return found


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
