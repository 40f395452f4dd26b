"""When rules of gold look at all keys, or at a snapshot again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from framework.config.model import Config, load_config
from framework.config.quality import Snapshot
from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, PreviousResults, Rule
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from gold.operations.expectations import IMPLIED_KEYS, _asked_states, _has_no_version, _since
from gold.operations.key_comparison import KeyRules
from gold.planning.table_state import State, TableState
from silver.layer import LAYER as SILVER
from tests.framework.lakehouse.test_local_tables import Table
from tests.silver.operations.test_new_outcomes import Judged

TARGET = CheckTarget("gold", "feed", TableName("shop", None, "item"), batch=5)


def since(replica: Table, version: int, second: int) -> int:
    """The batch after which keys are compared if this version was judged at this second, up to batch 4."""
    run = Run(cast("SparkSession", None), Lakehouse(""), cast("Config", None), "run")
    judged_at = datetime.fromtimestamp(second, UTC)
    result = Judged.result(IMPLIED_KEYS.name, version=version, batch=4, started_at=judged_at)
    rules = KeyRules(None, None, IMPLIED_KEYS)
    return _since(run, TARGET, rules, str(replica.folder), PreviousResults({TARGET.id: [result]}))


def test_all_keys_are_compared_after_an_older_copy_was_put_back(tmp_path: Path) -> None:
    replica = Table(tmp_path)
    for number in range(4):
        replica.commit([number])
    assert since(replica, version=2, second=3) == 4
    assert since(replica, version=3, second=3) == 4
    assert since(replica, version=4, second=3) == -1  # the copy has no such version
    assert since(replica, version=3, second=2) == -1  # it has one again: a commit made after the verdict


@pytest.mark.parametrize(
    ("format_name", "path", "expected"),
    [
        ("csv", "item.csv", False),
        ("csv", "dumps", True),
        ("csv", "missing.csv", True),
        ("parquet", "s3://dumps/item", True),
        ("jdbc", None, True),
    ],
)
def test_only_a_local_file_tells_by_its_time_that_a_snapshot_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, path: str | None, expected: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("item.csv").touch()
    Path("dumps").mkdir()
    snapshot = Snapshot.model_validate({"format": format_name, "path": path})
    assert _has_no_version(Rule("snapshot", "snapshot", snapshot=snapshot)) is expected


@pytest.mark.parametrize(
    ("asked", "sources"),
    [
        (None, ["west", "east"]),
        ("shop.orders", ["west", "east"]),
        ("west.orders", ["west"]),
        ("east.orders", ["east"]),
        ("`east`.orders", ["east"]),
        ("shop.items", []),
    ],
)
def test_a_run_of_one_table_judges_the_table_that_has_the_name_in_gold(
    tmp_path: Path, asked: str | None, sources: list[str]
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n"
        + "".join(f"  {name}: {{format: maxwell, files: ./{name}}}\n" for name in ("west", "east"))
        + "tables:\n"
        + "".join(
            f"  - {{match: shop.orders, source: {name}, replica: {name}.orders}}\n"
            for name in ("west", "east")
        )
    )
    config = load_config(file, formats=SILVER.options())
    run = Run(cast("SparkSession", None), Lakehouse(config.root), config, "run", asked)
    name = TableName("shop", None, "orders")
    states = {(source, name): TableState(source, name, State.ACTIVE) for source in ("east", "old", "west")}
    assert sorted(state.source for state in _asked_states(run, states)) == sorted(sources)
