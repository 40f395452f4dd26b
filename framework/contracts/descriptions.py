"""What each schema and table of a lakehouse is, in a line: the comments that a catalog shows."""

from __future__ import annotations

LAYERS = {
    "bronze": "Messages as they were received.",
    "silver": "Every change, and the fate of every message.",
    "gold": "Replicas and histories of the source tables.",
    "ops": "Runs, batches, states and bad values.",
}

_TABLES = {
    "bronze/messages": "One row a message, exactly as received, never changed.",
    "silver/changes": "The unified change table: one row for each fate of each message.",
    "silver/schemas": "The columns that changes name by schema_id.",
    "silver/pending": "Halves of updates that wait for their partner.",
    "silver/quarantine": "Messages that could not be read, with their bytes and the reason.",
    "ops/batches": "What each batch of silver held, by table and kind.",
    "ops/alerts": "What webhooks were told of runs, and which could not be reached.",
    "ops/bad_values": "Cells whose text is no value of their type.",
    "ops/epochs": "Where the epochs of a source begin.",
    "ops/quality_results": "The verdict on each rule, each time that it was judged.",
    "ops/runs": "One row a run that did something.",
    "ops/statements": "DDL and truncates of the sources.",
    "ops/tables": "The state and progress of each table; the highest revision counts.",
}


def description(name: str) -> str:
    """The line for a table `layer/name`; for one that has none of its own, its layer's."""
    return _TABLES.get(name) or LAYERS.get(name.partition("/")[0], "Kept by Mainstem.")
