"""The state of a pipeline as metrics in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from framework.naming import present_parts, quoted
from framework.report.model import PartitionOffset, Report, TableKey
from framework.report.summary import parts, source_facts, table_facts, totals, unaccounted

_OUTCOMES = {
    "row": "change",
    "merged": "merged_half",
    "control": "control_event",
    "duplicate": "duplicate",
    "waiting": "waiting_half",
    "quarantined": "quarantined",
    "dismissed": "dismissed",
    "excluded": "excluded",
    "key": "key_change_half",
}
_STATES = ("active", "append_only", "parked", "dropped")

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, a gauge: its name, what it means, and its value for each set of labels."""

    name: str
    meaning: str
    samples: Sequence[tuple[Labels, float]]


def metrics_text(report: Report, offsets: Iterable[PartitionOffset] = ()) -> str:
    """All metrics of a pipeline as text; every sample has the label `pipeline`.

    A metric whose value is unknown has no sample.
    """
    pipeline = ("pipeline", report.pipeline)
    return "".join(f"{line}\n" for metric in metrics(report, offsets) for line in _lines(metric, pipeline))


def metrics(report: Report, offsets: Iterable[PartitionOffset] = ()) -> Iterator[Metric]:
    """The metrics of a pipeline, by subject: messages, sources, tables, quality, the last run."""
    yield from _message_metrics(report, offsets)
    yield from _source_metrics(report)
    yield from _table_metrics(report)
    yield from _quality_metrics(report)
    yield from _run_metrics(report)


def _message_metrics(report: Report, offsets: Iterable[PartitionOffset]) -> Iterator[Metric]:
    yield Metric("mainstem_messages", "Messages that have landed in bronze.", _known(report.messages))
    outcomes = sorted(parts(report).items())
    yield Metric(
        "mainstem_outcomes",
        "Outcomes of messages in silver, by source.",
        [(_labels(source=source, outcome=_OUTCOMES[kind]), count) for (source, kind), count in outcomes],
    )
    without = unaccounted(report)
    yield Metric(
        "mainstem_messages_without_outcome",
        "Messages that have landed and that silver has not processed yet.",
        _known(None if without is None else max(without, 0)),
    )
    refused: Counter[Labels] = Counter()
    for each in report.refusals:  # those of a source whose format was changed are of several formats
        refused[_labels(source=each.source, reason=each.reason)] += each.rows
    yield Metric(
        "mainstem_quarantined_messages",
        "Open messages in quarantine, by source and reason.",
        list(refused.items()),
    )
    yield Metric(
        "mainstem_partition_offset",
        "The highest offset that silver has processed, of sources that the order in the partition orders.",
        [
            (_labels(source=each.source, topic=each.topic, partition=str(each.partition)), each.offset)
            for each in offsets
        ],
    )


def _source_metrics(report: Report) -> Iterator[Metric]:
    facts = source_facts(report)
    yield Metric(
        "mainstem_source_newest_event_age_seconds",
        "How old the newest event of a source is, heartbeats included.",
        [(_labels(source=s.name), s.age.total_seconds()) for s in facts if s.age is not None],
    )
    yield Metric(
        "mainstem_source_landing_delay_seconds",
        "The time between the newest event of a source and the landing of its newest message.",
        [(_labels(source=s.name), s.delay.total_seconds()) for s in facts if s.delay is not None],
    )
    yield Metric(
        "mainstem_source_waiting_halves",
        "Halves of updates that wait for the other half.",
        [(_labels(source=s.name), s.waiting) for s in facts],
    )
    yield Metric(
        "mainstem_source_stopped",
        "1 while a source is stopped because its positions have started again, else 0.",
        [(_labels(source=s.name), float(s.stop is not None)) for s in facts],
    )


def _table_metrics(report: Report) -> Iterator[Metric]:
    facts = table_facts(report)
    named = [(_labels(source=f.table.table_key.source, table=_name(f.table.table_key)), f) for f in facts]
    states = Counter(f.table.state for f in facts)
    yield Metric(
        "mainstem_tables",
        "Tables, by state.",
        [(_labels(state=state), states[state]) for state in _STATES],
    )
    yield Metric(
        "mainstem_table_parked",
        "1 while a table is parked, else 0.",
        [(labels, float(f.table.state == "parked")) for labels, f in named],
    )
    yield Metric(
        "mainstem_table_changes_applied",
        "Changes that were applied to a table.",
        [(labels, f.table.changes_applied) for labels, f in named],
    )
    yield Metric(
        "mainstem_table_batches_behind",
        "Batches of silver that a table has not applied yet.",
        [(labels, f.behind) for labels, f in named],
    )
    yield Metric(
        "mainstem_table_late_changes",
        "Changes that came after a newer one had been applied.",
        [(labels, f.table.late) for labels, f in named],
    )
    yield Metric(
        "mainstem_table_bad_values",
        "Cells of changes that did not fit their type, since the table was rebuilt.",
        [(labels, f.bad_values) for labels, f in named],
    )
    yield Metric(
        "mainstem_table_rows",
        "Rows of a replica, where counting them is cheap.",
        [(labels, f.table.rows) for labels, f in named if f.table.rows is not None],
    )


def _quality_metrics(report: Report) -> Iterator[Metric]:
    sums = totals(report)
    yield Metric(
        "mainstem_quality_failed_checks",
        "Quality checks that fail, by severity.",
        []
        if report.checks is None
        else [
            (_labels(severity="error"), sums.checks_failed),
            (_labels(severity="warn"), sums.checks_warned),
        ],
    )


def _run_metrics(report: Report) -> Iterator[Metric]:
    last = report.runs[0] if report.runs else None
    yield Metric(
        "mainstem_last_run_timestamp_seconds",
        "When the last run that found something to do has ended.",
        _known(None if last is None else last.finished_at.timestamp()),
    )
    yield Metric(
        "mainstem_last_run_success",
        "1 if the last run ended without an error, else 0.",
        _known(None if last is None else float(not last.errors)),
    )
    yield Metric(
        "mainstem_last_run_seconds",
        "How long the last run took.",
        _known(None if last is None else last.seconds),
    )
    yield Metric(
        "mainstem_last_run_step_seconds",
        "How long each layer worked in the last run.",
        [] if last is None else [(_labels(step=step), seconds) for step, seconds in last.steps.items()],
    )


def _name(key: TableKey) -> str:
    """The dotted name of a table, another one for each: a part with a dot is in backticks."""
    parts = present_parts(key.database, key.schema, key.table)
    return ".".join(quoted(part) if "." in part else part for part in parts)


def _known(value: float | None) -> list[tuple[Labels, float]]:
    return [] if value is None else [((), value)]


def _labels(**labels: str) -> Labels:
    return tuple(labels.items())


def _lines(metric: Metric, pipeline: tuple[str, str]) -> Iterator[str]:
    if not metric.samples:
        return
    yield f"# HELP {metric.name} {metric.meaning}"
    yield f"# TYPE {metric.name} gauge"
    for labels, value in metric.samples:
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in (pipeline, *labels))
        yield f"{metric.name}{{{shown}}} {float(value)!r}"


def _escaped(text: str) -> str:
    """A label's value; names of tables and topics may have any characters."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
