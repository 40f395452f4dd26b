"""Explanations of all error codes and reasons of quarantine, for `mainstem explain` and `docs/errors.md`."""

from __future__ import annotations

from framework.explanations import (
    command_line,
    configuration,
    layers,
    machine,
    observability,
    quarantine,
    sources,
)
from framework.explanations.explanation import Explanation

__all__ = ["CHAPTERS", "EXPLANATIONS", "Explanation"]

CHAPTERS = {
    "Configuration": configuration.EXPLANATIONS,
    "Commands and queries": command_line.EXPLANATIONS,
    "Machine, Spark and lakehouse": machine.EXPLANATIONS,
    "Sources and dumps": sources.EXPLANATIONS,
    "Changes, tables and checks": layers.EXPLANATIONS,
    "Traces, lineage and alerts": observability.EXPLANATIONS,
    "Reasons of quarantine": quarantine.EXPLANATIONS,
}
"""The explanations by the part of Mainstem that raises the error; last, why messages are in quarantine."""

EXPLANATIONS = {entry.code: entry for chapter in CHAPTERS.values() for entry in chapter}
"""The explanation of each code."""
