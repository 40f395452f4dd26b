"""The names of the tables of a lakehouse that Mainstem itself writes, as `layer/name`.

Replicas and histories in gold are named after the tables of the sources.
"""

from __future__ import annotations

MESSAGES_TABLE = "bronze/messages"

CHANGES_TABLE = "silver/changes"
PENDING_TABLE = "silver/pending"
QUARANTINE_TABLE = "silver/quarantine"
SCHEMAS_TABLE = "silver/schemas"

ALERTS_TABLE = "ops/alerts"
BAD_VALUES_TABLE = "ops/bad_values"
BATCHES_TABLE = "ops/batches"
ENCODINGS_TABLE = "ops/encodings"
EPOCHS_TABLE = "ops/epochs"
PARTITIONS_TABLE = "ops/partitions"
QUALITY_RESULTS_TABLE = "ops/quality_results"
REPAIRS_TABLE = "ops/repairs"
RUNS_TABLE = "ops/runs"
STATEMENTS_TABLE = "ops/statements"
TABLES_TABLE = "ops/tables"
