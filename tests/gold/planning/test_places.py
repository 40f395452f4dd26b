"""Two tables never share a replica: the one that has it keeps it, the other gets an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import AddColumn, CreateTable, RenameTable, TableName
from framework.lakehouse.lakehouse import Lakehouse
from gold.planning.places import displaced_states, with_rivals
from gold.planning.table_state import RENAMED, State, TableState, read_states
from gold.planning.task import Task, folder_of
from gold.schema.lineage import Lineage, Segment
from tests.gold.silver_builder import GoldPipeline, ddl, insert, row


def task(
    source: str,
    table: str,
    *,
    replica: str | None = None,
    has_replica: bool = False,
    at: str | None = None,
    state: State = State.ACTIVE,
    reason: str | None = None,
    is_excluded: bool = False,
    renamed_to: TableName | None = None,
    has_rows: bool = True,
) -> Task:
    name = TableName("shop", None, table)
    lineage = Lineage(name, (Segment(name, "", None),), renamed_to=renamed_to)
    settings = TableSettings(replica=replica, exclude=is_excluded)
    found = Task(
        source, lineage, TableState(source, name, state, reason=reason), settings, 0, 0, 1, has_rows=has_rows
    )
    place = folder_of(found) if at is None else at
    return (
        replace(found, state=replace(found.state, replica=f"/lake/gold/{place}"))
        if has_replica or at
        else found
    )


def rivals(*tasks: Task) -> list[str | None]:
    return [found.rival for found in with_rivals(tasks)]


def test_two_sources_do_not_feed_one_replica() -> None:
    assert rivals(task("a", "orders"), task("b", "orders")) == [None, "shop.orders of source a"]
    assert rivals(task("a", "orders"), task("b", "orders", has_replica=True)) == [
        "shop.orders of source b",
        None,
    ]
    assert rivals(task("a", "orders"), task("b", "orders", replica="shop.other")) == [None, None]


def test_names_that_differ_by_case_are_one_place() -> None:
    assert rivals(task("a", "orders"), task("a", "Orders"), task("a", "items")) == [
        None,
        "shop.orders of source a",
        None,
    ]
    assert rivals(task("a", "orders"), task("a", "items", replica="shop.ORDERS")) == [
        None,
        "shop.orders of source a",
    ]


def test_a_table_that_was_renamed_has_no_place_of_its_own() -> None:
    new = TableName("shop", None, "Orders")
    assert rivals(task("a", "orders", has_replica=True, renamed_to=new), task("a", "Orders")) == [None, None]


def test_the_table_that_a_folder_holds_comes_before_one_with_a_replica_elsewhere() -> None:
    visitor = task("a", "items", replica="shop.orders", at="shop/items")
    assert rivals(visitor, task("a", "orders", has_replica=True)) == ["shop.orders of source a", None]
    dropped = task("a", "orders", has_replica=True, state=State.DROPPED)
    assert rivals(visitor, dropped) == ["shop.orders of source a", None]


def test_the_folder_that_a_table_left_when_it_was_renamed_is_not_its_own_any_more() -> None:
    again = task("a", "a_new", at="shop/a_new", state=State.DROPPED, reason=RENAMED)
    taker = task("a", "item", replica="shop.a_new", at="shop/a_new")
    assert rivals(again, taker) == ["shop.item of source a", None]


def test_a_table_known_from_statements_alone_yields_to_one_with_rows_of_another_source() -> None:
    phantom, real = task("crm", "orders", has_rows=False), task("shop", "orders")
    for one in (phantom, task("crm", "orders", has_rows=False, has_replica=True)):
        yielding, owner = with_rivals([one, real])
        assert (yielding.rival, yielding.yields, yielding.has_place) == (None, True, False)
        assert (owner.rival, owner.yields) == (None, False)


def test_a_table_known_from_statements_alone_has_a_place_where_it_is_alone() -> None:
    first, second = with_rivals(
        [task("crm", "orders", has_rows=False), task("shop", "orders", has_rows=False)]
    )
    assert (first.has_place, first.rival) == (True, None)
    assert (second.has_place, second.rival) == (False, None)


def test_a_table_known_from_statements_alone_does_not_yield_within_its_source() -> None:
    """Its statements may be about the table with rows: only people can tell."""
    assert rivals(task("a", "Orders", has_rows=False), task("a", "orders")) == [
        "shop.orders of source a",
        None,
    ]


def test_a_table_that_yields_loses_its_empty_replica_to_the_one_with_rows() -> None:
    phantom, real = with_rivals(
        [task("crm", "orders", has_rows=False, has_replica=True), task("shop", "orders")]
    )
    states = {(one.source, one.name): one.state for one in (phantom, real)}
    found = displaced_states(Lakehouse("/lake"), [phantom, real], [phantom, real], states)
    assert found == [replace(phantom.state, replica=None)]


def test_a_rebuild_of_an_excluded_table_does_not_take_the_place_of_another() -> None:
    visitor = task("a", "items", replica="shop.orders", at="shop/orders")
    assert rivals(task("a", "orders", is_excluded=True), visitor) == ["shop.items of source a", None]


def test_whoever_writes_a_folder_takes_it_from_tables_of_other_sources_too() -> None:
    former, other = task("s1", "orders", has_replica=True), task("s1", "items", has_replica=True)
    states = {(one.source, one.name): one.state for one in (former, other)}
    writer = task("s2", "orders")

    def displaced(tasks: list[Task], chosen: list[Task]) -> list[TableState]:
        return displaced_states(Lakehouse("/lake"), tasks, chosen, states)

    assert displaced([writer], [writer]) == [replace(former.state, replica=None)]
    assert displaced([writer], []) == []
    assert displaced([former, other], [former]) == []
    assert displaced([replace(writer, rival="shop.orders of source s1")], [writer]) == []


@pytest.mark.slow
def test_a_table_keeps_its_replica_when_another_one_is_to_have_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    pipeline.add_batch(insert("a", 1, row(1, v="A")), insert("b", 2, row(2, v="B")))
    pipeline.apply()
    pipeline.configure("  - {match: db.a, replica: db.b}\n")
    assert "REPLICA_TAKEN" in (pipeline.apply()["a"].state.reason or "")
    assert pipeline.rows("b") == [{"id": 2, "v": "B"}]


@pytest.mark.slow
def test_a_table_whose_place_another_one_had_meanwhile_is_rebuilt(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    pipeline.add_batch(insert("a", 1, row(1, v="A")), insert("b", 2, row(2, v="B")))
    pipeline.apply()
    pipeline.configure("  - {match: db.a, exclude: true}\n  - {match: db.b, replica: db.a}\n")
    pipeline.apply()
    assert (pipeline.state("a").replica, pipeline.rows("a")) == (None, [{"id": 2, "v": "B"}])
    pipeline.configure("")
    assert pipeline.apply()["a"].notes == ("rebuilt: another table was written in its place",)
    assert (pipeline.rows("a"), pipeline.rows("b")) == ([{"id": 1, "v": "A"}], [{"id": 2, "v": "B"}])
    assert pipeline.apply() == {}


@pytest.mark.slow
def test_a_renamed_table_keeps_the_place_of_its_former_name_when_that_is_created_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p", "  - {match: db.t_new, replica: db.t}\n")
    pipeline.add_batch(insert("t", 1, row(1)))
    pipeline.apply()
    pipeline.add_batch(ddl("t", 2, RenameTable(TableName("db", None, "t_new"))))
    pipeline.apply()
    pipeline.add_batch(insert("t", 3, row(2)))
    for _ in range(2):
        assert "REPLICA_TAKEN" in (pipeline.apply()["t"].state.reason or "")
        assert pipeline.rows("t") == [{"id": 1}]


@pytest.mark.slow
def test_a_source_that_only_has_the_statements_of_a_table_leaves_its_place_to_the_one_with_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    sources = pipeline.config.sources
    pipeline.config = pipeline.config.model_copy(update={"sources": {"crm": sources["feed"], **sources}})
    create = ddl("t", 1, CreateTable((AddColumn("id", "bigint", "bigint"),), ("id",)))
    pipeline.source = "crm"
    pipeline.add_batch(create)
    pipeline.source = "feed"
    pipeline.add_batch(create, insert("t", 2, row(1, v="A")))
    pipeline.apply()
    found = read_states(spark, pipeline.lake)
    assert {name: (state.state, state.replica is None) for (name, _), state in found.items()} == {
        "crm": (State.ACTIVE, True),
        "feed": (State.ACTIVE, False),
    }
    assert pipeline.rows("t") == [{"id": 1, "v": "A"}]
    assert pipeline.apply() == {}
