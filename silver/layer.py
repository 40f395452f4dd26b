"""Silver as the command line sees it: how it runs, what it adds to `status`, which formats it knows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import functions as F

from framework.contracts.tables import CHANGES, QUARANTINE
from framework.layer import Layer, LayerReport, Run
from silver import derived
from silver.batch import MESSAGES_TABLE
from silver.checkpoint import counted_from
from silver.detect import detect
from silver.epochs import read_history
from silver.expectations import expectations
from silver.forget import erase
from silver.formats import FORMATS
from silver.job import SilverResult, rebuild_silver, replay_silver, run_silver
from silver.outlook import outlook
from silver.seeds import place
from silver.snapshots import late_snapshots
from silver.upkeep import kept
from silver.verify import verify

CONTROL_KINDS = ("ddl", "truncate", "heartbeat", "transaction", "tombstone")


def _run(run: Run) -> LayerReport:
    return _report(run, run_silver(run.spark, run.lake, run.config))


def _replay(run: Run) -> LayerReport:
    return _report(run, replay_silver(run.spark, run.lake, run.config))


def _decode_again(run: Run, table: str) -> LayerReport:
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
            "waiting": _waiting(run),
        }
    notes = tuple(_left_out_note(source) for source in result.left_out)
    return LayerReport("silver", {"messages": result.messages, **counts}, errors=result.errors, notes=notes)


def _left_out_note(source: str) -> str:
    return (
        f"source {source}: messages of it have landed, and the configuration does not name it: they have no fate; "
        "give a source this name (again) and run: they are taken up then"
    )


def _waiting(run: Run) -> int:
    return run.lake.rows(run.spark, derived.PENDING_TABLE, CHANGES).count()


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
        "stopped": [
            {"source": halt.source, "epoch": halt.epoch, "reason": halt.stops[0].reason, "detail": halt.stops[0].detail}
            for halt in history.halts().values()
        ],
        "left_out": [{"source": source, "messages": _messages_of(run, source), "note": _left_out_note(source)} for source in left_out],
    }
    if not run.lake.exists(run.spark, derived.COUNTS_TABLE):
        return found
    names = {"row": "changes", "duplicate": "duplicates", "excluded": "excluded", **dict.fromkeys(CONTROL_KINDS, "control_events")}
    live = run.lake.read(run.spark, derived.COUNTS_TABLE).where(F.col("batch") >= counted_from(run.spark, run.lake))
    found["late_snapshots"] = late_snapshots(live)
    counts = live.groupBy("kind").agg(F.sum("rows")).collect()
    for kind, rows in counts:
        if kind in names:
            found[names[kind]] += rows
    open_rows = run.lake.rows(run.spark, derived.QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
    found["quarantined"] = {row[0]: row[1] for row in open_rows.groupBy("reason").count().collect()}
    return found


def _messages_of(run: Run, source: str) -> int:
    return run.lake.read(run.spark, MESSAGES_TABLE).where(F.col("source") == source).count()


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
    verify=verify,
    status=_status,
    replay=_replay,
    decode_again=_decode_again,
    formats=_format_rows,
    options=lambda: {name: f.options for name, f in FORMATS.items()},
    erase=erase,
    place=place,
    plan=outlook,
    kept=kept,
    detect=lambda messages, source: detect(messages, FORMATS, source),
    expectations=expectations,
)
