"""`mainstem metrics`: the state of a pipeline in Prometheus' text format, printed or in a file."""

from __future__ import annotations

from pathlib import Path

from framework.cli.commands.exports.own_file import write_own_file
from framework.cli.options import Options
from framework.cli.terminal import say_json, say_text
from framework.pipeline.session import open_tables, read_config

_MARK = "# HELP mainstem_"


def run(options: Options) -> int:
    """Print the metrics, or write them into a file; what they say does not change the exit code."""
    from framework.exports.metrics import metrics, metrics_text
    from framework.report.collect import collect, partition_offsets

    config = read_config(options.config)
    with open_tables(config) as view:
        report = collect(view)
        offsets = partition_offsets(view.tables)
    if options.file:
        write_own_file(Path(options.file).expanduser(), metrics_text(report, offsets), _MARK)
    if options.json:
        samples = [
            {"name": metric.name, "labels": dict(labels), "value": value}
            for metric in metrics(report, offsets)
            for labels, value in metric.samples
        ]
        say_json({"pipeline": report.pipeline, "metrics": samples, "file": options.file})
    elif not options.file:
        say_text(metrics_text(report, offsets))
    return 0
