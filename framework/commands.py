"""What each command does: open what it needs, let the layers work, print the result."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from framework.alerts import tell, tell_failure
from framework.catalog import prepare_catalog
from framework.checks import told
from framework.config import Catalog, Config, load_config, validated_config
from framework.config_schema import json_schema
from framework.continuous import repeat, until_asked_to_end
from framework.doctor import diagnose
from framework.layer import ORDER, LayerReport, Run, installed_layers
from framework.lease import hold_lease
from framework.names import dotted_name
from framework.owner import check_owner, claim
from framework.quality.log import failure_line, is_error
from framework.result_lines import quality_line, run_lines
from framework.run_log import log_step, show_steps
from framework.runs import append_run
from framework.session import close_session, jvm_process, open_session, release_streams
from framework.tables import Lakehouse, lakehouse_of
from framework.text_tables import aligned
from framework.words import one_line


def version() -> str:
    """The installed version, for `--version`."""
    return f"mainstem {installed_version('mainstem')}"


def run(options: argparse.Namespace) -> int:
    """Land, normalize and apply everything that is waiting; a line a table, then the totals."""
    config = read_config(options)
    if options.verbose:
        show_steps()
    try:
        if getattr(options, "continuous", None) is not None:
            with opened(config, is_exclusive=True) as (lake, spark), until_asked_to_end() as ended:
                return repeat(lambda: _round(Run(spark, lake, config, _run_id(), options.table), options), options.continuous, ended)
        reports, seconds = apply_waiting(config, options.through, options.table)
    except Exception as error:
        _print_notes(tell_failure(config, error))
        raise
    return report_run(reports, seconds, is_json=options.json)


def apply_waiting(config: Config, through: str, table: str | None = None) -> tuple[list[LayerReport], float]:
    """What each layer did with what was waiting, and how many seconds it took, the session's start included."""
    started = time.monotonic()
    with opened(config, is_exclusive=True) as (lake, spark):
        return _reports(Run(spark, lake, config, _run_id(), table), through, started)


def _round(work: Run, options: argparse.Namespace) -> int:
    """One of the rounds of a continuous run; one that finds nothing new prints nothing."""
    reports, seconds = _reports(work, options.through, time.monotonic())
    if any(report.tables or report.errors or any(report.counts.values()) for report in reports):
        code = report_run(reports, seconds, is_json=options.json)
        sys.stdout.flush()
        return code
    return 0


def _run_id() -> str:
    return uuid.uuid4().hex[:12]


def _reports(work: Run, through: str, started: float) -> tuple[list[LayerReport], float]:
    reports = []
    for layer in installed_layers():
        if ORDER.index(layer.name) > ORDER.index(through):
            break
        log_step(layer.name, run=work.run_id)
        with _shown_progress(layer.name):
            reports.append(layer.run(work))
    release_streams(work.spark)
    seconds = time.monotonic() - started
    append_run(work.spark, work.lake, work.run_id, reports, seconds)
    _print_notes(tell(work, reports, exit_code(reports)))
    return reports, seconds


