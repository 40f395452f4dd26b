"""The comment of each schema and table of a lakehouse, as a catalog shows it."""

from __future__ import annotations

from framework.contracts.table_names import (
    ALERTS_TABLE,
    BAD_VALUES_TABLE,
    BATCHES_TABLE,
    CHANGES_TABLE,
    ENCODINGS_TABLE,
    EPOCHS_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUALITY_RESULTS_TABLE,
    QUARANTINE_TABLE,
    REPAIRS_TABLE,
    RUNS_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
    TABLES_TABLE,
)

LAYERS = {
    "bronze": "Messages as they were received.",
    "silver": "Every change, and the outcome of every message.",
    "gold": "Replicas and histories of the source tables.",
    "ops": "Runs, batches, states and bad values.",
}

_TABLES = {
    MESSAGES_TABLE: "One row a message, exactly as received, never changed.",
    CHANGES_TABLE: "The unified change table: one row for each outcome of each message.",
    SCHEMAS_TABLE: "The columns that changes name by schema_id.",
    PENDING_TABLE: "Halves of updates that wait for their partner.",
    QUARANTINE_TABLE: "Messages that could not be read, with their bytes and the reason.",
    BATCHES_TABLE: "What each batch of silver held, by table and kind.",
    ALERTS_TABLE: "What receivers of alerts were told of runs, and which could not be reached.",
    BAD_VALUES_TABLE: "Cells whose text is no value of their type.",
    ENCODINGS_TABLE: "How sources write values whose messages do not say it, as far as values have shown it.",
    EPOCHS_TABLE: "Where the epochs of a source begin.",
    PARTITIONS_TABLE: "How far each partition has come whose order rests on times.",
    QUALITY_RESULTS_TABLE: "The verdict on each rule, each time that it was judged.",
    REPAIRS_TABLE: "Tables whose messages were decoded again; gold rebuilds a replica that is older than the "
    "newest entry.",
    RUNS_TABLE: "One row a run that did something.",
    STATEMENTS_TABLE: "DDL and truncates of the sources.",
    TABLES_TABLE: "The state and progress of each table; the highest revision counts.",
}


def description(name: str) -> str:
    """The comment of a table `layer/name`; its layer's where it has none of its own."""
    return _TABLES.get(name) or LAYERS.get(name.partition("/")[0], "Kept by Mainstem.")
