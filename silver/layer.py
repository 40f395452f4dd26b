"""Silver as the command line sees it: how it runs, what it adds to `status`, which formats it knows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import functions as F

from framework.contracts.tables import CHANGES, QUARANTINE
from framework.layer import Layer, LayerReport, Run
from silver import derived
from silver.detect import detect
from silver.epochs import halts
from silver.forget import erase
from silver.formats import FORMATS
from silver.job import SilverResult, replay_silver, run_silver
from silver.upkeep import kept

CONTROL_KINDS = ("ddl", "truncate", "heartbeat", "transaction", "tombstone")


def _run(run: Run) -> LayerReport:
    return _report(run, run_silver(run.spark, run.lake, run.config))


def _replay(run: Run) -> LayerReport:
    return _report(run, replay_silver(run.spark, run.lake, run.config))


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
            "waiting": _waiting(run),
        }
    return LayerReport("silver", {"messages": result.messages, **counts}, errors=result.errors)


def _waiting(run: Run) -> int:
    return run.lake.rows(run.spark, derived.PENDING_TABLE, CHANGES).count()


def _status(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {
        "changes": 0,
        "control_events": 0,
        "duplicates": 0,
        "excluded": 0,
        "quarantined": {},
        "pending_halves": _waiting(run),
        "stopped": [
            {"source": halt.source, "epoch": halt.epoch, "reason": halt.stops[0].reason, "detail": halt.stops[0].detail}
            for halt in halts(run.spark, run.lake).values()
        ],
    }
    if not run.lake.exists(run.spark, derived.COUNTS_TABLE):
        return found
    names = {"row": "changes", "duplicate": "duplicates", "excluded": "excluded", **dict.fromkeys(CONTROL_KINDS, "control_events")}
    counts = run.lake.read(run.spark, derived.COUNTS_TABLE).groupBy("kind").agg(F.sum("rows")).collect()
    for kind, rows in counts:
        if kind in names:
            found[names[kind]] += rows
    open_rows = run.lake.rows(run.spark, derived.QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
    found["quarantined"] = {row[0]: row[1] for row in open_rows.groupBy("reason").count().collect()}
    return found


def _format_rows() -> list[dict[str, str]]:
    return [
        {
            "name": f.name,
            "title": f.title,
            "writer": f.writer,
            "update_arrives_as": f.update_arrives_as,
            "keys_come_from": f.keys_come_from,
            "order_comes_from": f.order_comes_from,
            "order": "position" if f.positions_are_unique else "time",
            "options": ", ".join(f.options.model_fields) or "",
            "reference": f.reference,
        }
        for f in FORMATS.values()
    ]


LAYER = Layer(
    name="silver",
    run=_run,
    status=_status,
    replay=_replay,
    formats=_format_rows,
    options=lambda: {name: f.options for name, f in FORMATS.items()},
    erase=erase,
    kept=kept,
    detect=lambda messages, source: detect(messages, FORMATS, source),
)
