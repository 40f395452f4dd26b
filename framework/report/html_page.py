"""The report as one HTML page without requests, in which text of messages is only text. Pure."""

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

from framework.contracts.quality import QualityResult
from framework.naming import dotted_name
from framework.report.check_text import claim, failing_key, outcome
from framework.report.flow_layout import flow
from framework.report.model import Refused, Report
from framework.report.queries import MAX_CHECKS
from framework.report.summary import findings, level, source_facts, totals
from framework.report.table_panels import shown_tables
from framework.report.trend_layout import trends
from framework.text import formatting
from framework.text.positions import place_text

_ASSETS = Path(__file__).resolve().parent / "assets"
_VERDICTS = {
    "ok": "All is well",
    "warn": "Worth a look",
    "fail": "Needs attention",
    "empty": "Nothing has run yet",
}
_PREVIEW = 220
_MOST_CHECKS = 500
GENERATOR = '<meta name="generator" content="Mainstem '
"""In the head of every page, so that a report differs from other files."""


def html(report: Report) -> str:
    """The page. It needs no network, and reads well where its one script does not run."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    found, sums = findings(report), totals(report)
    failed_count = sums.checks_failed + sums.checks_warned + sums.checks_unjudged
    failed = [check for check in report.checks or () if not check.success]
    passed = sorted((check for check in report.checks or () if check.success), key=_order)
    shown_of = shown_tables(report)
    formats = {source.name: source.format for source in report.sources}
    files = {source.name for source in report.sources if source.reads == "files"}
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
            totals=sums,
            tables=shown_of.tables,
            more_tables=shown_of.more,
            table_count=len(report.tables),
            panels=shown_of.panels,
            anchors={(p.facts.table.table_key): p.anchor for p in shown_of.panels},
            sources=source_facts(report),
            flow=flow(report),
            trends=trends(report),
            failed=_by_severity(failed),
            passed=passed[:_MOST_CHECKS],
            failed_count=failed_count,
            passed_count=sums.checks_passed,
            check_count=failed_count + sums.checks_passed,
            most_checks=MAX_CHECKS,
            more_bad_values=sum(more.rows for more in report.more_bad_values),
            outcome=lambda check: outcome(check, formats.get(check.source or "", "")),
            place=lambda source, item: place_text(
                item.topic, item.partition, item.offset, is_file=source in files
            ),
            samples=_by_reason(report.refused),
            days=_by_day(report),
        )
    )


def shown(text: object) -> Markup:
    """Foreign text, escaped, with invisible characters by name; it cannot change the text around it."""
    return Markup("<bdi>{}</bdi>").format(_spelled(str(text)))


def raw(text: str) -> Markup:
    """Foreign text in a block of its own, line by line."""
    return _spelled(text)


def preview(text: str) -> Markup:
    """The beginning of foreign text on one line."""
    start = text[:_PREVIEW].replace("\n", " ").replace("\t", " ")
    return Markup("<bdi>{}</bdi>").format(_spelled(start) + ("…" if len(text) > _PREVIEW else ""))


def _spelled(text: str) -> Markup:
    return Markup("").join(
        Markup("<i class=u>{}</i>").format(piece) if is_name else escape(piece)
        for piece, is_name in formatting.pieces(text)
    )


def _by_severity(checks: Sequence[QualityResult]) -> list[tuple[str, list[QualityResult]]]:
    """Failed checks: errors first, then the other severities by name, last those that were not judged."""

    def group(check: QualityResult) -> str:
        return "not judged" if check.success is None else check.severity

    order = sorted(
        checks, key=lambda c: (c.success is None, group(c) != "error", group(c), -c.failed_count, _order(c))
    )
    return [(name, list(some)) for name, some in groupby(order[:_MOST_CHECKS], key=group)]


def _order(check: QualityResult) -> tuple[str, ...]:
    return subject(check), check.layer, check.rule


def subject(check: QualityResult) -> str:
    """The target of a check: the table's dotted name, else its source."""
    return dotted_name(check.database, check.schema, check.table) or check.source or ""


def sentence(check: QualityResult) -> str:
    """What the rule of a check says, as the beginning of a sentence."""
    text = claim(check)
    return text if text.split(" ")[0] in check.columns else text[:1].upper() + text[1:]


def _by_reason(samples: Sequence[Refused]) -> dict[tuple[str, str], list[Refused]]:
    found: defaultdict[tuple[str, str], list[Refused]] = defaultdict(list)
    for sample in samples:
        found[sample.source, sample.reason].append(sample)
    return found


def _by_day(report: Report) -> list[tuple[str, list[object]]]:
    """The schema changes by day, newest first."""

    def day(happened: datetime | None) -> str:
        return "No time" if happened is None else formatting.moment(happened)[:10]

    return [
        (name, list(some))
        for name, some in groupby(report.schema_changes, key=lambda change: day(change.happened_at))
    ]


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        shown=shown,
        raw=raw,
        preview=preview,
        subject=subject,
        claim=claim,
        sentence=sentence,
        failing_key=failing_key,
        n=formatting.number,
        quantity=formatting.quantity,
        short=formatting.short_number,
        moment=formatting.moment,
        span=formatting.span,
        size=formatting.byte_size,
        one_line=formatting.one_line,
    )
    return found


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
