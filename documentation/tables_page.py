"""The page docs/reference/tables.md, from the schemas of the tables and the meanings of their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql.types import StructType

from documentation.column_meanings import MEANINGS, SHARED
from framework.contracts import table_names as names
from framework.contracts.table_comments import description
from framework.contracts.table_schemas import CHANGES, MESSAGES, QUALITY_RESULTS, QUARANTINE, SCHEMAS
from framework.pipeline.alerts import ALERTS_SCHEMA
from framework.pipeline.run_history import RUNS_SCHEMA
from framework.text.tables import markdown
from gold.planning.table_state import SCHEMA as TABLES_SCHEMA
from gold.writing.bad_values import BAD_VALUES_SCHEMA
from silver.batches.batch_counts import COUNTS_SCHEMA

SCHEMAS_OF: Mapping[str, StructType | str] = {
    names.MESSAGES_TABLE: MESSAGES,
    names.CHANGES_TABLE: CHANGES,
    names.SCHEMAS_TABLE: SCHEMAS,
    names.QUARANTINE_TABLE: QUARANTINE,
    names.RUNS_TABLE: RUNS_SCHEMA,
    names.BATCHES_TABLE: COUNTS_SCHEMA,
    names.TABLES_TABLE: TABLES_SCHEMA,
    names.BAD_VALUES_TABLE: BAD_VALUES_SCHEMA,
    names.QUALITY_RESULTS_TABLE: QUALITY_RESULTS,
    names.ALERTS_TABLE: ALERTS_SCHEMA,
}
"""The schemas of the tables whose columns the page explains."""

_HEAD = """\
# Tables and columns

Everything that Mainstem knows is in Delta tables below the lakehouse, or in the schemas `bronze`, `silver`,
`gold` and `ops` of a catalog. `mainstem sql` reads them all, read-only:
`mainstem sql "SELECT * FROM ops.runs"`. The names on this page are stable; a later release may add columns.

<!-- made by `make reference-pages` from framework/contracts/ and the schemas of the layers -->

## gold/‹database›/‹table›

The replica of a source table; with schemas, `gold/‹database›.‹schema›/‹table›`. It has the columns of the
source, in their order, with their types, and then:

| column | type | meaning |
|---|---|---|
| `_cdc_sequence` | string | the position of the newest change of the row |
| `_cdc_event_time` | timestamp | when the source says that this change happened |
| `_cdc_change_id` | string | the `change_id` of this change in `silver/changes` |
| `_cdc_deleted` | boolean | with `deletes: soft`: whether the row was deleted |
| `_cdc_op` | string | in tables without a key, which are append-only: the operation of the change |

## gold/‹database›/‹table›__history

All versions of the rows, if the configuration says `history: true`. The columns of the replica, and:

| column | type | meaning |
|---|---|---|
| `_cdc_valid_from` | timestamp | the version is valid from this time; null if that is unknown |
| `_cdc_valid_to` | timestamp | the version is valid until this time; null for the current version |
| `_cdc_is_current` | boolean | whether the version is the current one |
| `_cdc_op` | string | the operation that made the version |
"""
_HEADS = ("column", "type", "meaning")
_COLUMN = re.compile(r"`?(\w+)`? ([\w<>]+)")
_OTHERS = (
    names.PENDING_TABLE,
    names.STATEMENTS_TABLE,
    names.EPOCHS_TABLE,
    names.PARTITIONS_TABLE,
    names.ENCODINGS_TABLE,
    names.REPAIRS_TABLE,
)


def tables_page() -> str:
    """All tables with their columns, types and meanings, as Markdown."""
    return "\n".join(_lines()) + "\n"


def columns_of(schema: StructType | str) -> dict[str, str]:
    """The columns of a schema with their types as Spark SQL writes them."""
    if isinstance(schema, str):
        return dict(_COLUMN.findall(schema))
    return {field.name: field.dataType.simpleString() for field in schema}


def meaning(table: str, column: str) -> str:
    """What a column means. Raises KeyError if documentation/column_meanings.py does not say it."""
    own = MEANINGS[table]
    return own[column] if column in own else SHARED[column]


def _lines() -> Iterator[str]:
    yield _HEAD
    for table, schema in SCHEMAS_OF.items():
        yield f"## {table}\n\n{description(table)}\n"
        rows = [(name, f"`{kind}`", meaning(table, name)) for name, kind in columns_of(schema).items()]
        yield from markdown(_HEADS, rows)
        yield ""
    yield "## Other tables\n\nMainstem keeps its own notes in them.\n"
    yield from markdown(("table", "what it holds"), [(table, description(table)) for table in _OTHERS])
