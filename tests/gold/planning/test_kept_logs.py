"""What a run keeps of the logs answers as the queries of the whole logs do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import BATCHES_TABLE, STATEMENTS_TABLE, TABLES_TABLE
from framework.lakehouse.kept_rows import Log
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalReader
from framework.lakehouse.table_reader import Row
from gold.planning.discovery import _EXTENTS, _STATEMENTS
from gold.planning.kept_logs import STATEMENTS, STATES, counts_log, extents_of
from gold.planning.table_state import _NEWEST_STATES, table_id
from gold.planning.unmatched_patterns import _KEPT_OUT

KINDS = ("row", "ddl", "truncate", "excluded", "quarantined", "heartbeat", "duplicate")
COUNTS = pa.schema(
    [(name, pa.string()) for name in ("source", "database", "schema", "table", "kind", "reason")]
    + [
        ("batch", pa.int64()),
        ("rows", pa.int64()),
        ("min_sequence", pa.string()),
        ("max_sequence", pa.string()),
    ]
)


def counts(random: Random, batches: int) -> list[dict[str, Any]]:
    return [
        {
            "source": random.choice(("shop", "crm")),
            "database": "db",
            "schema": random.choice((None, "s")),
            "table": random.choice((None, "a", "b", "c")),
            "kind": random.choice(KINDS),
            "reason": random.choice((None, None, "late", FORGOTTEN)),
            "batch": batch * 1000 + random.choice((0, 0, 1)),
            "rows": random.randint(0, 9),
            "min_sequence": random.choice((None, f"00{random.randint(1, 9)}")),
            "max_sequence": random.choice((None, f"01{random.randint(1, 9)}")),
        }
        for batch in range(batches)
        for _ in range(random.randint(1, 4))
    ]


def write(lake: Lakehouse, table: str, rows: Sequence[Row], schema: pa.Schema) -> None:
    write_deltalake(lake.location(table), pa.Table.from_pylist([dict(row) for row in rows], schema))


def parted(random: Random, rows: Sequence[Row], *logs: Log) -> Sequence[Row]:
    """The rows that count, when some are reduced at a time, each time in the way of the next log."""
    found: Sequence[Row] = ()
    cuts = sorted(random.randint(0, len(rows)) for _ in logs[1:])
    for log, start, end in zip(logs, (0, *cuts), (*cuts, len(rows)), strict=True):
        found = log.reduce([*found, *rows[start:end]])
    return found


def test_kept_counts_answer_as_all_counts_do(tmp_path: Path) -> None:
    for seed in range(40):
        random = Random(seed)
        rows = counts(random, random.randint(1, 8))
        lake = Lakehouse(str(tmp_path / str(seed)))
        write(lake, BATCHES_TABLE, rows, COUNTS)
        steps = sorted(random.choice((-1, *range(0, 8001, 500))) for _ in range(4))
        applied = steps[-1]
        kept = parted(random, rows, *map(counts_log, steps))
        expected = LocalReader(lake).rows(_EXTENTS, applied=applied, forgotten=FORGOTTEN)
        assert _told(extents_of(kept, applied)) == _told(expected), seed
        kept_out = {table_id(row) for row in kept if row["kind"] in ("excluded", "quarantined")}
        assert kept_out == {table_id(row) for row in LocalReader(lake).rows(_KEPT_OUT)}, seed


def _told(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(sorted({**row, "new": row["new"] or 0}.items())) for row in rows)


def test_counts_that_are_kept_do_not_grow_with_batches() -> None:
    log = counts_log(10**9)
    young, old = (log.reduce(counts(Random(seed), size)) for seed, size in ((1, 2_000), (2, 8_000)))
    assert len(old) == len(young)


def test_the_newest_states_that_are_kept_are_those_of_the_query(tmp_path: Path) -> None:
    random, lake = Random(3), Lakehouse(str(tmp_path))
    rows = [
        {**dict.fromkeys(STATES.columns), "source": "shop", "table": table, "revision": revision}
        for revision in range(50)
        for table in random.sample("abcd", 2)
    ]
    numbers = {"revision", "batch", "changes_applied", "late", "bad_values"}
    schema = pa.schema([(n, pa.int64() if n in numbers else pa.string()) for n in STATES.columns])
    write(lake, TABLES_TABLE, rows, schema)
    kept = parted(random, rows, STATES, STATES, STATES)
    expected = LocalReader(lake).rows(_NEWEST_STATES)
    assert {(row["table"], row["revision"]) for row in kept} == {
        (row["table"], row["revision"]) for row in expected
    }
    assert len(kept) == len(expected) == 4


def test_statements_that_are_kept_are_those_of_the_query(tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path))
    rows = [
        {**dict.fromkeys(STATEMENTS.columns, text), "table": table} for text in "xy" for table in (None, "t")
    ]
    write(lake, STATEMENTS_TABLE, rows, pa.schema([(name, pa.string()) for name in STATEMENTS.columns]))
    kept = STATEMENTS.reduce(rows)
    assert sorted(map(str, kept)) == sorted(
        str({name: row[name] for name in STATEMENTS.columns}) for row in LocalReader(lake).rows(_STATEMENTS)
    )
