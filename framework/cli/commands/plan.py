"""`mainstem plan`: says what a run would do now, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from framework.cli.options import Options
from framework.cli.terminal import say, say_json, say_note
from framework.naming import dotted_name
from framework.pipeline.named_table import notes_without_session
from framework.pipeline.plan import make_plan
from framework.pipeline.session import read_config
from framework.text.formatting import quantity
from framework.text.tables import TextTable

_SHOWN_FILES = 5
_ACTIONS = {
    "create": "create",
    "merge": "change",
    "append": "append",
    "rebuild": "rebuild",
    "drop": "drop",
    "park": "PARK",
    "none": "nothing",
}


def run(options: Options) -> int:
    """Print what waits and what a run would do with it.

    Returns:
        1 where a run could not read a source or one stays stopped, 3 where it would park a table, else 0.
    """
    config = read_config(options.config)
    say_note(notes_without_session(config, options.table))
    plan = make_plan(config, options.table)
    if options.json:
        say_json(plan)
    else:
        say(plan_lines(plan))
    if any(source["error"] for source in plan["sources"]) or plan.get("silver", {}).get("stopped"):
        return 1
    return 3 if any(table["action"] == "park" for table in plan["tables"]) else 0


def plan_lines(plan: Mapping[str, Any]) -> Iterator[str | TextTable]:
    """The lines of a plan for people."""
    yield f"pipeline {plan['pipeline']}: what a run would do now; nothing has been written"
    for source in plan["sources"]:
        yield from _source_lines(source)
    silver = plan.get("silver", {})
    if silver.get("messages"):
        yield f" would decode {quantity(silver['messages'], 'message')}: {_counted(silver['kinds'])}"
    for reason, count in sorted(silver.get("quarantined", {}).items()):
        yield f"  quarantined  {reason}: {count:,}"
    yield from (f"  note: {note}" for note in silver.get("notes", ()))
    for stop in silver.get("stopped", ()):
        reason = f"{stop['reason']} ({stop['detail']})"
        word = "STOP" if stop["is_new"] else "STOPPED"
        yield f"  {word}  source {stop['source']}: {reason}; {stop['action']}"
    tables = plan["tables"]
    if not tables:
        yield " no table would change"
        return
    rows = [
        (_name(t), _ACTIONS[t["action"]], _changes(t), ", ".join(t["keys"]) or "-", "; ".join(_notes(t)))
        for t in tables
    ]
    yield TextTable(("table", "would", "changes", "keys", "how"), rows, indent=1)


def _source_lines(source: Mapping[str, Any]) -> Iterator[str]:
    if source["error"]:
        yield f" {source['source']}: cannot go on: {' '.join(str(source['error']).split())}"
        return
    files: Sequence[str] = source["files"]
    more = f" and {len(files) - _SHOWN_FILES} more" if len(files) > _SHOWN_FILES else ""
    names = f" in {', '.join(files[:_SHOWN_FILES])}{more}"
    waiting = quantity(source["messages"], "message waits", "messages wait")
    yield f" {source['source']}: {waiting}{names if files else ''}"
    if source["unfinished"]:
        yield f"  not complete yet: {', '.join(source['unfinished'][:_SHOWN_FILES])}"
    for reason in source["skipped"][:_SHOWN_FILES]:
        yield f"  not read: {reason}"


def _counted(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "nothing"


def _name(table: Mapping[str, Any]) -> str:
    return dotted_name(table["database"], table["schema"], table["table"])


def _changes(table: Mapping[str, Any]) -> str:
    changes = table["changes"]
    inserted = changes.get("insert", 0) + changes.get("read", 0)
    late = f" {table['late']:,} late" if table["late"] else ""
    return f"+{inserted:,} ~{changes.get('update', 0):,} -{changes.get('delete', 0):,}{late}"


def _notes(table: Mapping[str, Any]) -> Iterator[str]:
    if table["reason"]:
        yield " ".join(str(table["reason"]).split())
    added = [f"{column['name']} {column['type']}" for column in table["columns_added"]]
    if added:
        yield f"{'columns' if table['action'] == 'create' else 'adds'} {', '.join(added)}"
    for column in table["columns_changed"]:
        yield f"{column['name']} from {column['from']} to {column['to']}"
    if table["columns_gone"]:
        yield f"without {', '.join(column['name'] for column in table['columns_gone'])}"
    for statement in table["statements"]:
        if statement["has_effect"]:
            text = " ".join((statement["statement"] or "/".join(statement["actions"])).split())
            unclear = " (NOT UNDERSTOOD)" if "NotUnderstood" in statement["actions"] else ""
            yield f"{table['schema_policy']}: {text[:120]}{unclear}"
