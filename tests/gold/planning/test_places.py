"""Two tables never share a replica: the one that has it keeps it, the other gets an error."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import AddColumn, CreateTable, DropTable, RenameTable, TableName
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from gold.job import rebuild_gold, run_gold
from gold.planning.discovery import all_tasks, waiting_tasks
from gold.planning.places import displaced_states, in_its_place, with_rivals
from gold.planning.table_state import RENAMED, State, TableState, read_states
from gold.planning.task import Task, folder_of
from gold.schema.lineage import Lineage, Segment
from tests.gold.silver_builder import ChangeSpec, GoldPipeline, ddl, insert, row, update


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
    refused = replace(writer, rival="shop.orders of source s1", is_rival_unnamed=True)
    assert displaced([refused], [refused]) == []
    assert displaced([refused], [replace(in_its_place(refused), is_rebuild=True)]) == [
        replace(former.state, replica=None)
    ]


def test_a_table_of_a_source_that_is_not_configured_keeps_its_place() -> None:
    former = {"shop/orders": task("s1", "orders", has_replica=True).state}
    found, silent, other = with_rivals(
        [task("s2", "Orders"), task("s3", "orders", has_rows=False), task("s2", "items")], former
    )
    assert (found.rival, found.is_rival_unnamed, found.yields) == ("shop.orders of source s1", True, False)
    assert (silent.rival, silent.yields) == (None, True)
    assert (other.rival, other.yields) == (None, False)
    (owner,) = with_rivals([task("s2", "orders", has_replica=True)], former)
    assert owner.rival is None


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


class TwoSources:
    """A pipeline of which `name` says which sources the configuration names."""

    def __init__(self, spark: SparkSession, folder: Path, tables: str = "  - {match: db.*, history: true}\n"):
        self.pipeline = GoldPipeline(spark, folder, tables)
        self.source = self.pipeline.config.sources["feed"]

    def name(self, *sources: str) -> None:
        named = dict.fromkeys(sources, self.source)
        self.pipeline.config = self.pipeline.config.model_copy(update={"sources": named})

    def add(self, source: str, *events: ChangeSpec) -> None:
        self.pipeline.source = source
        self.pipeline.add_batch(*events)

    def run(self) -> dict[tuple[str, str], tuple[State, str | None]]:
        """What gold did: the state of each table, and the code of its reason."""
        found = run_gold(self.pipeline.spark, self.pipeline.lake, self.pipeline.config, "run")
        return {(a.state.source, a.state.name.table): _outcome(a.state) for a in found.tables}

    def state(self, source: str, table: str = "t") -> TableState:
        return read_states(self.pipeline.spark, self.pipeline.lake)[source, TableName("db", None, table)]

    def rival(self, table: str = "t") -> str | None:
        """Why the table would be parked, as `plan` says it."""
        run = Run(self.pipeline.spark, self.pipeline.lake, self.pipeline.config, "plan")
        (found,) = (one for one in waiting_tasks(run, all_tasks(run)) if one.name.table == table)
        return found.rival


def _outcome(state: TableState) -> tuple[State, str | None]:
    return state.state, state.reason.split()[0] if state.reason else None


_ACTIVE = (State.ACTIVE, None)
_UNNAMED = (State.PARKED, "REPLICA_OF_UNNAMED_SOURCE")


@pytest.mark.slow
def test_a_source_that_is_left_out_for_a_run_does_not_lose_its_replica(
    spark: SparkSession, tmp_path: Path
) -> None:
    two = TwoSources(spark, tmp_path / "p")
    two.name("a", "b")
    two.add("a", insert("t", 1, row(1, v="of a")))
    two.add("b", insert("t", 1, row(2, v="of b")))
    assert two.run() == {("a", "t"): _ACTIVE, ("b", "t"): (State.PARKED, "REPLICA_TAKEN")}
    two.name("b")
    assert two.run() == {("b", "t"): _UNNAMED}
    assert two.pipeline.rows("t") == [{"id": 1, "v": "of a"}]
    two.name("a", "b")
    two.add("a", update("t", 2, None, row(1, v="later")))
    assert two.run() == {("a", "t"): _ACTIVE, ("b", "t"): (State.PARKED, "REPLICA_TAKEN")}
    assert [version["v"] for version in two.pipeline.history("t")] == ["of a", "later"]


@pytest.mark.slow
def test_a_renamed_source_takes_the_replica_of_its_former_name_only_with_a_rebuild(
    spark: SparkSession, tmp_path: Path
) -> None:
    two = TwoSources(spark, tmp_path / "p")
    two.name("orders")
    two.add("orders", insert("t", 1, row(1, v="old")), insert("t", 2, row(2, v="old")))
    assert two.run() == {("orders", "t"): _ACTIVE}
    two.name("shop_orders")
    two.add("shop_orders", insert("t", 2, row(2, v="old")))
    assert two.rival() == "db.t of source orders"
    assert two.run() == {("shop_orders", "t"): _UNNAMED}
    assert len(two.pipeline.history("t")) == 2
    assert "`mainstem rebuild db.t`" in (two.state("shop_orders").reason or "")

    rebuilt = rebuild_gold(spark, two.pipeline.lake, two.pipeline.config, "rebuild", "db.t")
    assert [_outcome(one.state) for one in rebuilt.tables] == [_ACTIVE]
    assert [note for note in rebuilt.notes if "db.t of source orders" in note and "lost" in note]
    assert two.pipeline.rows("t") == [{"id": 2, "v": "old"}]
    assert two.state("orders").replica is None
    assert two.run() == {}
    two.name("orders", "shop_orders")
    assert two.run() == {("orders", "t"): (State.PARKED, "REPLICA_TAKEN")}


@pytest.mark.slow
def test_tables_without_a_living_replica_keep_no_place_once_their_source_is_not_configured(
    spark: SparkSession, tmp_path: Path
) -> None:
    two = TwoSources(spark, tmp_path / "p", "")
    two.name("a")
    create = ddl("empty", 1, CreateTable((AddColumn("id", "bigint", "bigint"),), ("id",)))
    two.add("a", create, *(insert(table, 2, row(1)) for table in ("gone", "dropped", "left")))
    two.add("a", ddl("dropped", 3, DropTable()))
    two.run()
    shutil.rmtree(tmp_path / "p/lakehouse/gold/db/gone")
    two.pipeline.configure(
        "  - {match: db.left, exclude: true}\n  - {match: db.left, source: feed, exclude: false}\n"
    )
    two.name("feed")
    names = ("empty", "gone", "dropped", "left")
    two.add("feed", *(insert(table, 4, row(2)) for table in names))
    assert two.run() == {("feed", name): _ACTIVE for name in names}
