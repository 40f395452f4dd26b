"""The keys of rows that break a gate: kept with the state of a table as data, and removed by `forget`."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.ddl_actions import TableName
from framework.contracts.erasure import Erasure
from framework.contracts.table_names import TABLES_TABLE
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from gold.operations.parking_reasons import erase_reasons
from gold.planning.gates import GateFailed
from gold.planning.table_state import State, TableState, append_states, read_states
from silver.layer import LAYER as SILVER

ITEM, LINE = TableName("shop", None, "item"), TableName("shop", None, "line")
KEYS = ("id=2, note=a]b", "id=7")
GATED = TableState("feed", ITEM, State.PARKED, reason="GATE_FAILED\n  found: 2 of 5 rows", gate_keys=KEYS)
OLDER = replace(GATED, reason="GATE_FAILED\n  found: 2 of 5 rows: [id=2], [id=7]\n  where: x", gate_keys=None)
ERASURE = Erasure("feed", "shop", None, "item", keys=({"id": "2"},), change_ids=(), places=())


@pytest.fixture
def work(spark: SparkSession, tmp_path: Path) -> Run:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: canal, files: ./landing}\n"
    )
    config = load_config(file, formats=SILVER.options())
    return Run(spark, Lakehouse(config.root), config, "run")


def stored(work: Run, *states: TableState) -> dict[tuple[str, TableName], TableState]:
    append_states(work.spark, work.lake, states, "run")
    return read_states(work.spark, work.lake)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (GATED, KEYS),
        (replace(GATED, gate_keys=()), ()),  # the rule names a column that the table lacks
        (OLDER, ("id=2", "id=7")),
        (replace(GATED, reason="REPLICA_TAKEN\n  found: [x]", gate_keys=None), None),
        (replace(GATED, state=State.ACTIVE, reason=None), None),
    ],
)
def test_the_keys_of_a_gate_are_read_as_they_were_written(
    work: Run, state: TableState, expected: tuple[str, ...] | None
) -> None:
    assert stored(work, state)["feed", ITEM].gate_keys == expected


@pytest.mark.slow
def test_forget_removes_the_keys_of_its_table_from_every_row(work: Run) -> None:
    other = replace(GATED, name=LINE)
    stored(work, OLDER)
    stored(work, replace(GATED, revision=1), other)
    stored(work, replace(GATED, revision=2, state=State.ACTIVE, reason=None))
    assert erase_reasons(work, ERASURE) == 2
    rows = work.lake.read(work.spark, TABLES_TABLE).where("`table` = 'item'").collect()
    assert len(rows) == 3
    assert [row for row in rows if "id=" in f"{row['reason']} {row['profile']}"] == []
    assert read_states(work.spark, work.lake)["feed", LINE].gate_keys == KEYS
    assert erase_reasons(work, ERASURE) == 0
    renamed = replace(ERASURE, former_names=((LINE.database, LINE.schema, LINE.table),))
    assert erase_reasons(work, renamed) == 1
    assert read_states(work.spark, work.lake)["feed", LINE].gate_keys == ()


def test_the_error_of_a_gate_names_no_row_and_keeps_its_keys() -> None:
    error: MainstemError = GateFailed("GATE_FAILED", found="2 of 5 rows", where="w", action="a", keys=KEYS)
    assert "id=" not in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.keys) == (GateFailed, str(error), KEYS)
