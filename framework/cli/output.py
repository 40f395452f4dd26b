"""What commands print: runs, statuses, checks and verdicts, as lines for people or as one JSON object."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from framework.cli.terminal import (
    say,
    say_error,
    say_json,
    say_line,
    say_note,
)
from framework.contracts.quality import QualityResult
from framework.errors import in_a_line
from framework.explanations import EXPLANATIONS
from framework.naming import dotted_name
from framework.pipeline.checks import Check
from framework.pipeline.layer import LayerReport, TableLine
from framework.pipeline.run import exit_code
from framework.text.formatting import noun_for, one_line, quantity
from framework.text.tables import TextTable

_SIDE_COUNTS = {
    "merged": ("half merged", "halves merged"),
    "heartbeats": ("heartbeat", "heartbeats"),
    "duplicates": ("duplicate", "duplicates"),
    "quarantined": ("quarantined", "quarantined"),
    "waiting": ("waiting", "waiting"),
}
_LONGEST = 300
_SHOWN_KEYS = 3
_SHOWN_CODES = 2
_OTHER_COUNTS = (
    (
        "merged_halves",
        "half merged into the change of its other half",
        "halves merged into the changes of their other halves",
    ),
    ("key_change_halves", "half of a key change", "halves of key changes"),
    ("without_fate", "without an outcome yet", "without an outcome yet"),
)
"""What messages can be beside the outcomes that every status names."""


def _labels(tables: Iterable[tuple[str, str | None]]) -> list[str]:
    """The names of tables on one line; with the source where tables of several sources have one name."""
    tables = list(tables)
    times = Counter(name for name, _ in tables)
    return [one_line(f"{name} ({source})" if times[name] > 1 and source else name) for name, source in tables]


def run_table(tables: Sequence[TableLine]) -> TextTable:
    """One row for each table, for a terminal."""
    names = _labels((table.name, table.source) for table in tables)
    rows = [
        (
            f"{at:>{len(str(len(tables)))}} of {len(tables)}",
            names[at - 1],
            table.state,
            *_changes(table),
            _remarks(table),
            f"{table.seconds:.1f} s" if table.seconds else "",
        )
        for at, table in enumerate(tables, 1)
    ]
    return TextTable([""] * 8, rows, indent=1)


def run_lines(tables: Sequence[TableLine], counts: Mapping[str, int], seconds: float) -> list[str]:
    """One line for each table, in columns, and the line of totals.

    The name of a table and its notes stay on one line, whatever characters they hold.
    """
    names = _labels((table.name, table.source) for table in tables)
    changes = [_changes(table) for table in tables]
    widths = [max((len(row[at]) for row in changes), default=0) for at in range(3)]
    remarks = [_remarks(table) for table in tables]
    # a long remark shifts the seconds of its own line only
    wide = max(
        (
            len(remark)
            for remark, table in zip(remarks, tables, strict=True)
            if table.seconds and len(remark) <= 40
        ),
        default=0,
    )
    digits, longest = len(str(len(tables))), max(map(len, names), default=0)
    found = []
    for at, table in enumerate(tables):
        counted = "  ".join(part.ljust(width) for part, width in zip(changes[at], widths, strict=True))
        took = f"{table.seconds:.1f} s" if table.seconds else ""
        head = f"{at + 1:>{digits + 1}} of {len(tables)}  {names[at]:<{longest}}  {table.state:<6}"
        found.append(f"{head}  {counted}  {remarks[at]:<{wide}}  {took:>8}".rstrip())
    return [*found, _totals(counts, seconds)]


def quality_line(judged: int, severities: Sequence[str]) -> str | None:
    """The number of judged rules, and of failed ones by severity; None where there are neither."""
    if not judged and not severities:
        return None
    head = f" quality: {quantity(judged, 'rule')} judged" if judged else " quality: nothing new to judge"
    if not severities:
        return f"{head}, all hold"
    errors, warnings = severities.count("error"), len(severities) - severities.count("error")
    counts = ((errors, "error"), (warnings, "warning"))
    broken = ", ".join(quantity(count, noun) for count, noun in counts if count)
    return f"{head}, {len(severities):,} broken: {broken}"


def _changes(table: TableLine) -> tuple[str, str, str]:
    if table.state == "PARKED" and not (table.inserted or table.updated or table.deleted):
        return "", "", ""
    return f"+{table.inserted:,}", f"~{table.updated:,}", f"-{table.deleted:,}"


def _remarks(table: TableLine) -> str:
    late = (f"{table.late:,} late",) if table.late else ()
    return "   ".join((*late, *(one_line(in_a_line(note), _LONGEST) for note in table.notes)))


def _totals(counts: Mapping[str, int], seconds: float) -> str:
    if "messages" not in counts and "landed" in counts:  # only bronze has run
        files = f" from {quantity(counts['files'], 'file')}" if counts.get("files") else ""
        return f" done: {quantity(counts['landed'], 'message')} landed{files} in {seconds:.1f} s"
    sides = ", ".join(quantity(counts.get(name, 0), *words) for name, words in _SIDE_COUNTS.items())
    changes, messages = (
        quantity(counts.get("changes", 0), "change"),
        quantity(counts.get("messages", 0), "message"),
    )
    return f" done: {changes} from {messages} ({sides}) in {seconds:.1f} s"


def check_lines(check: Check) -> list[str]:
    """The result of a check as a line; a failed check has two more, which name examples where it has them."""
    state = "ok  " if check.is_ok else "FAIL"
    line = f"{state}  {check.name:<20} {check.promise}"
    if check.is_ok:
        return [line]
    examples = ", ".join(f"[{example}]" for example in check.examples)
    place = f"{check.where}, for example {examples}" if examples else check.where
    return [
        line,
        f"      found: {check.wrong:,} that {noun_for(check.wrong, 'breaks', 'break')} it, in {place}",
        f"      do:    {check.action}",
    ]


def failure_line(result: QualityResult) -> str:
    """A failed verdict as a line."""
    place = dotted_name(result.database, result.schema, result.table) or result.source or result.layer
    keys = ", ".join(f"[{key}]" for key in result.failing_keys[:_SHOWN_KEYS])
    more = (
        f" and {result.failed_count - _SHOWN_KEYS:,} more"
        if keys and result.failed_count > _SHOWN_KEYS
        else ""
    )
    return f"  {result.severity.upper():<5}  {result.layer} {place}: {result.rule} ({result.observed})" + (
        f": {keys}{more}" if keys else ""
    )


def print_run(reports: Sequence[LayerReport], seconds: float, *, is_json: bool) -> int:
    """Print what the layers did; returns the exit code."""
    if is_json:
        say_json(run_document(reports, seconds))
    else:
        _print_run_lines(reports, seconds)
    say_note(note for report in reports for note in report.notes)
    for error in (error for report in reports for error in report.errors):
        say_error(error)
    return exit_code(reports)


def _print_run_lines(reports: Sequence[LayerReport], seconds: float) -> None:
    lines = [line for report in reports for line in report.tables]
    counts = {name: value for report in reports for name, value in report.counts.items()}
    if sys.stdout.isatty():
        say((*((run_table(lines),) if lines else ()), _totals(counts, seconds)))
    else:
        say(run_lines(lines, counts, seconds))
    failures = sorted(
        (result for report in reports for result in report.failures), key=lambda result: not result.is_error
    )
    summary = quality_line(counts.get("rules_checked", 0), [result.severity for result in failures])
    if summary:
        say((summary, *map(failure_line, failures)))
    say_note(next_steps(lines, counts))


def next_steps(tables: Sequence[TableLine], counts: Mapping[str, int]) -> Iterator[str]:
    """What to do after a run: about parked tables, and messages in quarantine."""
    parked = [table for table in tables if table.state == "PARKED"]
    if parked:
        words = [table.notes[0].replace(":", " ").split() for table in parked if table.notes]
        codes = sorted({reason[0] for reason in words if reason and reason[0] in EXPLANATIONS})
        explained = "".join(f"; `mainstem explain {code}` says what to do" for code in codes[:_SHOWN_CODES])
        yield (
            f"{quantity(len(parked), 'table is', 'tables are')} parked: `mainstem status` has the reasons"
            f"{explained}; the next run goes on with a table once its cause is fixed"
        )
    if counts.get("quarantined"):
        yield (
            f"{quantity(counts['quarantined'], 'message')} went to quarantine: `mainstem status` counts the"
            " reasons, `mainstem explain REASON` says what to do, `mainstem replay` decodes them again"
            " after a fix, and `mainstem dismiss` sets aside those that have none"
        )


def run_document(reports: Sequence[LayerReport], seconds: float) -> dict[str, Any]:
    """What a run did, as values of JSON."""
    lines = [line for report in reports for line in report.tables]
    counts = {name: value for report in reports for name, value in report.counts.items()}
    errors = [str(error) for report in reports for error in report.errors]
    failures = [asdict(result) for report in reports for result in report.failures]
    return {
        "tables": [asdict(line) for line in lines],
        "counts": counts,
        "failed_rules": failures,
        "errors": errors,
        "seconds": round(seconds, 1),
    }


def account_line(status: Mapping[str, Any]) -> str:
    """The number of messages and of their outcomes, which add up to it."""
    parts = [
        quantity(status.get("changes", 0), "change"),
        quantity(status.get("control_events", 0), "control event"),
        quantity(status.get("duplicates", 0), "duplicate"),
        f"{sum(status.get('quarantined', {}).values()):,} quarantined",
        *([f"{dismissed:,} dismissed"] if (dismissed := sum(status.get("dismissed", {}).values())) else []),
        quantity(status.get("pending_halves", 0), "half waiting", "halves waiting"),
        f"{status.get('excluded', 0):,} excluded",
        *(quantity(count, *words) for name, *words in _OTHER_COUNTS if (count := status.get(name, 0))),
    ]
    line = f"{quantity(status.get('messages', 0), 'message')}: {', '.join(parts)}"
    further = status.get("further_rows", 0)
    return (
        f"{line}; less {quantity(further, 'further row')} of messages that hold several" if further else line
    )


def _reason(text: str) -> str:
    """The code of a reason, and what was found; the advice stays for `explain`."""
    first, *rest = text.splitlines()
    found = next((line.strip() for line in rest if line.strip().startswith("found:")), "")
    return f"{first}: {found.removeprefix('found:').strip()}" if found else first


def print_status(status: Mapping[str, Any], *, is_json: bool) -> None:
    """Print a status as lines, or as one JSON object."""
    if is_json:
        say_json(status)
        return
    say_line(f"pipeline {status['pipeline']}")
    heads = ("table", "state", "rows", "applied", "bad", "behind", "keys", "reason")
    tables = status.get("tables", ())
    names = _labels((dotted_name(t["database"], t["schema"], t["table"]), t.get("source")) for t in tables)
    rows = [
        [
            name,
            t["state"],
            f"{t['rows']:,}",
            f"{t['changes_applied']:,}",
            f"{t['bad_values']:,}",
            str(t["behind"]),
            one_line(", ".join(t["keys"])),
            one_line(_reason(t["reason"]), _LONGEST) if t["reason"] else "",
        ]
        for name, t in zip(names, tables, strict=True)
    ]
    if rows:
        say([TextTable(heads, rows)])
    else:
        say_line("no table yet: `mainstem run` makes them from the messages of the sources")
    for row, table in zip(rows, tables, strict=True):
        if not table.get("is_configured", True):
            fate = "it stays as it is" if table.get("replica") else "it has no replica any more"
            source = one_line(table["source"])
            say_line(f"  {row[0]}: of source {source}, which the configuration does not name: {fate}")
        if table.get("failing_keys"):
            keys = ", ".join(f"[{key}]" for key in table["failing_keys"])
            say_line(f"  {row[0]}: rows that break the gate: {one_line(keys, _LONGEST)}")
        if table.get("statements_not_applied"):
            say_line(
                f"  {row[0]}: {quantity(table['statements_not_applied'], 'statement')} not applied: "
                "not understood, or without a position"
            )
        if table.get("missed_while_excluded"):
            say_line(
                f"  {row[0]}: lacks the {quantity(table['missed_while_excluded'], 'message')} "
                "that came while it was excluded; `mainstem rebuild TABLE --from bronze` reads them"
            )
    keyless = [name for name, t in zip(names, tables, strict=True) if t["state"] == "append_only"]
    if keyless:
        listed = one_line(", ".join(keyless), _LONGEST)
        say_line(
            f"  append-only, a row for each change, because no key is known: {listed}; write `keys:` under"
            " `tables:`, then `mainstem rebuild TABLE`"
        )
    say_line(account_line(status))
    for source in status.get("left_out", ()):
        say_line(f"  LEFT OUT {quantity(source['messages'], 'message')}: {source['note']}")
    for late in status.get("late_snapshots", ()):
        say_line(f"  SNAPSHOT {late['note']}")
    for stop in status.get("stopped", ()):
        reason = f"{stop['code']}: {stop['reason']} ({stop['detail']})"
        say_line(f"  STOPPED  source {stop['source']} at epoch {stop['epoch']}: {reason}; {stop['action']}")
    for reason, count in sorted(status.get("quarantined", {}).items()):
        say_line(f"  quarantined  {reason}: {count:,}")
    for reason, count in sorted(status.get("dismissed", {}).items()):
        say_line(f"  dismissed    {reason}: {count:,}")
