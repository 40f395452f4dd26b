"""Entries of `tables` that match no table are told, with what silver knows of all sources read once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from framework.contracts.ddl_actions import TableName
from framework.errors import nearest
from gold.planning import unmatched_patterns as planning
from gold.planning.unmatched_patterns import unknown_columns, unmatched_patterns

SOURCES = ("a", "b", "c")


def task(source: str, table: str) -> Any:
    former = SimpleNamespace(table=TableName("shop", None, f"former_{table}"))
    lineage = SimpleNamespace(segments=[former])
    return SimpleNamespace(source=source, name=TableName("shop", None, table), lineage=lineage, state=None)


def run_with(*entries: tuple[str | None, str]) -> Any:
    rules = [SimpleNamespace(source=source, match=match) for source, match in entries]
    return SimpleNamespace(config=SimpleNamespace(tables=rules))


def test_entries_of_each_source_are_compared_with_its_own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[object]()
    kept_out = {TableName("shop", None, "quarantined")}
    monkeypatch.setattr(planning, "_kept_out", lambda run: read.append(run) or kept_out)
    tasks = [task(source, f"of_{source}") for source in SOURCES]
    matching = [(None, "shop.of_b"), ("a", "shop.of_a"), ("b", "shop.former_of_b"), ("new", "shop.any")]
    assert unmatched_patterns(run_with(*matching), tasks) == ()
    assert read == []
    others = [("a", "shop.of_b"), (None, "x.y"), ("b", "x.*"), ("c", "x.*"), ("c", "shop.quarantined")]
    found = unmatched_patterns(run_with(*matching, *others), tasks)
    assert [note.split(" so far")[0] for note in found] == [
        "tables: no table matches 'x.y'",
        "tables of source a: no table matches 'shop.of_b'",
        "tables of source b: no table matches 'x.*'",
        "tables of source c: no table matches 'x.*'",
    ]
    assert len(read) == 1  # once for each source before: with a thousand of them, a thousand queries


def test_only_the_first_few_unknown_columns_are_compared_with_those_that_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A feed in capitals and entries in small letters: each name of thousands of tables took milliseconds."""
    compared = list[str]()
    monkeypatch.setattr(
        planning, "nearest", lambda name, known: compared.append(name) or nearest(name, known)
    )
    state = SimpleNamespace(profile=SimpleNamespace(evidence={("", "PRICE"): None}), columns=())
    tasks = [task("a", f"t{number}") for number in range(20)]
    entries = [(None, f"shop.t{number}") for number in range(20)]
    run = run_with(*entries)
    for rule in run.config.tables:
        rule.columns = {"price": None, "Price": None}
    found = unknown_columns(run, tasks, {(each.source, each.name): state for each in tasks})
    assert len(found) == 40
    assert found[0].endswith("has a column 'price' so far; did you mean 'PRICE'?")
    assert len(compared) == 5
