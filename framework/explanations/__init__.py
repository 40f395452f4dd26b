"""Explanations of all error codes and reasons, for `mainstem explain` and `docs/errors.md`."""

from __future__ import annotations

from framework.explanations import (
    bad_values,
    command_line,
    configuration,
    layers,
    machine,
    observability,
    quarantine,
    sources,
    stops,
)
from framework.explanations.explanation import Explanation

__all__ = ["CHAPTERS", "EXPLANATIONS", "FORMER_NAMES", "Explanation"]

CHAPTERS = {
    "Configuration": configuration.EXPLANATIONS,
    "Commands and queries": command_line.EXPLANATIONS,
    "Machine, Spark and lakehouse": machine.EXPLANATIONS,
    "Sources and dumps": sources.EXPLANATIONS,
    "Changes, tables and checks": layers.EXPLANATIONS,
    "Traces, lineage and alerts": observability.EXPLANATIONS,
    "Reasons of quarantine": quarantine.EXPLANATIONS,
    "Reasons of stopped sources": stops.EXPLANATIONS,
    "Reasons in ops/bad_values": bad_values.EXPLANATIONS,
}
"""The explanations by the part of Mainstem that raises the error; last, the reasons that tables hold."""

EXPLANATIONS = {entry.code: entry for chapter in CHAPTERS.values() for entry in chapter}
"""The explanation of each code. Letters count: `BAD_VALUE` is an error, `bad_value` a reason of a cell."""

FORMER_NAMES = {name: entry for entry in EXPLANATIONS.values() for name in entry.former}
"""The explanation of each code by its former names."""