@contextmanager
def _shown_progress(step: str) -> Iterator[None]:
    """Say what is being done while it lasts, on a terminal alone, and leave no trace of it there."""
    if not sys.stderr.isatty():
        yield
        return
    print(f"\r{step} …", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def status(options: argparse.Namespace) -> int:
    """What is where: a line a table and the counts that account for every message."""
    config = read_config(options)
    with opened(config, is_exclusive=False) as (lake, spark):
        work = Run(spark, lake, config, "status")
        found = read_status(work)
        checks = [check for layer in installed_layers() if layer.verify for check in layer.verify(work)] if options.verify else []
    if options.verify and options.json:
        found["checks"] = [{**asdict(check), "ok": check.is_ok} for check in checks]
    print_status(found, is_json=options.json)
    if not options.json:
        print("".join(f"{told(check)}\n" for check in checks), end="")
    return 0 if all(check.is_ok for check in checks) else 1


def read_status(run: Run) -> dict[str, Any]:
    """What each layer adds to the status of a pipeline."""
    found: dict[str, Any] = {"pipeline": run.config.pipeline}
    for layer in installed_layers():
        found.update(layer.status(run))
    return found


def validate(options: argparse.Namespace) -> int:
    """Check the configuration and that its landing folders are there, or print its JSON schema."""
    if options.schema:
        print_json(json_schema(_option_models()))
        return 0
    config = validated_config(options.config, formats=_option_models())
    if options.json:
        print_json({"pipeline": config.pipeline, "sources": sorted(config.sources), "tables": len(config.tables), "valid": True})
    else:
        print(f"{options.config}: valid ({len(config.sources)} sources, {len(config.tables)} table entries)")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Check this machine; exit code 1 when something is missing."""
    root = read_config(options).root if Path(options.config).exists() else None
    findings = diagnose(root)
    if options.json:
        print_json({"findings": [{"name": f.name, "ok": f.ok, "found": f.found, "action": f.action} for f in findings]})
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name:<22} {finding.found}")
            if not finding.ok:
                print(f"      do: {finding.action}")
    return 0 if all(f.ok for f in findings) else 1


def _option_models() -> dict[str, type[BaseModel]]:
    return {name: model for layer in installed_layers() for name, model in layer.options().items()}


def read_config(options: argparse.Namespace) -> Config:
    """The configuration that a command was given."""
    return load_config(options.config, formats=_option_models())


@contextmanager
def opened(config: Config, *, is_exclusive: bool) -> Iterator[tuple[Lakehouse, Any]]:
    """The lakehouse and a session; an exclusive command holds the lease of the pipeline meanwhile."""
    lake = lakehouse_of(config)
    if not is_exclusive:
        spark = open_session(config)
        try:
            check_owner(spark, lake, config.pipeline)
            yield lake, spark
        finally:
            close_session(spark)
        return
    with hold_lease(lake, config.pipeline) as lease:
        spark = open_session(config)
        process = jvm_process(spark)
        if process is not None:
            lease.watch(process)
        try:
            if isinstance(config.lakehouse, Catalog):
                prepare_catalog(spark, lake, config.lakehouse)
            claim(spark, lake, config.pipeline)
            yield lake, spark
        finally:
            close_session(spark)


def report_run(reports: Sequence[LayerReport], seconds: float, *, is_json: bool) -> int:
    """Print what the layers did; returns the exit code."""
    _print_run(reports, seconds, is_json=is_json)
    _print_notes(note for report in reports for note in report.notes)
    for error in (error for report in reports for error in report.errors):
        print(f"error: {error}", file=sys.stderr)
    return exit_code(reports)


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def exit_code(reports: Sequence[LayerReport]) -> int:
    """What a command that moved tables leaves with."""
    if any(report.errors for report in reports):
        return 1
    is_broken = any(is_error(result) for report in reports for result in report.failures)
    return 3 if is_broken or any(line.state == "PARKED" for report in reports for line in report.tables) else 0


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


def _print_run(reports: Sequence[LayerReport], seconds: float, *, is_json: bool) -> None:
    if is_json:
        print_json(run_document(reports, seconds))
        return
    lines = [line for report in reports for line in report.tables]
    counts = {name: value for report in reports for name, value in report.counts.items()}
    is_painted = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print("\n".join(run_lines(lines, counts, seconds, is_painted=is_painted)))
    failures = sorted((result for report in reports for result in report.failures), key=lambda result: not is_error(result))
    told = quality_line(counts.get("rules_checked", 0), [result.severity for result in failures])
    print("\n".join([*([told] if told else []), *map(failure_line, failures)]), end="\n" if told else "")


def print_status(found: Mapping[str, Any], *, is_json: bool) -> None:
    """Print a status for people, or as one JSON object."""
    if is_json:
        print_json(found)
        return
    print(f"pipeline {found['pipeline']}")
    heads = ("table", "state", "rows", "applied", "bad", "behind", "keys", "reason")
    rows = [
        [
            one_line(dotted_name(t["database"], t["schema"], t["table"])),
            t["state"],
            f"{t['rows']:,}",
            f"{t['changes_applied']:,}",
            f"{t['bad_values']:,}",
            str(t["behind"]),
            one_line(", ".join(t["keys"])),
            one_line(t["reason"].splitlines()[0]) if t["reason"] else "",
        ]
        for t in found.get("tables", ())
    ]
    print("\n".join(aligned(heads, rows)))
    for row, table in zip(rows, found.get("tables", ()), strict=True):
        if table.get("statements_not_applied"):
            print(f"  {row[0]}: {table['statements_not_applied']:,} statements not applied: not understood, or without a position")
        if table.get("missed_while_excluded"):
            print(f"  {row[0]}: lacks the {table['missed_while_excluded']:,} messages that came while it was excluded")
    print(
        f"{found.get('messages', 0):,} messages: {found.get('changes', 0):,} changes, {found.get('control_events', 0):,} control events, "
        f"{found.get('duplicates', 0):,} duplicates, {sum(found.get('quarantined', {}).values()):,} quarantined, "
        f"{found.get('pending_halves', 0):,} halves waiting, {found.get('excluded', 0):,} excluded"
    )
    for source in found.get("left_out", ()):
        print(f"  LEFT OUT {source['messages']:,} messages: {source['note']}")
    for late in found.get("late_snapshots", ()):
        print(f"  SNAPSHOT {late['note']}")
    for stop in found.get("stopped", ()):
        print(f"  STOPPED  source {stop['source']} at epoch {stop['epoch']}: {stop['reason']} ({stop['detail']})")
    for reason, count in sorted(found.get("quarantined", {}).items()):
        print(f"  quarantined  {reason}: {count:,}")


def print_json(value: object) -> None:
    """Print one JSON object."""
    print(json.dumps(value, ensure_ascii=False, default=str))
