"""Silver as the command line sees it: runs, its part of `status`, and the formats that it knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.events import KINDS_OF_PAIRS
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    STATEMENTS_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGES, QUARANTINE
from framework.demo.feeds import sample
from framework.pipeline.layer import LANDED, Layer, LayerReport, Run
from framework.pipeline.message_counts import accounts
from framework.text.formatting import quantity
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.batches.changes_table import STATEMENTS
from silver.batches.seed_plans import resolve_seed
from silver.detection.detect import detect
from silver.epochs.history import read_history
from silver.formats import FORMATS, format_rows
from silver.job import SilverResult, rebuild_silver, replay_silver, run_silver
from silver.operations.events import describe_events
from silver.operations.expectations import expectations
from silver.operations.forget import erase
from silver.operations.late_snapshots import late_snapshots
from silver.operations.maintain import tables_to_maintain
from silver.operations.preview import preview
from silver.operations.setting_hints import hints
from silver.operations.verify import verify
from silver.stream.checkpoint import counted_from

CONTROL_KINDS = ("ddl", "truncate", "heartbeat", "transaction", "tombstone")


def _run(run: Run) -> LayerReport:
    if run.memo.get(LANDED):
        run.progress.expect("messages", run.memo[LANDED])
    return _report(run, run_silver(run.spark, run.lake, run.config, run.progress))


def _replay(run: Run) -> LayerReport:
    return _report(run, replay_silver(run.spark, run.lake, run.config))


def _redecode(run: Run, table: str) -> LayerReport:
    return _report(run, rebuild_silver(run.spark, run.lake, run.config, table))


def _report(run: Run, result: SilverResult) -> LayerReport:
    counts: dict[str, int] = {}
    if result.counts:
        by_kind: Counter[str] = Counter()
        for row in result.counts:
            by_kind[row["kind"]] += row["rows"]
        counts = {
            "changes": by_kind["row"],
            "merged": 2 * sum(row["merged"] or 0 for row in result.counts if row["kind"] == "row"),
            "heartbeats": by_kind["heartbeat"],
            "duplicates": by_kind["duplicate"],
            "quarantined": by_kind["quarantined"],
            "waiting": 0 if result.has_waiting is False else _waiting(run),
        }
    notes = (
        *result.restored,
        *result.redefined,
        *(_left_out_note(source) for source in result.left_out),
        *hints(run, result.counts),
    )
    if result.kept:
        notes += (
            f"{quantity(result.kept, 'message was', 'messages were')} not decoded again, because"
            " `forget` removed rows of the same message: what silver has of it stays",
        )
    return LayerReport("silver", {"messages": result.messages, **counts}, errors=result.errors, notes=notes)


def _left_out_note(source: str) -> str:
    return (
        f"source {source}: messages of it have landed, and the configuration does not name it: they have no"
        " outcome; give a source this name (again) and run: they are decoded then"
    )


def _waiting(run: Run) -> int:
    return run.lake.rows(run.spark, PENDING_TABLE, CHANGES).count()


def _status(run: Run) -> dict[str, Any]:
    history = read_history(run.spark, run.lake)
    left_out = history.left_out(run.config.sources)
    found: dict[str, Any] = {
        "late_snapshots": [],
        "changes": 0,
        "control_events": 0,
        "duplicates": 0,
        "excluded": 0,
        "quarantined": {},
        "pending_halves": _waiting(run),
        "merged_halves": 0,
        "key_change_halves": 0,
        "further_rows": 0,
        "without_fate": 0,
        "stopped": [
            {
                "source": stopped.source,
                "epoch": stopped.epoch,
                "reason": stopped.stops[0].reason,
                "detail": stopped.stops[0].detail,
            }
            for stopped in history.stopped_sources().values()
        ],
        "left_out": [
            {"source": source, "messages": _messages_of(run, source), "note": _left_out_note(source)}
            for source in left_out
        ],
    }
    if not run.lake.exists(run.spark, BATCHES_TABLE):
        return {**found, "without_fate": _messages(run).count()}
    names = {
        "row": "changes",
        "duplicate": "duplicates",
        "excluded": "excluded",
        **dict.fromkeys(CONTROL_KINDS, "control_events"),
    }
    live = run.lake.read(run.spark, BATCHES_TABLE).where(F.col("batch") >= counted_from(run.spark, run.lake))
    found["late_snapshots"] = late_snapshots(live)
    counts = (
        live.groupBy("kind")
        .agg(F.sum("rows"), F.sum(F.when(F.col("kind").isin(*KINDS_OF_PAIRS), F.col("merged"))))
        .collect()
    )
    for kind, rows, merged in counts:
        found["merged_halves"] += merged or 0
        if kind in names:
            found[names[kind]] += rows
    open_rows = run.lake.rows(run.spark, QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
    found["quarantined"] = {row[0]: row[1] for row in open_rows.groupBy("reason").count().collect()}
    return {**found, **_accounted(run, found)}


def _accounted(run: Run, found: Mapping[str, Any]) -> dict[str, int]:
    """Other reasons for the number of messages, so that all numbers add up.

    Read only if something is missing.
    """
    outcomes = ("changes", "control_events", "duplicates", "excluded", "pending_halves", "merged_halves")
    missing = (
        _messages(run).count() - sum(found[name] for name in outcomes) - sum(found["quarantined"].values())
    )
    row = (
        accounts(run.lake.rows(run.spark, CHANGES_TABLE, CHANGES))
        .agg(F.sum("key_halves"), F.sum("further"))
        .first()
        if missing
        else None
    )
    key_halves, further = (row[0] or 0, row[1] or 0) if row is not None else (0, 0)
    return {
        "key_change_halves": key_halves,
        "further_rows": further,
        "without_fate": max(missing - key_halves + further, 0),
    }


def _messages_of(run: Run, source: str) -> int:
    return _messages(run).where(F.col("source") == source).count()


def _messages(run: Run) -> DataFrame:
    """All messages of bronze; none where the table is gone."""
    return run.lake.rows(run.spark, MESSAGES_TABLE, MESSAGES)


LAYER = Layer(
    name="silver",
    run=_run,
    verify=verify,
    status=_status,
    replay=_replay,
    redecode=_redecode,
    formats=format_rows,
    options=lambda: {name: f.options for name, f in FORMATS.items()},
    erase=erase,
    resolve_seed=resolve_seed,
    plan=preview,
    tables_to_maintain=tables_to_maintain,
    detect=lambda messages, source: detect(messages, FORMATS, source, sample),
    events=describe_events,
    expectations=expectations,
    logs=lambda: {BATCHES_TABLE: COUNTS_SCHEMA, STATEMENTS_TABLE: STATEMENTS},
)
