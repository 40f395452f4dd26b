"""What each command does: open what it needs, let the layers work, print the result."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from framework import demonstration
from framework.config import Catalog, Config, load_config
from framework.config_schema import json_schema
from framework.continuous import repeat, until_asked_to_end
from framework.doctor import diagnose
from framework.errors import ConfigurationError
from framework.layer import ORDER, LayerReport, Run, TableLine, installed_layers
from framework.lease import hold_lease
from framework.run_log import log_step, show_steps
from framework.runs import append_run
from framework.session import close_session, jvm_process, open_session
from framework.tables import Lakehouse
from framework.text_tables import aligned

_SIDE_COUNTS = {
    "merged": "halves merged",
    "heartbeats": "heartbeats",
    "duplicates": "duplicates",
    "quarantined": "quarantined",
    "waiting": "waiting",
}


def version() -> str:
    """The installed version, for `--version`."""
    return f"mainstem {installed_version('mainstem')}"


def run(options: argparse.Namespace) -> int:
    """Land, normalize and apply everything that is waiting; a line a table, then the totals."""
    config = read_config(options)
    if options.verbose:
        show_steps()
    started = time.monotonic()
    with opened(config, is_exclusive=True) as (lake, spark):
        if getattr(options, "continuous", None) is not None:
            with until_asked_to_end() as ended:
                return repeat(lambda: _round(Run(spark, lake, config, _run_id(), options.table), options), options.continuous, ended)
        reports = _reports(Run(spark, lake, config, _run_id(), options.table), options.through)
    return report_run(reports, time.monotonic() - started, is_json=options.json)


def _round(work: Run, options: argparse.Namespace) -> int:
    """One of the rounds of a continuous run; one that finds nothing new prints nothing."""
    started = time.monotonic()
    reports = _reports(work, options.through)
    if any(report.tables or report.errors or any(report.counts.values()) for report in reports):
        code = report_run(reports, time.monotonic() - started, is_json=options.json)
        sys.stdout.flush()
        return code
    return 0


def _run_id() -> str:
    return uuid.uuid4().hex[:12]


def _reports(work: Run, through: str) -> list[LayerReport]:
    reports = []
    for layer in installed_layers():
        if ORDER.index(layer.name) > ORDER.index(through):
            break
        log_step(layer.name, run=work.run_id)
        reports.append(layer.run(work))
    append_run(work.spark, work.lake, work.run_id, reports)
    return reports


def status(options: argparse.Namespace) -> int:
    """What is where: a line a table and the counts that account for every message."""
    config = read_config(options)
    with opened(config, is_exclusive=False) as (lake, spark):
        work = Run(spark, lake, config, "status")
        found: dict[str, Any] = {"pipeline": config.pipeline}
        for layer in installed_layers():
            found.update(layer.status(work))
    if options.json:
        print_json(found)
    else:
        _print_status(found)
    return 0


def validate(options: argparse.Namespace) -> int:
    """Check the configuration, or print its JSON schema."""
    if options.schema:
        print_json(json_schema(_option_models()))
        return 0
    config = read_config(options)
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


def demo(options: argparse.Namespace) -> int:
    """Run the sample feeds through all layers, in a new folder or in the one named, and say what came of it."""
    os.environ.setdefault("MAINSTEM_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")  # the feeds are too small for more to pay
    folder = demonstration.prepare(options.folder)
    arguments = argparse.Namespace(**{**vars(options), "config": str(folder / "mainstem.yml"), "through": "quality", "table": None})
    code = 0
    for part in demonstration.parts(folder):
        print(f"-- landing part {part}", flush=True)
        demonstration.land(folder, part)
        code = run(arguments)
        if code not in (0, 3):
            return code
    print()
    status(arguments)
    print(demonstration.farewell(folder))
    return code


def _option_models() -> dict[str, type[BaseModel]]:
    return {name: model for layer in installed_layers() for name, model in layer.options().items()}


def read_config(options: argparse.Namespace) -> Config:
    """The configuration that a command was given."""
    return load_config(options.config, formats=_option_models())


@contextmanager
def opened(config: Config, *, is_exclusive: bool) -> Iterator[tuple[Lakehouse, Any]]:
    """The lakehouse and a session; an exclusive command holds the lease of the pipeline meanwhile."""
    if isinstance(config.lakehouse, Catalog):
        raise ConfigurationError(
            "CATALOG_UNSUPPORTED",
            found=f"tables in the catalog {config.lakehouse.catalog}",
            where="lakehouse",
            action="name a folder, a volume's path or an object-store URL: catalog tables are not written yet",
        )
    lake = Lakehouse(config.root)
    if not is_exclusive:
        spark = open_session(config)
        try:
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
            yield lake, spark
        finally:
            close_session(spark)


def report_run(reports: Sequence[LayerReport], seconds: float, *, is_json: bool) -> int:
    """Print what the layers did; returns the exit code."""
    _print_run(reports, seconds, is_json=is_json)
    errors = [error for report in reports for error in report.errors]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    if errors:
        return 1
    return 3 if any(line.state == "PARKED" for report in reports for line in report.tables) else 0


def _print_run(reports: Sequence[LayerReport], seconds: float, *, is_json: bool) -> None:
    lines = [line for report in reports for line in report.tables]
    counts = {name: value for report in reports for name, value in report.counts.items()}
    if is_json:
        print_json(
            {
                "tables": [asdict(line) for line in lines],
                "counts": counts,
                "seconds": round(seconds, 1),
            }
        )
        return
    width = max((len(line.name) for line in lines), default=0)
    for number, line in enumerate(lines, 1):
        print(f"{number:>3} of {len(lines)}  {line.name:<{width}}  {_table_line(line)}")
    shown = {name: f"{counts.get(name, 0):,}" for name in ("changes", "messages", *_SIDE_COUNTS)}
    sides = ", ".join(f"{shown[name]} {words}" for name, words in _SIDE_COUNTS.items())
    print(f" done: {shown['changes']} changes from {shown['messages']} messages ({sides}) in {seconds:.1f} s")


def _table_line(line: TableLine) -> str:
    text = f"{line.state:<7} +{line.inserted:,}  ~{line.updated:,}  -{line.deleted:,}"
    if line.late:
        text += f"   {line.late:,} late"
    return text + "".join(f"   {note}" for note in line.notes)


def _print_status(found: Mapping[str, Any]) -> None:
    print(f"pipeline {found['pipeline']}")
    heads = ("table", "state", "rows", "applied", "bad", "behind", "keys", "reason")
    rows = [
        [
            ".".join(part for part in (t["database"], t["schema"], t["table"]) if part),
            t["state"],
            f"{t['rows']:,}",
            f"{t['changes_applied']:,}",
            f"{t['bad_values']:,}",
            str(t["behind"]),
            ", ".join(t["keys"]),
            (t["reason"] or "").splitlines()[0] if t["reason"] else "",
        ]
        for t in found.get("tables", ())
    ]
    print("\n".join(aligned(heads, rows)))
    print(
        f"{found.get('messages', 0):,} messages: {found.get('changes', 0):,} changes, {found.get('control_events', 0):,} control events, "
        f"{found.get('duplicates', 0):,} duplicates, {sum(found.get('quarantined', {}).values()):,} quarantined, "
        f"{found.get('pending_halves', 0):,} halves waiting, {found.get('excluded', 0):,} excluded"
    )
    for stop in found.get("stopped", ()):
        print(f"  STOPPED  source {stop['source']} at epoch {stop['epoch']}: {stop['reason']} ({stop['detail']})")
    for reason, count in sorted(found.get("quarantined", {}).items()):
        print(f"  quarantined  {reason}: {count:,}")


def print_json(value: object) -> None:
    """Print one JSON object."""
    print(json.dumps(value, ensure_ascii=False, default=str))
