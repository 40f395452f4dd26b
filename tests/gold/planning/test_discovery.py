"""Two tables never share a replica: the one that has it keeps it, the other gets an error."""

from __future__ import annotations

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import TableName
from gold.planning.discovery import _with_rivals
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.lineage import Lineage, Segment


def task(
    source: str,
    table: str,
    *,
    replica: str | None = None,
    has_replica: bool = False,
    renamed_to: TableName | None = None,
) -> Task:
    name = TableName("shop", None, table)
    lineage = Lineage(name, (Segment(name, "", None),), renamed_to=renamed_to)
    state = TableState(source, name, State.ACTIVE, replica="/somewhere" if has_replica else None)
    return Task(source, lineage, state, TableSettings(replica=replica), 0, 0, 1)


def rivals(*tasks: Task) -> list[str | None]:
    return [found.rival for found in _with_rivals(tasks)]


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
