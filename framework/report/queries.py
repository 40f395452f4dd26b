"""The queries of a report, one or two for each table: each returns few rows, and none reads a replica."""

from __future__ import annotations

from framework.contracts import dismissals
from framework.contracts.table_names import (
    BAD_VALUES_TABLE,
    BATCHES_TABLE,
    EPOCHS_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUALITY_RESULTS_TABLE,
    QUARANTINE_TABLE,
    RUNS_TABLE,
    STATEMENTS_TABLE,
    TABLES_TABLE,
)
from framework.lakehouse.table_reader import Query

MAX_CHANGES = 300
MAX_CHECKS = 5000
MAX_BAD_VALUES = 500
MAX_TEXT = 500
"""How many characters of a text are shown."""

_EXCERPT_BYTES = 4_000

_RUNS = Query(
    RUNS_TABLE,
    "SELECT `run_id`, `finished_at`, `seconds`, `steps`, `counts`, `tables`, `errors` FROM {rows} "
    "ORDER BY `finished_at` DESC NULLS LAST LIMIT 50",
    {"seconds": "double", "steps": "string"},
)
_OUTCOMES = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `kind`, sum(`rows`) AS `rows`, "
    "sum(`merged`) AS `merged`, max(`max_event_time`) AS `event_time`, "
    "max(`max_ingested_at`) AS `ingested_at`, max(`batch`) AS `newest_batch` FROM {rows} "
    "WHERE `batch` >= {first} GROUP BY `source`, `database`, `schema`, `table`, `kind` "
    "ORDER BY `source` NULLS FIRST, `database` NULLS FIRST, `schema` NULLS FIRST, `table` NULLS FIRST, "
    "`kind`",
)
BATCHES_AFTER = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `kind`, `batch` FROM (SELECT *, row_number() OVER "
    "(PARTITION BY `source`, `database`, `schema`, `table`, `kind` ORDER BY `batch` DESC) AS `n` FROM "
    "(SELECT DISTINCT `source`, `database`, `schema`, `table`, `kind`, `batch` FROM {rows} "
    "WHERE `kind` IN ('row', 'ddl', 'truncate') AND `batch` > {first}) AS batches) "
    "AS numbered WHERE `n` <= 1000",
)
"""The newest batches of each table after one; asked only where a table is behind."""
_BATCHES = Query(
    BATCHES_TABLE,
    "SELECT `batch`, sum(`rows`) AS `rows`, max(`max_event_time`) AS `event_time`, "
    "max(`max_ingested_at`) AS `ingested_at` FROM {rows} WHERE `batch` >= {first} "
    "GROUP BY `batch` ORDER BY `batch` DESC NULLS LAST LIMIT 50",
)
_TABLES = Query(
    TABLES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `state`, `reason`, `replica`, `history`, `keys`, "
    "`columns`, `batch`, `sequence`, `event_time`, `changes_applied`, `late` FROM (SELECT *, "
    "row_number() OVER (PARTITION BY `source`, `database`, `schema`, `table` ORDER BY `revision` DESC) "
    "AS `n` FROM {rows}) AS numbered WHERE `n` = 1 "
    "ORDER BY `source` NULLS FIRST, `database` NULLS FIRST, `schema` NULLS FIRST, `table` NULLS FIRST",
)
_COLUMN_CHANGES = Query(
    TABLES_TABLE,
    "SELECT * FROM (SELECT `source`, `database`, `schema`, `table`, `recorded_at`, `columns`, "
    "lag(`columns`) OVER (PARTITION BY `source`, `database`, `schema`, `table` ORDER BY `revision`) "
    "AS `former` FROM {rows}) AS seen WHERE `former` <> '[]' AND `columns` <> `former` "
    "ORDER BY `recorded_at` DESC NULLS LAST, `source`, `table` LIMIT 300",
)
_STATEMENTS = Query(
    STATEMENTS_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `kind`, `event_time`, "
    "substr(`statement`, 1, 500) AS `statement`, `actions`, `batch` FROM {rows} "
    "ORDER BY `event_time` DESC NULLS LAST, `batch` DESC NULLS LAST, `sequence` DESC NULLS LAST LIMIT 300",
)
_WAITING = Query(
    PENDING_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, count(*) AS `rows`, min(`event_time`) AS `oldest` "
    "FROM {rows} GROUP BY `source`, `database`, `schema`, `table` "
    "ORDER BY `source` NULLS FIRST, `database` NULLS FIRST, `schema` NULLS FIRST, `table` NULLS FIRST",
)
_REFUSALS = Query(
    QUARANTINE_TABLE,
    "SELECT `source`, `format`, `reason`, count(*) AS `rows`, min(`first_seen_at`) AS `first`, "
    "max(`last_seen_at`) AS `last` FROM {rows} WHERE NOT `is_resolved` AND `dismissed_at` IS NULL "
    "GROUP BY `source`, `format`, `reason` "
    "ORDER BY `source` NULLS FIRST, `format` NULLS FIRST, `reason` NULLS FIRST",
    dismissals.COLUMNS,
)
_DISMISSED = Query(
    QUARANTINE_TABLE,
    "SELECT `source`, `reason`, `dismissed_because` AS `because`, `dismissed_by` AS `by`, "
    "max(`dismissed_at`) AS `at`, count(*) AS `rows` "
    "FROM {rows} WHERE NOT `is_resolved` AND `dismissed_at` IS NOT NULL "
    "GROUP BY `source`, `reason`, `dismissed_because`, `dismissed_by` "
    "ORDER BY max(`dismissed_at`) DESC NULLS LAST, `source` NULLS FIRST, `reason` NULLS FIRST",
    dismissals.COLUMNS,
)
_REFUSED = Query(
    QUARANTINE_TABLE,
    "SELECT `source`, `format`, `topic`, `partition`, `offset`, `reason`, "
    "substr(`detail`, 1, 500) AS `detail`, `first_seen_at`, `key`, `value` FROM (SELECT *, row_number() OVER "
    "(PARTITION BY `source`, `reason` ORDER BY `last_seen_at` DESC NULLS LAST, `batch` DESC NULLS LAST, "
    "`topic` NULLS FIRST, `partition` NULLS FIRST, `offset` NULLS FIRST) AS `n` FROM {rows} "
    "WHERE NOT `is_resolved` AND `dismissed_at` IS NULL) AS numbered WHERE `n` <= 5 "
    "ORDER BY `n`, `source` NULLS FIRST, `reason` NULLS FIRST LIMIT 60",
    dismissals.COLUMNS,
    {"key": _EXCERPT_BYTES, "value": _EXCERPT_BYTES},
)
_BAD_VALUES = Query(
    BAD_VALUES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `column`, `reason`, sum(`cells`) AS `rows`, "
    "max(CASE WHEN `n` = 1 THEN substr(`text`, 1, 500) END) AS `text`, "
    "max(CASE WHEN `n` = 1 THEN `change_id` END) AS `change_id` FROM (SELECT *, row_number() OVER "
    "(PARTITION BY `source`, `database`, `schema`, `table`, `column`, `reason` "
    "ORDER BY `sequence` DESC NULLS LAST, `change_id` DESC NULLS LAST) AS `n` FROM "
    "(SELECT `source`, `database`, `schema`, `table`, coalesce(`column`, 'several columns') AS `column`, "
    "`reason`, `text`, `change_id`, `sequence`, "
    "CASE WHEN `reason` = 'not_listed' THEN try_cast(`text` AS bigint) ELSE 1 END AS `cells` "
    "FROM {rows}) AS named) AS numbered "
    "GROUP BY `source`, `database`, `schema`, `table`, `column`, `reason` "
    "ORDER BY `rows` DESC NULLS LAST, `source` NULLS FIRST, `database` NULLS FIRST, `schema` NULLS FIRST, "
    "`table` NULLS FIRST, `column`, `reason` NULLS FIRST LIMIT 500",
)
_OF_NEWEST_CHECKS = (
    "FROM (SELECT *, max(`started_at`) OVER (PARTITION BY `source`, `database`, `schema`, `table`, `layer`) "
    "AS `newest` FROM {rows}) AS dated WHERE `started_at` = `newest`"
)
_CHECKS = Query(
    QUALITY_RESULTS_TABLE,
    "SELECT `run_id`, `started_at`, `checked_at`, `layer`, `source`, `database`, `schema`, `table`, `rule`, "
    "`kind`, `columns`, `severity`, `success`, substr(`expected`, 1, 500) AS `expected`, "
    "substr(`observed`, 1, 500) AS `observed`, `checked_count`, `failed_count`, `failing_keys`, "
    "substr(`detail`, 1, 500) AS `detail`, `is_gate`, `engine`, `version`, `batch`, `suite` "
    f"{_OF_NEWEST_CHECKS} "
    "ORDER BY `success` NULLS FIRST, `severity` NULLS FIRST, `source` NULLS FIRST, `database` NULLS FIRST, "
    "`schema` NULLS FIRST, `table` NULLS FIRST, `layer` NULLS FIRST, `rule` LIMIT 5000",
)
"""The newest results of each table: a run that judges a table anew writes the results of all its rules."""
CHECK_COUNTS = Query(
    QUALITY_RESULTS_TABLE,
    "SELECT `layer`, `source`, `database`, `schema`, `table`, `severity`, `success`, count(*) AS `rows` "
    f"{_OF_NEWEST_CHECKS} "
    "GROUP BY `layer`, `source`, `database`, `schema`, `table`, `severity`, `success`",
)
"""How many of the newest results each table has; asked only where the list of them is cut."""
_VERDICTS = Query(
    QUALITY_RESULTS_TABLE,
    "SELECT `run_id`, min(`started_at`) AS `started_at`, "
    "count(*) FILTER (WHERE NOT `success` AND `severity` = 'error') AS `errors`, "
    "count(*) FILTER (WHERE NOT `success` AND `severity` = 'warn') AS `warnings` FROM {rows} "
    "GROUP BY `run_id` ORDER BY `started_at` DESC NULLS LAST LIMIT 50",
)
PARTITIONS = Query(
    PARTITIONS_TABLE,
    "SELECT `source`, `topic`, `partition`, `last_offset` FROM (SELECT *, row_number() OVER "
    "(PARTITION BY `source`, `topic`, `partition` ORDER BY `epoch` DESC NULLS LAST, "
    "`batch` DESC NULLS LAST, `last_offset` DESC NULLS LAST) AS `n` FROM {rows}) AS numbered WHERE `n` = 1 "
    "ORDER BY `source` NULLS FIRST, `topic` NULLS FIRST, `partition` NULLS FIRST",
)
QUERIES = {
    "runs": _RUNS,
    "outcomes": _OUTCOMES,
    "batches": _BATCHES,
    "tables": _TABLES,
    "column_changes": _COLUMN_CHANGES,
    "statements": _STATEMENTS,
    "waiting": _WAITING,
    "epochs": Query(EPOCHS_TABLE, "SELECT * FROM {rows}"),
    "refusals": _REFUSALS,
    "refused": _REFUSED,
    "dismissed": _DISMISSED,
    "bad_values": _BAD_VALUES,
    "checks": _CHECKS,
    "verdicts": _VERDICTS,
}
"""The queries by the names under which `collect` uses their rows."""
COUNTED = frozenset({"outcomes", "batches"})
"""The queries of batches with the parameter `first`: the first batch of which silver has the changes."""
