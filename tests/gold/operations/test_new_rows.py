"""A rule about single rows is judged on the new files of a replica, as long as it held before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, PreviousResults, Rule
from gold.operations.new_rows import new_rows
from tests.framework.lakehouse.test_local_tables import Table
from tests.silver.operations.test_new_outcomes import Judged

RANGE = Rule("range(id)", "range", ("id",), low=0)
CHANGED = Rule("row_count_change", "row_count_change", percent=20)
TARGET = CheckTarget("gold", "feed", TableName("shop", None, "item"), (RANGE, CHANGED), suite="s")


class Replica:
    """A replica of which version 1 was judged: rows 1 to 3 held the rules."""

    def __init__(self, folder: Path) -> None:
        self.table = Table(folder)
        self.table.commit([1, 2])
        self.table.commit([3])
        self.past: dict[str, Any] = {
            "version": 1,
            "suite": "s",
            "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        }
        self.more: dict[str, Any] = {}

    def told(self, target: CheckTarget = TARGET) -> tuple[int, int] | None:
        """How many rows are to be judged, and how many are not; None for all."""
        results = [Judged.result(rule.name, **{**self.past, **self.more}) for rule in TARGET.rules]
        stored = self.table.read()
        assert stored is not None
        found = new_rows(target, stored, PreviousResults({target.id: results}))
        return None if found is None else (found.count, found.judged)


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return Replica(tmp_path / "item")


def test_rows_of_new_files_are_judged_whoever_wrote_them(replica: Replica) -> None:
    assert replica.told() == (0, 3)
    replica.table.commit([1, 4, 5], remove=["part-0 of it.parquet"])
    assert replica.told() == (3, 1)


@pytest.mark.parametrize(
    "more", [{"success": False}, {"suite": "other"}, {"started_at": datetime(1970, 1, 1, tzinfo=UTC)}]
)
def test_all_rows_are_judged_after_a_failure_with_other_rules_and_in_another_table(
    replica: Replica, more: dict[str, Any]
) -> None:
    replica.more = more
    assert replica.told() is None


@pytest.mark.parametrize(
    "rule",
    [
        Rule("range(id)", "unique", ("id",)),
        Rule("range(id)", "sql", text="id < unix_timestamp()"),
        Rule("range(name)", "range", ("name",), low=0),
    ],
)
def test_rules_about_several_rows_or_the_time_and_new_rules_are_judged_on_all_rows(
    replica: Replica, rule: Rule
) -> None:
    assert replica.told(replace(TARGET, rules=(rule,))) is None
