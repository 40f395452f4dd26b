"""How many cells of each table did not fit their type, by `ops/bad_values`."""

from __future__ import annotations

from framework.contracts.table_names import BAD_VALUES_TABLE
from framework.lakehouse.table_reader import Query

BAD_CELLS = Query(
    BAD_VALUES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, "
    "sum(CASE WHEN `reason` = 'not_listed' THEN try_cast(`text` AS bigint) ELSE 1 END) AS `cells` "
    "FROM {rows} GROUP BY `source`, `database`, `schema`, `table`",
)
"""The number of cells (`cells`) by table. One row of a table may stand for all that are not listed."""
