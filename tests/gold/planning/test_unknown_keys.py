"""A key whose values older rows do not show parks the table, until a load of a later epoch brings them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.tables import Deletes, TableSettings
from framework.contracts.ddl_actions import Action, AddColumn, DropColumn, RenameColumn, SetKeys, TableName
from gold.changes.profile import Profile
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.planning.unknown_keys import unknown_key_column
from gold.schema.columns import ColumnOrder
from gold.schema.lineage import ColumnAction, Lineage, Segment
from gold.schema.type_inference import ColumnEvidence
from tests.gold.silver_builder import ChangeSpec, GoldPipeline, ddl, insert, truncate, update

NAME = TableName("db", None, "t")
COUNTED = AddColumn("id", "int", "int", has_expression_default=True, is_not_null=True)
DEFAULT = AddColumn("id", "int", "int", default="0", is_not_null=True)
PLAIN = AddColumn("id", "int", "int")
Order = tuple[int, str, tuple[str, ...]]


def found(
    changes: Sequence[tuple[str, ColumnAction]],
    orders: Sequence[Order],
    *,
    keys: Sequence[tuple[str, tuple[str, ...]]] = (),
    truncates: Sequence[tuple[str, str]] = (),
    state: TableState | None = None,
    deletes: Deletes = Deletes.HARD,
    segments: tuple[Segment, ...] = (Segment(NAME, "", None),),
) -> str | None:
    """The column for the key (id); `orders` are the naming, the newest position and the columns of rows."""
    lineage = Lineage(NAME, segments, tuple(changes), tuple(truncates), tuple(keys))
    profile = Profile(
        rows=len(orders),
        min_sequence=min(at for _, at, _ in orders),
        max_sequence=max(at for _, at, _ in orders),
        column_orders=tuple(ColumnOrder(*order) for order in orders),
        evidence={(naming, name): ColumnEvidence() for naming, _, names in orders for name in names},
    )
    settings = TableSettings(deletes=deletes)
    task = Task("feed", lineage, state or TableState("feed", NAME, State.ACTIVE), settings, 1, 1, len(orders))
    return unknown_key_column(task, lineage, profile, ("id",))


OLD: Order = (0, "011.011.011", ("a",))
NEW: Order = (1, "011.011.015", ("a", "id"))
AT = "011.011.013"
IN_STATEMENT = ((AT, ("id",)),)


def test_a_computed_column_of_the_key_is_unknown_in_rows_from_before_it() -> None:
    assert found([(AT, COUNTED)], [OLD, NEW], keys=IN_STATEMENT) == "id"
    assert found([(AT, COUNTED)], [OLD, NEW], keys=[("011.011.014", ("id",))]) == "id"
    assert found([(AT, COUNTED)], [OLD], keys=IN_STATEMENT) == "id"
    assert found([(AT, COUNTED)], [NEW], keys=IN_STATEMENT) is None


def test_a_default_is_known_and_a_column_without_one_is_unknown_where_its_statement_makes_it_the_key() -> (
    None
):
    assert found([(AT, DEFAULT)], [OLD, NEW], keys=IN_STATEMENT) is None
    assert found([(AT, PLAIN)], [OLD, NEW], keys=[(AT, ("ID",))]) == "id"
    assert found([(AT, PLAIN)], [OLD, NEW], keys=[("011.011.014", ("id",))]) is None


def test_a_dropped_column_of_the_name_is_another_column() -> None:
    former: Order = (0, OLD[1], ("a", "id"))
    new: Order = (2, NEW[1], ("a", "id"))
    assert found([(AT, DropColumn("id")), (AT, COUNTED)], [former, new], keys=IN_STATEMENT) == "id"
    moved: Order = (0, OLD[1], ("a", "old_id"))
    renamed = [("011.011.012", RenameColumn("old_id", "id")), (AT, AddColumn("b", "int", "int"))]
    assert found(renamed, [moved, new]) is None


def test_rows_of_a_snapshot_count_as_older_and_have_the_column() -> None:
    loaded: Order = (0, "011.010.orders", ("a", "id"))
    assert found([(AT, COUNTED)], [loaded, NEW], keys=IN_STATEMENT) is None


@pytest.mark.parametrize(("deletes", "expected"), [(Deletes.HARD, None), (Deletes.IGNORE, "id")])
def test_rows_before_a_truncate_are_gone(deletes: Deletes, expected: str | None) -> None:
    truncates = [("011.011.012", "c")]
    gone = found([(AT, COUNTED)], [OLD, NEW], keys=IN_STATEMENT, truncates=truncates, deletes=deletes)
    assert gone == expected
    later: Order = (0, "011.011.0120", ("a",))
    assert found([(AT, COUNTED)], [later, NEW], keys=IN_STATEMENT, truncates=truncates) == "id"


def test_a_load_of_a_later_epoch_has_all_rows() -> None:
    loaded: Order = (1, "012.010.orders", ("a", "id"))
    assert found([(AT, COUNTED)], [OLD, NEW, loaded], keys=IN_STATEMENT) is None


def test_a_table_that_has_the_key_already_goes_on() -> None:
    built = TableState("feed", NAME, State.ACTIVE, replica="gold/db/t", keys=("id",), sequence=NEW[1])
    late = ("011.011.010", AddColumn("b", "int", "int"))
    again = (*IN_STATEMENT, ("011.011.016", ("id",)))
    assert found([(AT, COUNTED)], [OLD, NEW], keys=IN_STATEMENT, state=built) is None
    assert found([late, (AT, COUNTED)], [OLD, NEW], keys=again, state=built) is None
    added_again = [(AT, COUNTED), ("011.011.016", DropColumn("id")), ("011.011.016", COUNTED)]
    assert found(added_again, [OLD, NEW], keys=again, state=built) == "id"


def test_a_table_that_had_the_key_under_its_name_of_before_goes_on() -> None:
    former = Segment(TableName("db", None, "was"), "", "011.011.016")
    segments = (former, Segment(NAME, "011.011.016", None))
    assert found([(AT, COUNTED)], [OLD, NEW], keys=IN_STATEMENT, segments=segments) is None


SET = (COUNTED, SetKeys(("id",)))
STATEMENTS: dict[str, tuple[tuple[str, ...] | None, tuple[Action, ...]]] = {
    "keyless": (None, SET),
    "rekeyed": (("k",), (SetKeys(()), *SET)),
    "again": (("id",), (DropColumn("id"), *SET)),
}


def old_rows(table: str, keys: tuple[str, ...] | None) -> list[ChangeSpec]:
    name = "k" if keys is None else keys[0]
    return [
        insert(table, at, {name: str(at + 4), "a": value}, keys=keys) for at, value in ((1, "x"), (2, "y"))
    ]


@pytest.mark.slow
def test_a_key_that_the_source_fills_by_itself_parks_the_table_until_it_is_loaded_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p", "  - {match: db.again, history: true}\n")
    pipeline.add_batch(*(r for table, (keys, _) in STATEMENTS.items() for r in old_rows(table, keys)))
    pipeline.apply()
    before = {table: pipeline.state(table) for table in STATEMENTS}
    first = {table: pipeline._read(before[table].replica or "", ("_cdc_op",), "a") for table in STATEMENTS}

    def check_parked(table: str) -> None:
        state = pipeline.state(table)
        assert (state.state, (state.reason or "").split("\n")[0]) == (State.PARKED, "KEY_VALUES_UNKNOWN")
        assert "raised `epoch` of source feed" in (state.reason or "")
        assert pipeline._read(before[table].replica or "", ("_cdc_op",), "a") == first[table]

    for table, (_, actions) in STATEMENTS.items():
        pipeline.add_batch(ddl(table, 3, *actions))
    pipeline.apply()
    for table in STATEMENTS:
        check_parked(table)
    pipeline.add_batch(*(insert(table, 4, {"id": "3", "a": "w"}) for table in STATEMENTS))
    pipeline.apply()
    for table in STATEMENTS:
        check_parked(table)
    pipeline.rebuild("rekeyed")
    check_parked("rekeyed")

    values = enumerate(("x", "y2", "w"), start=1)
    loaded = [(number, {"id": str(number), "a": value}) for number, value in values]
    for table in STATEMENTS:
        pipeline.add_batch(*(insert(table, at, image, epoch=2) for at, image in loaded))
    applied = pipeline.apply()
    for table in STATEMENTS:
        assert (applied[table].state.state, applied[table].state.keys) == (State.ACTIVE, ("id",))
    pipeline.add_batch(
        *(update(table, 9, {"id": "1"}, {"id": "1", "a": "x3"}, epoch=2) for table in STATEMENTS),
    )
    applied = pipeline.apply()
    expected = [{"id": 1, "a": "x3"}, {"id": 2, "a": "y2"}, {"id": 3, "a": "w"}]
    for table in STATEMENTS:
        assert applied[table].state.state is State.ACTIVE
        rows = [{name: row[name] for name in ("id", "a")} for row in pipeline.rows(table)]
        assert rows == expected
    pipeline.rebuild("keyless")
    assert pipeline.rows("keyless") == expected


@pytest.mark.slow
def test_a_table_that_was_emptied_before_its_key_came_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    pipeline.add_batch(*old_rows("t", ("k",)))
    pipeline.apply()
    pipeline.add_batch(truncate("t", 3), ddl("t", 4, *SET), insert("t", 5, {"id": "1", "a": "w"}))
    assert pipeline.apply()["t"].state.state is State.ACTIVE
    assert [{name: row[name] for name in ("id", "a")} for row in pipeline.rows("t")] == [{"id": 1, "a": "w"}]
